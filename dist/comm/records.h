#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/runtime/stream.h"

/// What a Communicator notes of its work, for traces and measurements.
namespace brigade::dist {

/// Names of the scopes (core/runtime/trace.h) in which a rank's own thread waits for other ranks.
inline constexpr const char* kBarrier = "barrier";
inline constexpr const char* kAllGather = "all-gather";
inline constexpr const char* kBroadcast = "broadcast";

/// When one collective or wait happened, on the device's own clock.
struct CollectiveRecord {
  std::string label;  ///< as given to all_reduce
  std::size_t bytes = 0;
  Event ready;  ///< compute stream: the data was final
  Event begin;  ///< communication stream: the collective started
  Event end;    ///< communication stream: it finished
};
struct WaitRecord {
  Event begin;  ///< compute stream: it had nothing left to do but wait
  Event end;
};

struct CommTimes {
  bool on = false;
  std::vector<CollectiveRecord> collectives;
  std::vector<WaitRecord> waits;

  /// The point that `stream` has reached; no event while off.
  Event now(Stream& stream) const { return on ? stream.record(Timing::on) : Event(); }
};

/// What a communicator has done, counted from some moment on.
struct Traffic {
  std::uint64_t collectives = 0;
  std::uint64_t bytes_reduced = 0;  ///< handed to them
  std::uint64_t bytes_sent = 0;     ///< by this rank

  Traffic operator-(const Traffic& before) const {
    return {collectives - before.collectives, bytes_reduced - before.bytes_reduced,
            bytes_sent - before.bytes_sent};
  }
};

}  // namespace brigade::dist
