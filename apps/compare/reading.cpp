#include "apps/compare/reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/metrics/figure.h"

namespace brigade::apps {

namespace {

/// When backward ends without communication, in ms after the start of the step.
double backward_end(const Comparison& result) {
  return result.ideal.timing.median.forward + result.ideal.timing.median.backward;
}

/// Whether the times of a mode are so few or spread so far that medians say little.
bool unsteady(const Comparison& result) {
  constexpr std::size_t kFew = 10;
  return result.ideal.timing.measured_steps < kFew ||
         std::any_of(result.modes.begin(), result.modes.end(), [](const ModeResult& mode) {
           return mode.timing.step_p90 > 1.5 * mode.timing.step_p10;
         });
}

/// Advice that lets the first bucket leave earlier, or why there is none.
std::string smaller_buckets(const ModeResult& overlap) {
  const std::vector<CollectiveTimes>& collectives = overlap.timing.collectives;
  const std::vector<std::string>& labels = overlap.trace.ranks[0].steps[0].spans.labels;
  double most = 0.0;  // bytes of a bucket of several parameters
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    if (contents_of(overlap.trace, labels.at(i)).find(',') != std::string::npos) {
      most = std::max(most, static_cast<double>(collectives[i].bytes));
    } else if (i == 0) {
      return "it holds one parameter, so a smaller --bucket-mb would not split it";
    }
  }
  return fmt::format("--bucket-mb {:.2g} starts earlier and leaves less to send at the end",
                     0.5 * kMiB * most);
}

std::string about_exposure(const RunInfo& info, const Comparison& result,
                           const ModeResult& overlap) {
  const TimingSummary& t = overlap.timing;
  std::string text = fmt::format(
      "overlap hides {:.0f} % of its {:.2f} ms of communication; {:.2f} ms per step stay exposed.",
      100.0 * t.hidden_fraction, t.median.comm, t.median.exposed);
  if (t.collectives.empty() || overlap.trace.ranks.empty() ||
      t.median.exposed < 0.02 * t.median.step) {
    return text;
  }
  const CollectiveTimes& tail = t.collectives.back();
  const std::string& label =
      overlap.trace.ranks[0].steps[0].spans.labels.at(t.collectives.size() - 1);
  text += fmt::format(
      " The last to arrive is {} ({}; {:.2f} MiB): ready at {:.2f} ms, sent at {:.2f}, there at "
      "{:.2f}, while backward alone would end at {:.2f}.",
      label, short_contents_of(overlap.trace, label), kMiB * static_cast<double>(tail.bytes),
      tail.ready, tail.begin, tail.end, backward_end(result));
  const double hideable = result.ideal.timing.median.backward;
  // With micro-batches that each synchronise, the first bucket leaves in the first of them.
  const auto parts = static_cast<double>(info.options.accum);
  const double begun = t.collectives.front().begin - t.median.forward / parts;
  const double share = std::clamp(begun / (hideable / parts), 0.0, 1.0);
  text += fmt::format(" The first bucket left when {:.0f} % of backward was over", 100.0 * share);
  if (share > 0.2) {
    text += "; " + smaller_buckets(overlap);
  }
  text += ".";
  if (t.median.comm > 0.9 * hideable) {
    text += fmt::format(
        " Communication takes as long as backward ({:.2f} ms) or longer: the link is a limit, and "
        "fewer bytes help (--accum K with no_sync, --comm-hook).",
        hideable);
  }
  return text;
}

/// Sentences that compare times of different modes, so they need steady times.
std::vector<std::string> differences(const RunInfo& info, const Comparison& result,
                                     const ModeResult& overlap) {
  std::vector<std::string> lines{
      fmt::format("Beside communication backward takes {:.2f} ms, without it {:.2f}.",
                  overlap.timing.median.backward, result.ideal.timing.median.backward)};
  const ModeResult* naive = result.find("naive");
  const double bound = bound_ms(info, result);
  if (naive != nullptr && bound > 0.0 && naive->timing.step > 1.02 * bound) {
    const double gained = naive->timing.step - overlap.timing.step;
    lines.push_back(fmt::format(
        "A perfect reducer would need {:.2f} ms: overlap {} {:.0f} % of what naive leaves to gain.",
        bound, gained > 0.0 ? "reaches" : "is slower than naive by",
        100.0 * std::abs(gained) / (naive->timing.step - bound)));
  }
  return lines;
}

}  // namespace

double bound_ms(const RunInfo& info, const Comparison& result) {
  const ModeResult* flat = result.find("flat");
  const std::vector<CollectiveTimes>& ready = result.ideal.timing.collectives;
  if (flat == nullptr || info.options.accum > 1 ||
      flat->timing.collectives.size() != ready.size()) {
    return 0.0;
  }
  double end = 0.0;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const CollectiveTimes& sent = flat->timing.collectives[i];
    end = std::max(ready[i].ready, end) + (sent.end - sent.begin);
  }
  return std::max(backward_end(result), end) + result.ideal.timing.median.optimizer;
}

std::vector<std::string> reading(const RunInfo& info, const Comparison& result) {
  if (info.ranks.size == 1) {
    return {"One rank has nobody to communicate with; start several with mpirun -np N."};
  }
  std::vector<std::string> lines;
  const ModeResult* overlap = result.find("overlap");
  const ModeResult* no_sync = result.find("no_sync");
  if (const std::optional<Straggler> slow = result.ideal.timing.straggler) {
    const bool computes = slow->reason == Straggler::Reason::compute;
    lines.push_back(fmt::format(
        "Rank {} {} {:.2f} ms per step, the others {:.2f}: {}. Look at its host first.", slow->rank,
        computes ? "computes" : "reads its data for", slow->ms, slow->others,
        computes ? "most of their communication is waiting for it"
                 : "they wait for it before each step"));
  } else if (overlap != nullptr) {
    lines.push_back(about_exposure(info, result, *overlap));
  }
  if (unsteady(result)) {
    lines.emplace_back(
        "The steps of one mode differ by more than half, or are too few to tell (--rounds, "
        "--steps): something else may run on this machine, and differences between the modes mean "
        "little.");
  } else if (overlap != nullptr) {
    const std::vector<std::string> more = differences(info, result, *overlap);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  if (overlap != nullptr && no_sync != nullptr) {
    lines.push_back(fmt::format(
        "no_sync sends {:.2f} MiB per step instead of {:.2f} and is {:.2f} times as fast.",
        kMiB * no_sync->traffic.bytes_reduced, kMiB * overlap->traffic.bytes_reduced,
        overlap->timing.step / no_sync->timing.step));
  }
  if (info.ranks.hosts == 1 && !info.device.is_cuda() && !info.options.emulated_link) {
    lines.emplace_back(
        "The ranks share this host's memory: the cores that compute also copy for the all-reduce, "
        "which cannot be hidden. scripts/netlab.sh or --emulate-link show what overlap does "
        "between hosts.");
  }
  const auto best = std::max_element(
      result.modes.begin(), result.modes.end(), [](const ModeResult& a, const ModeResult& b) {
        return a.timing.samples_per_second < b.timing.samples_per_second;
      });
  lines.push_back(fmt::format(
      "One rank alone: {:.0f} samples/s. {} ranks ({}): {:.0f} samples/s, {:.2f} times as many.",
      result.alone_samples_per_second, info.ranks.size, best->mode, best->timing.samples_per_second,
      best->timing.samples_per_second / result.alone_samples_per_second));
  return lines;
}

}  // namespace brigade::apps
