#pragma once

#include <atomic>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dist/comm/communicator.h"
#include "dist/watch/diagnosis.h"
#include "dist/watch/ledger.h"
#include "dist/watch/thread_stacks.h"

namespace brigade::dist {

class LedgerExchange;

struct WatchOptions {
  /// Seconds without progress until a line says who is waited for; 0: never.
  double warn_after = 10.0;
  double end_after = 120.0;  ///< likewise until the job ends
  bool enabled = true;       ///< false: does nothing, as with one rank
  /// Seconds for the launcher to end the job when a process has ended without a word: the rank's
  /// own line and mpirun need up to four.
  double lost_after = 6.0;
  /// Called on every rank in the end, by the watch's thread. False, as without it: the process ends
  /// with exit code 5.
  std::function<bool(const Diagnosis&)> end = {};
};

/// Finds out why a job stands still. While it lives, a thread of each rank sends the rank's ledger
/// to all others four times a second and looks at theirs, also while the rank's own thread is
/// blocked in a collective, in MPI or in NCCL.
///
/// If no rank makes progress and one waits for another, the lowest rank that is able to prints who
/// is waited for, and where that rank is. Later it writes a report, and every rank ends its
/// process. It ends the job at once when two ranks' collectives do not match, which would hang or
/// add unrelated numbers. It does so after six seconds when a rank that others wait for has ended,
/// or when a process is gone and the launcher has not ended the job. A rank that is busy with files
/// is named, but the job goes on.
///
/// On a GPU the host does not see a collective end, so there a rank waits where its own thread
/// waits for the device. The thread of the watch sleeps in poll(2) and touches no stream.
class Watch {
 public:
  /// Collective over `comm`, which must outlive this; connects every pair of ranks by TCP
  /// (sockets/socket_connect.h). Before the first collective. With one rank it does nothing.
  Watch(Communicator& comm, WatchOptions options);
  /// Every rank leaves by itself. If an exception is on its way out, the others are not told that
  /// all is well.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// False with one rank, and where the ranks cannot connect, which the constructor has printed.
  bool works() const { return thread_.joinable(); }
  /// Steps count from 1: what a message calls them.
  void begin_step(std::int64_t step) { ledger_->begin_step(step); }
  /// Where to write stall.json when the job ends; nowhere before.
  void set_report(std::filesystem::path report);
  /// The parameters in each collective, by its label, for messages.
  void set_contents(std::map<std::string, std::string> contents);

 private:
  void run();
  void look();
  void look_into_threads(const std::optional<Diagnosis>& end_is_near,
                         const std::vector<RankView>& views);
  std::optional<Diagnosis> compare_with(int rank);
  void end_if_given_up(const std::vector<RankView>& views);
  static int speaker_among(const std::vector<RankView>& views);
  void let_speak(int speaker);
  void end(const Diagnosis& diagnosis, const std::vector<RankView>& views);
  void kill_silent(const Diagnosis& diagnosis, const std::vector<RankView>& views) const;
  std::string describe(std::string_view label) const;
  std::filesystem::path report() const;

  Communicator& comm_;
  WatchOptions options_;
  std::shared_ptr<Ledger> ledger_;
  std::unique_ptr<LedgerExchange> exchange_;
  std::vector<std::uint64_t> compared_;  // by rank: the number of the last collective compared
  bool warned_ = false;                  // of this stall
  std::map<int, ThreadStacks> stacks_;   // by rank
  int beats_alone_ = 0;
  bool handled_ = false;      // by options_.end
  mutable std::mutex mutex_;  // of the next two
  std::filesystem::path report_;
  std::map<std::string, std::string> contents_;
  std::atomic<bool> leaving_ = false;
  int exceptions_at_start_ = std::uncaught_exceptions();
  std::thread thread_;
};

}  // namespace brigade::dist
