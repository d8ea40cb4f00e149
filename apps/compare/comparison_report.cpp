#include "apps/compare/comparison_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/compare/reading.h"
#include "apps/flags/hook_flag.h"
#include "apps/report/report.h"
#include "apps/report/summary.h"
#include "core/config.h"

namespace brigade::apps {

namespace {

/// `ideal`: the steps without communication, which are compared with nothing.
Figures mode_figures(const RunInfo& info, const Comparison& result, const ModeResult& mode,
                     bool ideal) {
  const TimingSummary& t = mode.timing;
  const auto checked = [ideal](const Json& value) { return ideal ? Json(nullptr) : value; };
  const auto sent = [sends = !ideal && t.communicates](double value) {
    return known(sends, value);
  };
  const double ratio =
      compression_ratio(info.ranks.size, mode.traffic.bytes_reduced, mode.traffic.bytes_sent);
  const double alone = result.alone_samples_per_second;
  return {{"mode", mode.mode},
          {"step_ms", t.step, "step", "{:.2f}"},
          {"step_ms_p10", t.step_p10, "p10", "{:.2f}"},
          {"step_ms_p90", t.step_p90, "p90", "{:.2f}"},
          {"forward_ms", t.median.forward, "forward", "{:.2f}"},
          {"backward_ms", t.median.backward, "backward", "{:.2f}"},
          {"optimizer_ms", t.median.optimizer},
          {"wait_ms", sent(t.median.wait)},
          {"comm_ms", sent(t.median.comm), "comm", "{:.2f}"},
          {"hidden_ms", sent(t.median.hidden)},
          {"exposed_ms", sent(t.median.exposed), "exposed", "{:.2f}"},
          {"hidden_fraction", sent(t.hidden_fraction), "hidden %", "{:.0f}", kPercent},
          {"compute_fraction", sent((t.step - t.median.wait) / t.step), "compute %", "{:.0f}",
           kPercent},
          {"collectives_per_step", sent(mode.traffic.collectives), "colls", "{:g}"},
          {"bytes_per_step", sent(mode.traffic.bytes_reduced), "MiB/rank", "{:.2f}", kMiB},
          {"bytes_sent_per_step", sent(mode.traffic.bytes_sent), "sent", "{:.2f}", kMiB},
          {"compression_ratio", known(!ideal && ratio > 0.0, ratio)},
          {"samples_per_second", t.samples_per_second, "samples/s", "{:.0f}"},
          {"speed_up", known(t.step > 0.0, result.modes.front().timing.step / t.step), "speed-up",
           "{:.2f}"},
          {"times_one_rank", known(alone > 0.0, t.samples_per_second / alone)},
          {"params_hash", checked(fmt::format("{:016x}", mode.weights.hash))},
          {"ranks_equal", checked(mode.weights.equal)},
          {"difference_to_first_mode", checked(mode.against_first)},
          {"difference_to_one_rank", checked(mode.against_one_rank)}};
}

std::string check_text(const RunInfo& info, const Comparison& result) {
  const bool ranks_equal =
      std::ranges::all_of(result.modes, [](const ModeResult& mode) { return mode.weights.equal; });
  const auto difference = [&result](double ModeResult::*part) {
    double largest = 0.0;
    for (const ModeResult& mode : result.modes) {
      // NaN is no less than any number; once there, it stays.
      largest = std::isnan(largest) ? largest : std::max(mode.*part, largest);
    }
    return largest == 0.0 ? "bit-equal" : fmt::format("differ by {:.1e} (relative L2)", largest);
  };
  return fmt::format(
      "{}: after {} steps: ranks {}; modes {}; all ranks together and one rank alone {}",
      result.equal ? "equal" : "NOT EQUAL", info.options.steps,
      ranks_equal ? "bit-equal" : "DIFFER", difference(&ModeResult::against_first),
      difference(&ModeResult::against_one_rank));
}

}  // namespace

std::vector<std::string> comparison_start(const RunInfo& info) {
  std::vector<std::string> lines = setting_lines(info);
  lines.push_back(setting_row(
      "turns", fmt::format("{} of {} steps for each of {}; the order rotates", info.options.rounds,
                           info.options.steps, fmt::join(info.options.modes, ", "))));
  return lines;
}

std::vector<FigureRow> comparison_rows(const RunInfo& info, const Comparison& result) {
  std::vector<FigureRow> rows;
  for (const ModeResult& mode : result.modes) {
    rows.push_back({mode.mode, mode_figures(info, result, mode, false)});
  }
  rows.push_back({"(none)", mode_figures(info, result, result.ideal, true)});
  return rows;
}

TextGrid bucket_grid(const Comparison& result) {
  const ModeResult* overlap = result.find("overlap");
  if (overlap == nullptr || overlap->timing.collectives.empty() || overlap->trace.ranks.empty() ||
      overlap->trace.ranks[0].steps.empty()) {
    return {};
  }
  TextGrid grid{{"buckets of overlap", "MiB", "ready", "sent", "there"}};
  const std::vector<std::string>& labels = overlap->trace.ranks[0].steps[0].spans.labels;
  const std::vector<CollectiveTimes>& times = overlap->timing.collectives;
  for (std::size_t i = 0; i < std::min(labels.size(), times.size()); ++i) {
    grid.push_back({short_contents_of(overlap->trace, labels[i]),
                    fmt::format("{:.3f}", kMiB * static_cast<double>(times[i].bytes)),
                    fmt::format("{:.2f}", times[i].ready), fmt::format("{:.2f}", times[i].begin),
                    fmt::format("{:.2f}", times[i].end)});
  }
  return grid;
}

std::vector<std::string> comparison_notes(const RunInfo& info, const Comparison& result) {
  std::vector<std::string> notes{
      fmt::format("{} timed steps per mode, medians of the slowest rank, in ms{}; speed-up against "
                  "{}; (none): the same work without communication",
                  result.ideal.timing.measured_steps, emulated_text(info.options),
                  result.modes.front().mode),
      check_text(info, result)};
  if (info.options.comm_hook != "none") {
    notes.push_back(fmt::format(
        "gradients are compressed ({}), so only the ranks have to be equal: modes with other "
        "buckets, and one rank without compression, end with other weights",
        info.options.comm_hook));
  }
  for (const std::string& sentence : reading(info, result)) {
    notes.push_back(sentence + emulated_text(info.options));
  }
  return notes;
}

void print_comparison_start(const Console& console, const RunInfo& info) {
  console.line(console.strong(fmt::format("Brigade {} compare_modes", kVersion)));
  console.lines(comparison_start(info));
  console.line();
}

void print_comparison(const Console& console, const RunInfo& info, const Comparison& result) {
  const char* corner = info.options.emulated_link ? "emulated" : "mode";
  console.lines(text_table(grid_of(corner, comparison_rows(info, result))));
  console.line();
  if (const TextGrid buckets = bucket_grid(result); !buckets.empty()) {
    console.lines(text_table(buckets));
    console.line();
  }
  console.lines(comparison_notes(info, result), "- ");
}

std::string comparison_json(const RunInfo& info, const Comparison& result) {
  const double bound = bound_ms(info, result);
  Json json = json_of(setting_figures(info));
  json.update(json_of({{"timed_steps", result.ideal.timing.measured_steps},
                       {"equal", result.equal},
                       {"one_rank_samples_per_second", result.alone_samples_per_second},
                       {"bound_ms", known(bound > 0.0, bound)},
                       {"reading", reading(info, result)}}));
  for (const FigureRow& row : comparison_rows(info, result)) {
    json["modes"].push_back(json_of(row.figures));
  }
  json["ideal"] = json["modes"].back();
  json["modes"].erase(result.modes.size());
  return json_text(json);
}

}  // namespace brigade::apps
