#include "dist/watch/watch.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/io/atomic_file.h"
#include "core/runtime/context.h"
#include "dist/comm/fallback.h"
#include "dist/sockets/socket_address.h"
#include "dist/watch/ledger_exchange.h"
#include "dist/watch/stall_report.h"

namespace brigade::dist {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBeat{250};
/// This process was suspended, and so may the others have been: what they sent comes only now.
constexpr milliseconds kLate{1000};
constexpr int kExitCode = 5;
constexpr double kForStacks = 4.0;  // seconds before the end
constexpr double kHopeless = 6.0;   // seconds: a last message may be late on a bad network
/// Collectives of a rank that leaves to go on without others: nobody is to think that it is waited
/// for.
constexpr auto kWentOn = std::numeric_limits<decltype(LedgerEntry::number)>::max();

/// A stopped process does not see a launcher's gentler signals. Not before this process has ended,
/// because the launcher reports the exit code of the first that ends.
void kill_soon(pid_t process) {
  constexpr useconds_t kDelayUs = 200'000;
  if (fork() == 0) {  // from here on only what a signal handler may call, too
    usleep(kDelayUs);
    kill(process, SIGKILL);
    _exit(0);
  }
}

}  // namespace

Watch::Watch(Communicator& comm, WatchOptions options)
    : comm_(comm),
      options_(std::move(options)),
      ledger_(std::make_shared<Ledger>(Context::current().scope_names())) {
  if (comm_.size() == 1 || !options_.enabled) {
    return;
  }
  std::string why = complaints_about(comm_, [] { make_endpoint(); });
  if (why.empty()) {
    why = complaints_about(comm_, [this] { exchange_ = std::make_unique<LedgerExchange>(comm_); });
  }
  if (!why.empty()) {  // the job may still run: MPI has other networks
    exchange_.reset();
    if (comm_.rank() == 0) {
      report_line(
          fmt::format("[rank 0] warning: nobody watches for ranks that stand still: {}", why));
    }
    return;
  }
  compared_.resize(static_cast<std::size_t>(comm_.size()));
  // The ledger lives as long as a collective that is in flight when this ends.
  comm_.add_wrap([ledger = ledger_](const Tensor& payload, std::string_view label,
                                    Communicator::Collective collective) {
    return [ledger, payload, label = std::string(label),
            collective = std::move(collective)](Collectives& ranks) {
      ledger->collective_begins(label, payload);
      const struct End {  // also if the collective throws
        Ledger& ledger;
        ~End() { ledger.collective_ends(); }
      } end{*ledger};
      collective(ranks);
    };
  });
  thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  if (thread_.joinable()) {
    leaving_ = true;
    exchange_->wake();
    thread_.join();
    comm_.remove_wrap();
    if (handled_ || std::uncaught_exceptions() == exceptions_at_start_) {
      LedgerEntry last = ledger_->now(LedgerEntry::Kind::leaves);
      last.number = handled_ ? kWentOn : last.number;
      exchange_->send(std::vector{last});
    }
  }
}

void Watch::set_report(std::filesystem::path report) {
  const std::lock_guard lock(mutex_);
  report_ = std::move(report);
}

std::filesystem::path Watch::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

void Watch::set_contents(std::map<std::string, std::string> contents) {
  const std::lock_guard lock(mutex_);
  contents_ = std::move(contents);
}

std::string Watch::describe(std::string_view label) const {
  const std::lock_guard lock(mutex_);
  const auto found = contents_.find(std::string(label.substr(0, label.find('['))));
  const bool adds = found != contents_.end() && found->second != found->first;
  return adds ? fmt::format("{} ({})", label, found->second) : std::string(label);
}

void Watch::run() {
  pthread_setname_np(pthread_self(), "brigade-watch");
  while (!leaving_) {
    std::vector<LedgerEntry> entries = ledger_->take_new();
    entries.push_back(ledger_->now());
    exchange_->send(entries);
    const auto deadline = std::chrono::steady_clock::now() + kBeat;
    exchange_->receive(deadline);
    const bool paused_by_gdb = stacks_.contains(comm_.rank());
    if (std::chrono::steady_clock::now() > deadline + kLate && !paused_by_gdb) {
      exchange_->forgive();
    } else if (!leaving_) {
      look();
    }
  }
}

void Watch::look() {
  std::vector<RankView> views = exchange_->views();
  for (auto& [rank, stacks] : stacks_) {  // a rank that was heard until gdb came is not silent
    double& silent = views[static_cast<std::size_t>(rank)].silent;
    silent = silent - stacks.seconds_of_pause() > kSilence ? silent : 0.0;
  }
  const auto described = [this](std::string_view label) { return describe(label); };
  const auto standstill = [&](double seconds) {
    return seconds > 0.0 ? diagnose(views, seconds, described) : std::nullopt;
  };
  std::optional<Diagnosis> fatal = diagnose_lost(views, options_.lost_after);
  for (const RankView& view : views) {
    fatal = fatal ? fatal : compare_with(view.rank);
  }
  const auto ended = standstill(std::min(kHopeless, options_.end_after));
  fatal = !fatal && ended && ended->hopeless ? ended : fatal;
  fatal = fatal ? fatal : standstill(options_.end_after);
  if (fatal && !fatal->may_end_well) {
    end(*fatal, views);
    return;
  }
  end_if_given_up(views);
  look_into_threads(standstill(options_.end_after - std::min(kForStacks, options_.end_after / 2)),
                    views);
  const std::optional<Diagnosis> slow = standstill(options_.warn_after);
  if (slow && !warned_ && speaker_among(views) == comm_.rank()) {
    report_line(fmt::format("[rank {}] watch: {}", comm_.rank(), slow->text));
  }
  warned_ = slow.has_value();
}

/// Those of culprits on this host, for the report: the job is about to end. If nobody is to blame,
/// of all ranks but this one, whose watch would pause with it.
void Watch::look_into_threads(const std::optional<Diagnosis>& end_is_near,
                              const std::vector<RankView>& views) {
  if (!end_is_near || report().empty() || speaker_among(views) != comm_.rank()) {
    std::erase_if(stacks_, [](const auto& stacks) { return stacks.second.done(); });
    return;
  }
  for (const RankView& view : views) {
    const bool wanted = end_is_near->culprits.empty()
                            ? view.rank != comm_.rank()
                            : std::ranges::count(end_is_near->culprits, view.rank) > 0;
    const LedgerExchange::Peer& peer = exchange_->peer(view.rank);
    const bool seems_silent = view.silent > kSilence / 2;  // wait until it is
    if (wanted && peer.sees_same_processes && !view.left && !view.gone &&
        seems_silent == is_silent(view)) {
      stacks_.try_emplace(view.rank, peer.process);
    }
  }
}

/// Their collectives since the last call with this rank's of the same numbers.
std::optional<Diagnosis> Watch::compare_with(int rank) {
  std::uint64_t& compared = compared_[static_cast<std::size_t>(rank)];
  for (const LedgerEntry& theirs : exchange_->peer(rank).entries) {
    for (const LedgerEntry& mine : exchange_->peer(comm_.rank()).entries) {
      if (theirs.number > compared && theirs.number == mine.number) {
        compared = mine.number;
        if (auto mismatch = diagnose_mismatch(mine, comm_.rank(), theirs, rank)) {
          return mismatch;
        }
      }
    }
  }
  return std::nullopt;
}

/// The others went on, and this rank sees no reason to: it is the reason, and never to come back.
void Watch::end_if_given_up(const std::vector<RankView>& views) {
  constexpr int kBeats = 8;  // for this rank to notice what they have
  const auto went_on = [](const RankView& view) {
    return view.left && view.last.number == kWentOn;
  };
  beats_alone_ = std::ranges::any_of(views, went_on) ? beats_alone_ + 1 : 0;
  if (beats_alone_ > kBeats) {
    report_line(
        fmt::format("[rank {}] watch: the other ranks go on without this one", comm_.rank()));
    std::_Exit(kExitCode);
  }
}

/// Of the ranks that can still speak, the lowest does. One whose connection has just closed has: it
/// ended the job a moment ago.
int Watch::speaker_among(const std::vector<RankView>& views) {
  const auto first = std::ranges::find_if(
      views, [](const RankView& view) { return !view.left && !is_silent(view); });
  return first != views.end() ? first->rank : -1;
}

/// At most a second.
void Watch::let_speak(int speaker) {
  using std::chrono::steady_clock;
  constexpr milliseconds kPause{10};
  const auto deadline = steady_clock::now() + milliseconds(1000);
  while (steady_clock::now() < deadline && (speaker < 0 || !exchange_->peer(speaker).view.gone)) {
    exchange_->receive(steady_clock::now() + kPause);
  }
}

void Watch::end(const Diagnosis& diagnosis, const std::vector<RankView>& views) {
  leaving_ = true;
  const int speaker = speaker_among(views);
  if (options_.end && speaker == comm_.rank()) {
    kill_silent(diagnosis, views);
  }
  handled_ = options_.end && options_.end(diagnosis);
  if (handled_) {
    return;
  }
  if (speaker != comm_.rank()) {
    let_speak(speaker);
    std::_Exit(kExitCode);
  }
  std::string written;
  if (const std::filesystem::path file = report(); !file.empty()) {
    try {
      write_file_atomically(file, stall_report(diagnosis, *exchange_, stacks_));
      written = fmt::format(" ({})", file.string());
    } catch (const Error& error) {
      written = fmt::format(" ({})", error.what());
    }
  }
  report_line(
      fmt::format("[rank {}] watch: {}; the job ends{}", comm_.rank(), diagnosis.text, written));
  kill_silent(diagnosis, views);
  std::_Exit(kExitCode);  // not exit(): the rank's own thread may hold any lock
}

/// Those on this host.
void Watch::kill_silent(const Diagnosis& diagnosis, const std::vector<RankView>& views) const {
  for (const int rank : diagnosis.culprits) {
    const LedgerExchange::Peer& culprit = exchange_->peer(rank);
    const RankView& view = views[static_cast<std::size_t>(rank)];
    if (culprit.sees_same_processes && is_silent(view) && !view.gone) {  // gone: its number is free
      kill_soon(culprit.process);
    }
  }
}

}  // namespace brigade::dist
