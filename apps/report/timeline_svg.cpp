#include "apps/report/timeline_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "apps/metrics/figure.h"

namespace brigade::apps {

namespace {

constexpr double kHeader = 22.0;
constexpr double kAxis = 20.0;
constexpr double kNamesRight = TimelineCanvas::kPlotLeft - 12.0;

/// A scope that the blocks of the compute lane already stand for.
bool is_phase(const ScopeTimes& scope) {
  return scope.depth == 0 && (scope.name.starts_with("forward") ||
                              scope.name.starts_with("backward") || scope.name == "optimizer");
}

/// "bucket_2" and, where that is too long, "2"; so "8" of "linear 8.weight" and "0" of "layer 0
/// Linear(784, 512)".
std::vector<std::string> name_and_number(const std::string& name) {
  constexpr const char* kDigits = "0123456789";
  const std::size_t begin = name.find_first_of(kDigits);
  if (begin == std::string::npos) {
    return {name};
  }
  return {name, name.substr(begin, name.find_first_not_of(kDigits, begin) - begin)};
}

std::string times_text(const Interval& time) {
  return fmt::format("begin {} ms · duration {} ms", ms_text(time.begin),
                     ms_text(time.end - time.begin));
}

/// 1, 2 or 5 times a power of ten, so that ticks are at least 80 pixels apart.
double tick_distance(double ms_per_full_width) {
  const double at_least = 80.0 * ms_per_full_width / TimelineCanvas::kPlotWidth;
  const double decade = std::pow(10.0, std::floor(std::log10(at_least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * decade >= at_least) {
      return factor * decade;
    }
  }
  return 10.0 * decade;
}

/// One rank's step, and where its blocks go.
class StepDrawing {
 public:
  /// `step` is the position in RankTrace::steps, `first_collective` that of its first collective in
  /// `lanes.rows`.
  StepDrawing(TimelineCanvas& canvas, const RunTrace& trace, std::size_t rank, std::size_t step,
              const RankLayout& lanes, std::size_t first_collective)
      : canvas_(canvas),
        trace_(trace),
        rank_(rank),
        step_(step),
        lanes_(lanes),
        first_collective_(first_collective),
        spans_(trace.ranks[rank].steps[step].spans),
        waits_(join(spans_.waits)),
        who_(fmt::format("rank {}, step {}", trace.ranks[rank].rank,
                         trace.ranks[rank].steps[step].step)) {}

  /// `layer_names`: where there is room. Without them steps side by side look alike, whether or not
  /// a name would just fit into one of them.
  void draw(bool layer_names) {
    const Interval time = on_common_clock({0.0, spans_.optimizer.end});
    canvas_.block("track", time, {lanes_.top(), lanes_.compute.height + lanes_.layers.height});
    canvas_.block("track", time, lanes_.comm);
    draw_phases();
    draw_layers(layer_names);
    draw_idle();
    draw_collectives();
    canvas_.vertical("border", time.begin, lanes_.top() - 3.0, lanes_.bottom() + 3.0);
    canvas_.vertical("border", time.end, lanes_.top() - 3.0, lanes_.bottom() + 3.0);
  }

 private:
  Interval on_common_clock(const Interval& time) const {
    return {spans_.start + time.begin, spans_.start + time.end};
  }

  /// A part of the compute lane. Waits are cut out: draw_idle() shows them.
  void draw_part(std::string_view style, std::string_view label_style, const Interval& time,
                 const Row& row, const std::string& name, const std::vector<std::string>& labels) {
    const std::string hover = fmt::format("{}\n{}\n{}", name, who_, times_text(time));
    Interval widest;
    for (const Interval& piece : subtract({time}, waits_)) {
      canvas_.block(style, on_common_clock(piece), row, hover);
      if (piece.end - piece.begin > widest.end - widest.begin) {
        widest = piece;
      }
    }
    canvas_.block_label(label_style, on_common_clock(widest), row, labels);
  }

  void draw_phases() {
    for (const Interval& forward : spans_.forwards) {
      draw_part("forward", "", forward, lanes_.compute, "forward", {"forward", "fwd", "f"});
    }
    for (const Interval& backward : spans_.backwards) {
      draw_part("backward", "", backward, lanes_.compute, "backward", {"backward", "bwd", "b"});
    }
    draw_part("optimizer", "on-optimizer", spans_.optimizer, lanes_.compute, "optimizer",
              {"optimizer", "opt", "o"});
  }

  void draw_layers(bool with_names) {
    for (const ScopeTimes& scope : spans_.scopes) {
      const bool computes = scope.lane == Lane::compute || scope.lane == Lane::optimizer;
      if (computes && !is_phase(scope)) {
        draw_part("layer", "small", {scope.begin, scope.end}, lanes_.layers, scope.name,
                  with_names ? name_and_number(scope.name) : std::vector<std::string>{});
      }
    }
  }

  void draw_idle() {
    for (const Interval& wait : waits_) {
      const Interval time = on_common_clock(wait);
      canvas_.block("idle", time, lanes_.compute,
                    fmt::format("idle: nothing to do but wait for a collective\n{}\n{}", who_,
                                times_text(wait)));
      canvas_.block_label("on-idle", time, lanes_.compute,
                          {fmt::format("idle {} ms", ms_text(wait.end - wait.begin)), "idle"});
    }
  }

  void draw_collectives() {
    const IntervalSet exposed = subtract(communication_of(spans_), computation_of(spans_));
    for (std::size_t i = 0; i < spans_.collectives.size(); ++i) {
      const CollectiveTimes& times = spans_.collectives[i];
      draw_collective(i, lanes_.row_of(first_collective_ + i),
                      intersect(exposed, {{times.begin, times.end}}));
      canvas_.vertical("ready", spans_.start + times.ready, lanes_.comm.top - 5.0,
                       lanes_.comm.top - 1.0);
    }
  }

  void draw_collective(std::size_t index, const Row& row, const IntervalSet& exposed) {
    const CollectiveTimes& times = spans_.collectives[index];
    const CollectiveSplit split = split_collective(trace_, rank_, step_, index);
    const std::string& name = spans_.labels[index];
    const std::string& contents = contents_of(trace_, name);
    const double bytes = static_cast<double>(times.bytes);
    const double ms = times.end - times.begin;
    canvas_.open_group(fmt::format(
        "{}{}\n{}\n{}\n{:.3f} MiB · {:.3g} GB/s\nready at {} ms, queued for {} ms\n"
        "waiting for the last rank {} ms · transfer {} ms\nexposed {} ms",
        name, contents == name ? "" : ": " + contents, who_, times_text({times.begin, times.end}),
        kMiB * bytes, ms > 0.0 ? bytes / (1e6 * ms) : 0.0, ms_text(times.ready),
        ms_text(times.begin - times.ready), ms_text(split.waiting), ms_text(split.transfer),
        ms_text(total_length(exposed))));
    const Interval whole = on_common_clock({times.begin, times.end});
    const Interval waiting{whole.begin, whole.begin + split.waiting};
    const Interval transfer{waiting.end, whole.end};
    canvas_.block("waiting", waiting, row);
    canvas_.block("transfer", transfer, row);
    for (const Interval& part : exposed) {
      canvas_.block("exposed", on_common_clock(part), row);
    }
    canvas_.block("collective", whole, row);
    canvas_.block_label("on-comm", split.transfer > split.waiting ? transfer : waiting, row,
                        name_and_number(name));
    canvas_.close_group();
  }

  TimelineCanvas& canvas_;
  const RunTrace& trace_;
  std::size_t rank_;
  std::size_t step_;
  const RankLayout& lanes_;
  std::size_t first_collective_;
  const StepSpans& spans_;
  IntervalSet waits_;
  std::string who_;
};

void draw_axis(TimelineCanvas& canvas, double origin, double ms_per_full_width, double bottom) {
  if (ms_per_full_width <= 0.0) {
    return;
  }
  const double distance = tick_distance(ms_per_full_width);
  for (int i = 0; i * distance <= ms_per_full_width; ++i) {
    const double at = origin + i * distance;
    canvas.vertical("grid", at, kHeader - 4.0, bottom);
    canvas.text("small muted middle", canvas.x(at), bottom + 11.0,
                fmt::format("{:g}", i * distance));
  }
  canvas.text("small muted end", kNamesRight, bottom + 11.0, "ms");
}

/// Each step's number, and how long it took the slowest rank, above a bracket from the first rank's
/// begin to the last rank's end.
void draw_step_numbers(TimelineCanvas& canvas, const RunTrace& trace, StepRange range) {
  constexpr double kBracket = 15.0;
  std::size_t position = range.first;
  for (const StepTrace& step : steps_in(trace.ranks[0], range)) {
    double ms = 0.0;
    for (const RankTrace& rank : trace.ranks) {
      ms = std::max(ms, times_of(rank.steps[position].spans).step);
    }
    const Interval all = time_window(trace, {position++, 1});
    canvas.horizontal("bracket", all, kBracket);
    canvas.vertical("bracket", all.begin, kBracket, kBracket + 4.0);
    canvas.vertical("bracket", all.end, kBracket, kBracket + 4.0);
    canvas.block_label("", all, {0.0, 12.0},
                       {fmt::format("step {} · {} ms", step.step, ms_text(ms)),
                        fmt::format("step {}", step.step), std::to_string(step.step)});
  }
}

void draw_names(TimelineCanvas& canvas, const RankTrace& rank, StepRange range,
                const RankLayout& lanes) {
  double idle = 0.0;
  for (const StepTrace& step : steps_in(rank, range)) {
    idle += times_of(step.spans).wait;
  }
  canvas.text("strong", 0.0, lanes.top() + 13.0, fmt::format("rank {}", rank.rank));
  canvas.text("end", kNamesRight, lanes.top() + 13.0, "compute");
  canvas.text("small muted end", kNamesRight, lanes.top() + 27.0,
              fmt::format("idle {} ms", ms_text(idle)));
  canvas.text("end", kNamesRight, lanes.comm.top + 12.0, "communicate");
}

}  // namespace

std::string timeline_svg(const RunTrace& trace, double ms_per_full_width, StepRange range) {
  const Interval window = time_window(trace, range);
  const std::vector<RankLayout> ranks = lay_out_ranks(trace, range, kHeader);
  const double bottom = ranks.empty() ? kHeader : ranks.back().bottom();
  TimelineCanvas canvas(window.begin, ms_per_full_width);
  draw_axis(canvas, window.begin, ms_per_full_width, bottom + 5.0);
  if (!ranks.empty()) {
    draw_step_numbers(canvas, trace, range);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    draw_names(canvas, trace.ranks[rank], range, ranks[rank]);
    const std::span<const StepTrace> steps = steps_in(trace.ranks[rank], range);
    std::size_t collectives = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      StepDrawing(canvas, trace, rank, range.first + i, ranks[rank], collectives)
          .draw(steps.size() == 1);
      collectives += steps[i].spans.collectives.size();
    }
  }
  return canvas.finish(bottom + kAxis, "time line of " + trace.title + ". " + trace.caption);
}

std::string ms_text(double ms) {
  const double size = std::abs(ms);
  if (size < 0.0005) {
    return "0";
  }
  return fmt::format("{:.{}f}", ms, size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
}

}  // namespace brigade::apps
