#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/runtime/trace.h"
#include "core/tensor.h"

namespace brigade::dist {

/// One line of a rank's ledger: something that happened, or where the rank is now. Also a message
/// on the wire, so plain data of a fixed size.
struct LedgerEntry {
  enum class Kind : std::uint32_t {
    begins,  ///< a collective
    ends,    ///< a collective
    now,     ///< nothing happened; sent while the process is alive
    leaves   ///< the last entry of a rank that ends in peace
  };
  using Name = std::array<char, 64>;

  Kind kind = Kind::now;
  std::uint32_t dtype = 0;
  std::int64_t step = 0;     ///< counted from 1; 0: before the first
  std::uint64_t number = 0;  ///< collectives begun, this one included
  std::uint64_t ended = 0;   ///< collectives ended
  std::uint64_t bytes = 0;   ///< of the last collective begun, as its type and label are
  double seconds = 0.0;      ///< since the ledger was made
  Name label{};
  Name phase{};             ///< what the rank's own thread does; empty: code of the program
  std::uint64_t waits = 0;  ///< 1: that is to wait for other ranks

  bool in_flight() const { return number > ended; }
  bool waiting() const { return in_flight() || waits != 0; }
};

std::string_view text_of(const LedgerEntry::Name& name);

/// What a rank has done lately. Written by the rank's own thread and its communication stream's,
/// read by the watch's.
class Ledger {
 public:
  static constexpr std::size_t kKept = 64;

  /// `scopes`: of the rank's own thread; must outlive this.
  explicit Ledger(const ScopeNames& scopes) : scopes_(scopes) {}

  void begin_step(std::int64_t step);
  void collective_begins(std::string_view label, const Tensor& payload);
  void collective_ends() noexcept;

  /// The entries since the last call, at most the last kKept.
  std::vector<LedgerEntry> take_new();
  /// Where the rank is now.
  LedgerEntry now(LedgerEntry::Kind kind = LedgerEntry::Kind::now) const;

 private:
  LedgerEntry filled_in(LedgerEntry::Kind kind) const;
  void append(LedgerEntry::Kind kind);

  const ScopeNames& scopes_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  LedgerEntry current_;  // step, numbers, and the last collective begun
  std::deque<LedgerEntry> new_;
};

}  // namespace brigade::dist
