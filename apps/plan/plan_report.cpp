#include "apps/plan/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "apps/metrics/alpha_beta.h"
#include "apps/metrics/figure.h"
#include "apps/report/html_page.h"
#include "apps/report/timeline_canvas.h"

namespace brigade::apps {

namespace {

std::string text_of(const dist::LinkModel& link) {
  return fmt::format("{} us, {} GB/s", link.alpha_us, link.gigabytes_per_s);
}

/// With the ring that would take as long.
std::string measured_network(const Profile& profile) {
  const std::optional<AlphaBeta> fit = fit_alpha_beta(profile.all_reduce, profile.ranks);
  return fmt::format(
      "as measured on {} ranks ({}){}", profile.ranks, profile.comm,
      fit ? fmt::format(", about {:.1f} us, {:.3g} GB/s", fit->alpha_us, fit->gigabytes_per_s())
          : "");
}

/// Model, settings, network and caveats of the prediction.
std::vector<std::string> premises(const Profile& profile, const PlanQuestion& question) {
  const Options& training = question.training;
  std::vector<std::string> lines{fmt::format(
      "{}, {} samples {}", profile.model,
      training.global_batch > 0 ? training.global_batch : profile.batch,
      training.global_batch > 0 ? "per step on all ranks together" : "per rank and micro-batch")};
  const std::string buckets = training.choose_buckets ? "the best buckets for each number of ranks"
                              : training.mode == "naive" || training.mode == "per_param"
                                  ? "one all-reduce per parameter"
                                  : fmt::format("buckets of {} MiB", training.bucket_mb);
  lines.push_back(fmt::format("mode {}{}, {}, accum {}, hook {}, {}", training.mode,
                              training.cross_step        ? " with --cross-step"
                              : training.shard_optimizer ? " with --shard-optimizer"
                                                         : "",
                              buckets, training.accum, training.comm_hook, question.algorithm));
  const Profile& measured = question.network ? *question.network : profile;
  std::string network = question.link ? text_of(*question.link) : measured_network(measured);
  if (question.ranks_per_host > 1) {
    network += fmt::format("; hosts of {} ranks, inside {}", question.ranks_per_host,
                           question.local_link ? text_of(*question.local_link) : "the same");
  }
  lines.push_back("network: " + network);
  if (!question.link && measured.comm.starts_with("shared memory")) {
    lines.emplace_back("note: that is the memory of one host; --link tells of one between hosts");
  }
  if (profile.ranks > 1 && profile.shares_core && profile.mode != "naive" &&
      profile.mode != "flat") {
    lines.push_back(
        fmt::format("note: in the profile's run, mode {}, communication slowed "
                    "computation down: a run with --mode naive tells them apart",
                    profile.mode));
  }
  return lines;
}

std::vector<FigureRow> rows_of(const std::vector<PlanRow>& rows) {
  std::vector<FigureRow> result;
  result.reserve(rows.size());
  for (const PlanRow& row : rows) {
    result.push_back({std::to_string(row.ranks),
                      {{"ranks", row.ranks},
                       {"step_ms", row.step, "step ms", "{:.2f}"},
                       {"compute_ms", row.compute, "compute", "{:.2f}"},
                       {"slowest_ms", row.slowest, "slowest rank", "+{:.2f}"},
                       {"exposed_ms", row.exposed, "exposed", "+{:.2f}"},
                       {"buckets", row.buckets, "buckets", "{:.0f}"},
                       {"efficiency", row.efficiency(), "efficiency", "{:.1f} %", kPercent},
                       {"samples_per_second", row.samples_per_second, "samples/s", "{:.0f}"}}});
  }
  return result;
}

/// Efficiency from 0 to 100 % over the logarithm of the ranks.
std::string curve(const std::vector<PlanRow>& rows) {
  constexpr double kTop = 12.0, kHeight = 240.0;
  constexpr int kParts = 4;
  const double first = std::log2(rows.front().ranks);
  const double last = std::max(std::log2(rows.back().ranks), first + 1.0);
  TimelineCanvas canvas(first, last - first);  // of powers of 2 instead of ms
  const auto y = [](double share) { return kTop + kHeight * (1.0 - share); };
  for (int i = 0; i <= kParts; ++i) {
    const double share = static_cast<double>(i) / kParts;
    canvas.horizontal("grid", {first, last}, y(share));
    canvas.text("small muted end", TimelineCanvas::kPlotLeft - 6.0, y(share) + 3.0,
                fmt::format("{:.0f} %", 1e2 * share));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double x = canvas.x(std::log2(rows[i].ranks));
    canvas.text("small muted middle", x, kTop + kHeight + 14.0, std::to_string(rows[i].ranks));
    if (i > 0) {
      canvas.line("curve", canvas.x(std::log2(rows[i - 1].ranks)), y(rows[i - 1].efficiency()), x,
                  y(rows[i].efficiency()));
    }
  }
  return canvas.finish(kTop + kHeight + 20.0, "efficiency over the number of ranks");
}

}  // namespace

std::string plan_text(const Profile& profile, const PlanQuestion& question,
                      const std::vector<PlanRow>& rows) {
  return fmt::format("{}\n\n{}\n\n{}\n", fmt::join(premises(profile, question), "\n"),
                     fmt::join(text_table(grid_of("ranks", rows_of(rows))), "\n"),
                     fmt::join(verdicts(rows), "\n"));
}

std::string plan_json(const Profile& profile, const PlanQuestion& question,
                      const std::vector<PlanRow>& rows) {
  Json json{{"premises", premises(profile, question)},
            {"rows", Json::array()},
            {"verdicts", verdicts(rows)}};
  for (const FigureRow& row : rows_of(rows)) {
    json["rows"].push_back(json_of(row.figures));
  }
  return json_text(json);
}

std::string plan_html(const Profile& profile, const PlanQuestion& question,
                      const std::vector<PlanRow>& rows) {
  return html_page(
      "ddp_plan: " + profile.model,
      html_part("plan",
                {{"start", html_lines("<p class=\"muted\">", premises(profile, question), "</p>")},
                 {"notes", html_lines("<li>", verdicts(rows), "</li>")},
                 {"curve", curve(rows)},
                 {"table", html_table(grid_of("ranks", rows_of(rows)))}}));
}

}  // namespace brigade::apps
