#pragma once

#include <cstdint>
#include <string>

/// --inject: a fault that a run is to have on purpose (training/inject.h).
namespace brigade::apps {

enum class FaultKind {
  slow,
  skip_param,
  swap_buckets,
  other_seed,
  nan,
  kill,
  stop,
  spin,
  bit_flip,
  wire_flip
};

/// The value of `--inject`.
struct Fault {
  FaultKind kind = FaultKind::slow;
  std::string text;       ///< as typed
  std::int64_t rank = 1;  ///< the only one that has it
  double ms = 20.0;       ///< slow: longer in every forward
  std::int64_t step = 3;  ///< nan, kill, stop, spin, bit_flip, wire_flip: counted from 1
  std::string name;       ///< skip_param: the parameter; empty: the first
  bool in = false;        ///< wire_flip: in what the rank sends; else in what it gets
};

/// "slow:rank=1,ms=20": a kind and its keys, each with a default. UsageError for anything else.
Fault parse_fault(const std::string& flag, const std::string& text);

}  // namespace brigade::apps
