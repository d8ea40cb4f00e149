#include "dist/watch/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/dtype.h"
#include "core/error.h"
#include "dist/comm/records.h"

namespace brigade::dist {

bool is_silent(const RankView& view) {
  return !view.left && view.silent > kSilence;
}

namespace {

using Views = std::vector<const RankView*>;

/// "rank 2" or "ranks 0, 1 and 3"
std::string names_of(const Views& views) {
  std::string text = views.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < views.size(); ++i) {
    text += i == 0 ? "" : i + 1 == views.size() ? " and " : ", ";
    text += std::to_string(views[i]->rank);
  }
  return text;
}

template <class Predicate>
Views select(std::span<const RankView> ranks, Predicate wanted) {
  Views views;
  for (const RankView& view : ranks) {
    if (!view.left && wanted(view)) {
      views.push_back(&view);
    }
  }
  return views;
}

/// "load batch", or what stands for code without a name.
std::string phase_of(const LedgerEntry& entry) {
  const std::string_view name = text_of(entry.phase);
  return name.empty() ? "code of the program" : std::string(name);
}

std::string seconds_text(double seconds) {
  return fmt::format("{} s", std::llround(seconds));
}

/// " of step 812"; nothing in a program that does not tell its steps.
std::string step_text(const LedgerEntry& entry, const char* before = " of step ") {
  return entry.step > 0 ? fmt::format("{}{}", before, entry.step) : "";
}

std::string label_of(const LedgerEntry& entry) {
  const std::string_view label = text_of(entry.label);
  return std::string(label.empty() ? "an unlabelled all-reduce" : label);
}

/// "bucket_3 (4.weight, 4.bias) of step 812"
std::string collective_text(const LedgerEntry& entry, const Describe& describe) {
  return describe(label_of(entry)) + step_text(entry);
}

/// "; ranks 0 and 1 wait"
std::string waiting_text(const Views& views) {
  return views.empty()
             ? ""
             : fmt::format("; {} {}", names_of(views), views.size() == 1 ? "waits" : "wait");
}

Diagnosis make(const Views& culprits, std::string text) {
  Diagnosis result;
  result.text = std::move(text);
  result.others_may_go_on = true;
  result.may_end_well = std::ranges::all_of(culprits, [](const RankView* view) {
    return !is_silent(*view) && !view->gone && text_of(view->last.phase) == kWritesFiles;
  });
  std::ranges::transform(culprits, std::back_inserter(result.culprits),
                         [](const RankView* view) { return view->rank; });
  return result;
}

/// "bucket_3 of step 812", which `first` has not reached, or "the barrier after step 812"
std::string goal_text(const RankView& first, const LedgerEntry& reached, const LedgerEntry& other,
                      const Describe& describe) {
  return first.last.number < reached.number
             ? collective_text(reached, describe)
             : fmt::format("the {}{}", phase_of(other), step_text(other, " after step "));
}

Diagnosis ended_early(const Views& early, const LedgerEntry& reached, const Views& waiting,
                      const Describe& describe) {
  const LedgerEntry& other = waiting.empty() ? reached : waiting.front()->last;
  Diagnosis result = make(early, fmt::format("{} {} ended{} and will not reach {}{}",
                                             names_of(early), early.size() == 1 ? "has" : "have",
                                             step_text(early.front()->last, " after step "),
                                             goal_text(*early.front(), reached, other, describe),
                                             waiting_text(waiting)));
  result.hopeless = true;
  return result;
}

Diagnosis no_answer(const Views& silent, const Views& waiting) {
  const LedgerEntry& last = silent.front()->last;
  return make(silent,
              fmt::format("{} {} not answer for {} (stopped, or the host hangs or cannot be "
                          "reached), last seen in {}{}{}",
                          names_of(silent), silent.size() == 1 ? "does" : "do",
                          seconds_text(silent.front()->silent), phase_of(last), step_text(last),
                          waiting_text(waiting)));
}

Diagnosis all_wait(const RankView& view, const LedgerEntry& reached, const Describe& describe) {
  Diagnosis result;
  result.text =
      fmt::format("all ranks wait for each other for {}, and {}", seconds_text(view.unchanged),
                  reached.in_flight()
                      ? fmt::format("all have reached {}: look at the network between them",
                                    collective_text(reached, describe))
                      : fmt::format("none is in a collective; they are in {}", phase_of(reached)));
  return result;
}

Diagnosis not_reached(const Views& culprits, const Views& others, const LedgerEntry& reached,
                      const Describe& describe) {
  const RankView& first = *culprits.front();
  return make(culprits,
              fmt::format("{} {} not reached {}; {} in {} for {}{}", names_of(culprits),
                          culprits.size() == 1 ? "has" : "have",
                          goal_text(first, reached, others.front()->last, describe),
                          culprits.size() == 1 ? "it is" : "they are", phase_of(first.last),
                          seconds_text(first.unchanged), waiting_text(others)));
}

}  // namespace

std::optional<Diagnosis> diagnose(std::span<const RankView> ranks, double seconds,
                                  const Describe& describe) {
  const Views present = select(ranks, [](const RankView&) { return true; });
  const Views silent = select(ranks, is_silent);
  const Views waiting =
      select(ranks, [](const RankView& v) { return v.last.waiting() && !is_silent(v); });
  const bool progress =
      std::ranges::any_of(present, [&](const RankView* view) { return view->unchanged < seconds; });
  if (progress || (silent.empty() && waiting.empty())) {
    return std::nullopt;
  }
  const auto number = [](const RankView* view) { return view->last.number; };
  const LedgerEntry& reached = (*std::ranges::max_element(present, {}, number))->last;
  // In a barrier or the like, not in a collective: nobody who is there will end it.
  const bool all_wait_on_hosts = std::ranges::all_of(present, [](const RankView* view) {
    const std::string_view phase = text_of(view->last.phase);
    return phase == kBarrier || phase == kAllGather || phase == kBroadcast;
  });
  Views early;  // they have ended, and others need them
  for (const RankView& view : ranks) {
    if (view.left && (view.last.number < reached.number ||
                      (view.last.number == reached.number && all_wait_on_hosts))) {
      early.push_back(&view);
    }
  }
  if (!early.empty()) {
    return ended_early(early, reached, waiting, describe);
  }
  if (!silent.empty()) {
    return no_answer(silent, waiting);
  }
  Views culprits = select(ranks, [](const RankView& view) { return !view.last.waiting(); });
  if (culprits.empty()) {
    culprits = select(ranks, [&](const RankView& v) { return v.last.number < reached.number; });
  }
  if (culprits.empty()) {
    return all_wait(*present.front(), reached, describe);
  }
  const Views others = select(ranks, [&](const RankView& view) {
    return std::ranges::find(culprits, &view) == culprits.end();
  });
  return not_reached(culprits, others, reached, describe);
}

std::optional<Diagnosis> diagnose_lost(std::span<const RankView> ranks, double seconds) {
  const Views lost = select(ranks, [=](const RankView& v) { return v.gone && v.silent > seconds; });
  if (lost.empty()) {
    return std::nullopt;
  }
  const LedgerEntry& last = lost.front()->last;
  return make(lost,
              fmt::format("{} {} ended without a word (killed?), last seen in {}{}", names_of(lost),
                          lost.size() == 1 ? "has" : "have", phase_of(last), step_text(last)));
}

std::optional<Diagnosis> diagnose_mismatch(const LedgerEntry& mine, int my_rank,
                                           const LedgerEntry& theirs, int their_rank) {
  if (mine.bytes == theirs.bytes && mine.dtype == theirs.dtype && mine.label == theirs.label) {
    return std::nullopt;
  }
  const auto what = [](const LedgerEntry& entry) {
    return fmt::format("{} of {} bytes, {}{}", label_of(entry), entry.bytes,
                       static_cast<DType>(entry.dtype), step_text(entry, ", step "));
  };
  return Diagnosis{.culprits = {their_rank},
                   .text = fmt::format("collective number {} is {} on rank {} and {} on rank {}: "
                                       "the ranks do not run the same program on the same network",
                                       mine.number, what(mine), my_rank, what(theirs), their_rank)};
}

}  // namespace brigade::dist
