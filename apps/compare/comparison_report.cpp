#include "apps/compare/comparison_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/config.h"

namespace brigade::apps {

namespace {

/// In percent.
std::string slower_text(const BesideComm& beside) {
  return beside.operations > 0 ? fmt::format("{:.0f}", 100.0 * beside.slower()) : "-";
}

ModeRow row_of(const Comparison& result, const ModeResult& mode) {
  const TimingSummary& t = mode.timing;
  const auto ms = [](double value) { return fmt::format("{:.2f}", value); };
  ModeRow row{.name = &mode == &result.ideal ? "(none)" : mode.mode,
              .cells = {ms(t.step), ms(t.step_p10), ms(t.step_p90), ms(t.median.forward),
                        ms(t.median.backward)}};
  if (&mode != &result.ideal && t.communicates) {
    row.cells.insert(
        row.cells.end(),
        {ms(t.median.comm), ms(t.median.exposed), fmt::format("{:.0f}", 100.0 * t.hidden_fraction),
         slower_text(mode.beside), fmt::format("{:g}", mode.collectives_per_step),
         fmt::format("{:.2f}", mode.bytes_per_step / 0x1p20),
         fmt::format("{:.2f}", mode.bytes_sent_per_step / 0x1p20)});
  } else {
    row.cells.insert(row.cells.end(), 7, "-");
  }
  row.cells.push_back(fmt::format("{:.0f}", t.samples_per_second));
  row.cells.push_back(fmt::format("{:.2f}", speed_up(result, mode)));
  return row;
}

std::string check_text(const Comparison& result) {
  const bool ranks_equal = std::all_of(result.modes.begin(), result.modes.end(),
                                       [](const ModeResult& mode) { return mode.ranks_equal; });
  double between = 0.0;
  double one_rank = 0.0;
  for (const ModeResult& mode : result.modes) {
    // NaN is no less than any number; once there, it stays.
    between = std::isnan(between) ? between : std::max(mode.against_first, between);
    one_rank = std::isnan(one_rank) ? one_rank : std::max(mode.against_one_rank, one_rank);
  }
  return fmt::format(
      "after {} steps: ranks {}; modes {}; all ranks together and one rank alone {}",
      result.checked_steps, ranks_equal ? "bit-equal" : "DIFFER",
      between == 0.0 ? "bit-equal" : fmt::format("differ by {:.1e} (relative L2)", between),
      one_rank == 0.0 ? "bit-equal" : fmt::format("differ by {:.1e}", one_rank));
}

/// The execution summary of each mode.
std::string utilisation_text(const Comparison& result) {
  std::vector<std::string> shares;
  for (const ModeResult& mode : result.modes) {
    const TimingSummary& t = mode.timing;
    const double share = t.step > 0.0 ? (t.step - t.median.wait) / t.step : 0.0;
    shares.push_back(fmt::format("{} {:.0f} %", mode.mode, 100.0 * share));
  }
  return fmt::format(
      "utilisation (share of the step that computes): {}; peak memory of rank 0, all modes side by "
      "side: {:.1f} MiB",
      fmt::join(shares, ", "), static_cast<double>(result.peak_memory_bytes) / 0x1p20);
}

/// When backward would be over without communication, in ms after the start of the step.
double backward_end(const Comparison& result) {
  return result.ideal.timing.median.forward + result.ideal.timing.median.backward;
}

/// Whether the times of a mode are so few or spread so far that medians say little.
bool unsteady(const Comparison& result) {
  constexpr std::int64_t kFew = 10;
  return result.timed_steps < kFew ||
         std::any_of(result.modes.begin(), result.modes.end(), [](const ModeResult& mode) {
           return mode.timing.step_p90 > 1.5 * mode.timing.step_p10;
         });
}

/// What would start the first bucket earlier, or leave less for the end.
std::string advice(const Options& options, const CollectiveTimes& tail, bool single) {
  if (options.bucket_by != "size") {
    return fmt::format("--bucket-by size --bucket-mb {:.2g} makes buckets of its own size",
                       0.5 * options.bucket_mb);
  }
  if (!single) {
    return fmt::format(
        "--bucket-mb {:.2g} starts earlier, --last-bucket-mb {:.2g} leaves less to send at the end",
        0.5 * options.bucket_mb, 0.5 * static_cast<double>(tail.bytes) / 0x1p20);
  }
  return "the last bucket is a single parameter already: what helps is less to send before it "
         "(--comm-hook, --accum K with no_sync) or --cross-step of train_mlp";
}

std::string about_exposure(const ComparisonInfo& info, const Comparison& result,
                           const ModeResult& overlap) {
  const TimingSummary& t = overlap.timing;
  std::string text = fmt::format(
      "overlap hides {:.0f} % of its {:.2f} ms of communication; {:.2f} ms per step stay exposed.",
      100.0 * t.hidden_fraction, t.median.comm, t.median.exposed);
  if (t.collectives.empty() || overlap.trace.ranks.empty() ||
      t.median.exposed < 0.02 * t.median.step) {
    return text;
  }
  const std::size_t last = t.collectives.size() - 1;
  const CollectiveTimes& tail = t.collectives[last];
  const std::vector<std::string>& labels = overlap.trace.ranks[0].steps[0].spans.labels;
  const auto contents = overlap.trace.contents.find(labels.at(last));
  text += fmt::format(
      " The last to arrive is {} ({}{:.2f} MiB): ready at {:.2f} ms, sent at {:.2f}, there at "
      "{:.2f}, "
      "while backward alone would be over at {:.2f}.",
      labels.at(last),
      contents == overlap.trace.contents.end() || contents->second == labels.at(last)
          ? ""
          : contents->second + "; ",
      static_cast<double>(tail.bytes) / 0x1p20, tail.ready, tail.begin, tail.end,
      backward_end(result));
  if (tail.begin - tail.ready > 0.1 * (tail.end - tail.ready)) {
    text += fmt::format(" It waited {:.2f} ms for those before it.", tail.begin - tail.ready);
  }
  const double hideable = result.ideal.timing.median.backward;
  if (t.median.comm > 0.9 * hideable) {
    text += fmt::format(
        " Communication takes as long as all of backward ({:.2f} ms) or longer: the link is the "
        "limit, and only fewer bytes would help (--accum K with no_sync, --comm-hook).",
        hideable);
  } else {
    // With micro-batches that each synchronise, the first bucket leaves in the first of them.
    const auto parts = static_cast<double>(info.options.accum);
    const double begun = t.collectives.front().begin - t.median.forward / parts;
    const bool single =
        contents != overlap.trace.contents.end() && contents->second.find(',') == std::string::npos;
    text += fmt::format(" The first bucket left when {:.0f} % of backward was over; {}.",
                        100.0 * std::clamp(begun / (hideable / parts), 0.0, 1.0),
                        advice(info.options, tail, single));
  }
  return text;
}

std::string about_per_param(const ModeResult& overlap, const ModeResult& per_param) {
  const double extra = per_param.timing.step - overlap.timing.step;
  return fmt::format(
      "per_param sends {:g} messages where overlap sends {:g} and is {:.2f} ms {}: {}",
      per_param.collectives_per_step, overlap.collectives_per_step, std::abs(extra),
      extra >= 0.0 ? "slower" : "faster",
      extra >= 0.0 ? "each message costs its latency."
                   : "small messages start earlier, and latency is cheap here.");
}

std::string about_slower(const BesideComm& beside) {
  constexpr double kVisible = 0.03;
  const double slower = beside.slower();
  return std::abs(slower) < kVisible
             ? "Operations ran as fast beside communication as without it."
             : fmt::format(
                   "Operations beside communication ran {:.0f} % {} than the same ones without it.",
                   100.0 * std::abs(slower), slower >= 0.0 ? "slower" : "faster");
}

/// What only steady times can tell.
std::vector<std::string> differences(const ComparisonInfo& info, const Comparison& result,
                                     const ModeResult& overlap) {
  std::vector<std::string> lines;
  if (overlap.beside.operations > 0) {
    lines.push_back(about_slower(overlap.beside));
  }
  const ModeResult* naive = result.find("naive");
  const double bound = bound_ms(info, result);
  if (naive != nullptr && bound > 0.0 && naive->timing.step > 1.02 * bound) {
    const double gained = naive->timing.step - overlap.timing.step;
    lines.push_back(fmt::format("A perfect reducer would need {:.2f} ms: overlap ", bound) +
                    (gained > 0.0 ? fmt::format("reaches {:.0f} % of what naive leaves to gain.",
                                                100.0 * gained / (naive->timing.step - bound))
                                  : fmt::format("gains nothing of that, it is {:.2f} ms slower "
                                                "than naive.",
                                                -gained)));
  }
  if (const ModeResult* per_param = result.find("per_param")) {
    lines.push_back(about_per_param(overlap, *per_param));
  }
  return lines;
}

}  // namespace

double speed_up(const Comparison& result, const ModeResult& mode) {
  return mode.timing.step > 0.0 ? result.modes.front().timing.step / mode.timing.step : 0.0;
}

const char* emulated_text(const ComparisonInfo& info) {
  return info.options.emulated_link ? " (emulated link)" : "";
}

std::vector<std::string> comparison_start(const ComparisonInfo& info) {
  const Options& o = info.options;
  const auto plural = [](std::int64_t count, const char* word, const char* ending) {
    return fmt::format("{} {}{}", count, word, count == 1 ? "" : ending);
  };
  return {
      fmt::format("ranks     {} on {}, {} each", info.ranks.size,
                  plural(info.ranks.hosts, "host", "s"), plural(info.threads, "CPU thread", "s")),
      fmt::format("device    {}; {}", info.libraries, info.comm),
      fmt::format("model     {}, {} parameters, {:.2f} MiB of gradients{}",
                  info.shape.description(), info.parameters,
                  static_cast<double>(info.parameters) * sizeof(float) / 0x1p20,
                  o.dtype == "bf16" ? "; layers multiply bf16" : ""),
      fmt::format("batch     {} per rank x {} x {} = {}", o.batch,
                  plural(o.accum, "micro-batch", "es"), plural(info.ranks.size, "rank", "s"),
                  o.batch * o.accum * info.ranks.size),
      fmt::format("turns     {} of {} steps for each of {}; the order rotates", o.rounds, o.steps,
                  fmt::join(o.modes, ", "))};
}

void print_comparison_start(const Console& console, const ComparisonInfo& info) {
  console.line(console.strong(fmt::format("Brigade {} compare_modes", kVersion)));
  for (const std::string& line : comparison_start(info)) {
    console.line("  " + line);
  }
  console.line();
}

std::vector<ModeRow> comparison_rows(const Comparison& result) {
  std::vector<ModeRow> rows;
  for (const ModeResult& mode : result.modes) {
    rows.push_back(row_of(result, mode));
  }
  rows.push_back(row_of(result, result.ideal));
  return rows;
}

std::vector<std::string> comparison_notes(const ComparisonInfo& info, const Comparison& result) {
  std::vector<std::string> notes{
      fmt::format("{} timed steps per mode, medians of the slowest rank, in ms{}; speed-up against "
                  "{}; (none): the same work without communication",
                  result.timed_steps, emulated_text(info), result.modes.front().mode),
      fmt::format("{}: {}", result.equal ? "equal" : "NOT EQUAL", check_text(result))};
  notes.push_back(utilisation_text(result) + emulated_text(info));
  if (info.options.comm_hook != "none") {
    notes.push_back(
        fmt::format("gradients are compressed ({}), so only the ranks have to be equal: modes with "
                    "other buckets, and one rank without compression, go other ways",
                    info.options.comm_hook));
  }
  for (const std::string& sentence : reading(info, result)) {
    notes.push_back(sentence + emulated_text(info));
  }
  return notes;
}

double bound_ms(const ComparisonInfo& info, const Comparison& result) {
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

void print_comparison(const Console& console, const ComparisonInfo& info,
                      const Comparison& result) {
  const auto line = [&console](const std::string& name, const auto& cells) {
    std::string text = fmt::format("  {:<10}", name);
    for (const auto& one : cells) {
      text += fmt::format(" {:>9}", one);
    }
    console.line(text);
  };
  line(info.options.emulated_link ? "emulated" : "mode", kColumns);
  for (const ModeRow& row : comparison_rows(result)) {
    line(row.name, row.cells);
  }
  console.line();
  for (const std::string& note : comparison_notes(info, result)) {
    console.line("- " + note);
  }
}

std::vector<std::string> reading(const ComparisonInfo& info, const Comparison& result) {
  std::vector<std::string> lines;
  const ModeResult* overlap = result.find("overlap");
  const ModeResult* no_sync = result.find("no_sync");
  if (info.ranks.size == 1) {
    lines.emplace_back("One rank has nobody to communicate with; start several with mpirun -np N.");
    return lines;
  }
  if (const std::optional<Straggler> slow = result.ideal.timing.straggler) {
    lines.push_back(fmt::format(
        "Rank {} computes {:.2f} ms per step, the others {:.2f}: what looks like communication is "
        "largely waiting for it. Look at the load and the clock of its host first.",
        slow->rank, slow->compute, slow->others));
  } else if (overlap != nullptr) {
    lines.push_back(about_exposure(info, result, *overlap));
  }
  if (unsteady(result)) {
    lines.emplace_back(
        "The steps of one mode differ by more than half, or are too few to tell (--rounds, "
        "--steps): "
        "something else may run on this machine, and differences between the modes mean little.");
  } else if (overlap != nullptr) {
    const std::vector<std::string> more = differences(info, result, *overlap);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  if (overlap != nullptr && no_sync != nullptr) {
    lines.push_back(fmt::format(
        "no_sync sends {:.2f} MiB per step instead of {:.2f} and is {:.2f} times as fast.",
        no_sync->bytes_per_step / 0x1p20, overlap->bytes_per_step / 0x1p20,
        overlap->timing.step / no_sync->timing.step));
  }
  if (info.ranks.hosts == 1 && !info.device.is_cuda() && !info.options.emulated_link) {
    lines.emplace_back(
        "The ranks share this host's memory: an all-reduce is copying by the very cores that "
        "compute, which "
        "cannot be hidden. scripts/netlab.sh or --emulate-link show what overlap does between "
        "hosts.");
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
