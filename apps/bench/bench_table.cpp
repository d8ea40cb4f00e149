#include "apps/bench/bench_table.h"

#include <fmt/format.h>

#include "apps/metrics/alpha_beta.h"
#include "apps/metrics/figure.h"
#include "core/config.h"

namespace brigade::apps {

namespace {

constexpr const char* kHead =
    "#       size        count  type  redop        time   algbw   busbw  #wrong\n"
    "#        (B)   (elements)                     (us)  (GB/s)  (GB/s)\n";

std::optional<AlphaBeta> fit(const BenchResult& result, int ranks) {
  std::vector<dist::LinkPoint> times;
  for (const BenchRow& row : result.rows) {
    times.push_back({static_cast<double>(row.bytes), 1e-3 * row.us});
  }
  return fit_alpha_beta(times, ranks);
}

}  // namespace

double algbw(std::size_t bytes, double us) {
  return us > 0.0 ? static_cast<double>(bytes) / (us * 1e3) : 0.0;
}

double busbw(std::size_t bytes, double us, int ranks) {
  return algbw(bytes, us) * 2.0 * (ranks - 1) / ranks;
}

std::string bench_table(const BenchResult& result, int ranks) {
  std::string text = fmt::format("# {}: {}\n{}", result.name, result.description, kHead);
  for (const BenchRow& row : result.rows) {
    text += fmt::format("  {:>10} {:>12} {:>5} {:>6}  {:>10.1f} {:>7.2f} {:>7.2f} {:>7}\n",
                        row.bytes, row.bytes / sizeof(float), "f32", "sum", row.us,
                        algbw(row.bytes, row.us), busbw(row.bytes, row.us, ranks), row.wrong);
  }
  if (const auto model = fit(result, ranks)) {
    text += fmt::format(
        "# fit: alpha {:.2f} us, beta {:.4f} ns/B ({:.2f} GB/s), residual {:.0f} %\n",
        model->alpha_us, model->ns_per_byte, model->gigabytes_per_s(), 100.0 * model->residual);
  }
  return text;
}

std::string bench_json(const std::vector<BenchResult>& results, const BenchOptions& options,
                       int ranks) {
  Json json{{"program", "bench_all_reduce"},
            {"version", kVersion},
            {"ranks", ranks},
            {"type", "f32"},
            {"factor", options.factor},
            {"iterations", options.iterations},
            {"warmup", options.warmup},
            {"results", Json::array()},
            {"flags", options.config}};
  for (const BenchResult& result : results) {
    Json rows = Json::array();
    Json model = nullptr;
    if (const auto found = fit(result, ranks)) {
      model = {{"alpha_us", found->alpha_us},
               {"beta_ns_per_byte", found->ns_per_byte},
               {"residual", found->residual}};
    }
    for (const BenchRow& row : result.rows) {
      rows.push_back({{"bytes", row.bytes},
                      {"count", row.bytes / sizeof(float)},
                      {"time_us", row.us},
                      {"algbw_gigabytes_per_s", algbw(row.bytes, row.us)},
                      {"busbw_gigabytes_per_s", busbw(row.bytes, row.us, ranks)},
                      {"wrong", row.wrong}});
    }
    json["results"].push_back(
        {{"name", result.name}, {"comm", result.description}, {"rows", rows}, {"fit", model}});
  }
  return json_text(json);
}

}  // namespace brigade::apps
