#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dist/watch/ledger.h"

namespace brigade::dist {

/// What one rank knows of another, or of itself.
struct RankView {
  int rank = 0;
  LedgerEntry last = {};   ///< the newest it has sent
  double silent = 0.0;     ///< seconds since then
  double unchanged = 0.0;  ///< seconds since step, collectives or phase have changed
  bool left = false;       ///< it has ended in peace
  bool gone = false;       ///< its connection is closed, and it has not said why
};

struct Diagnosis {
  std::vector<int> culprits;  ///< the ranks that the others wait for; empty: not known
  /// All culprits answer and are busy with files, which may take any time.
  bool may_end_well = false;
  /// They have ended, so that no time will help.
  bool hopeless = false;
  /// The other ranks could go on without the culprits (dist/elastic/).
  bool others_may_go_on = false;
  std::string text;  ///< "rank 2 has not reached bucket_3 of step 812; ..."
};

/// Seconds without a word from a process that should send several in each.
inline constexpr double kSilence = 2.0;

/// Whether `view` is of a process that has stopped, hangs in the kernel or cannot be reached.
bool is_silent(const RankView& view);

/// Adds the parameters to the label of a collective, or returns the label itself.
using Describe = std::function<std::string(std::string_view)>;

/// Why the job has made no progress for `seconds`; nothing if it has made some, or if no rank waits
/// for another.
std::optional<Diagnosis> diagnose(std::span<const RankView> ranks, double seconds,
                                  const Describe& describe);

/// A process that ended without a word more than `seconds` ago.
std::optional<Diagnosis> diagnose_lost(std::span<const RankView> ranks, double seconds);

/// Two ranks' collectives of the same number differ in size, type or label.
std::optional<Diagnosis> diagnose_mismatch(const LedgerEntry& mine, int my_rank,
                                           const LedgerEntry& theirs, int their_rank);

}  // namespace brigade::dist
