#include "apps/bench/bench_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/bench/alpha_beta.h"
#include "core/config.h"

namespace brigade::apps {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDeterministic = " deterministic";

std::string count_or_dash(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : "-";
}

std::string fixed(double value, int digits) {
  return fmt::format("{:.{}f}", value, digits);
}

/// Whose cost formula explains the times: "halving", "tree", or a ring's.
std::string algorithm_of(const BenchResult& result) {
  const std::string name = result.name.substr(0, result.name.find(' '));
  return name == "halving" || name == "tree" ? name : "ring";
}

std::optional<AlphaBeta> fit(const BenchResult& result, int ranks) {
  std::vector<MeasuredTime> times;
  for (const BenchRow& row : result.rows) {
    times.push_back({static_cast<double>(row.bytes), row.in_place_us});
  }
  return fit_alpha_beta(times, ranks, algorithm_of(result));
}

Json measured_json(std::size_t bytes, double us, const std::optional<std::int64_t>& wrong,
                   int ranks) {
  return {{"time_us", us},
          {"algbw_gbps", algbw(bytes, us)},
          {"busbw_gbps", busbw(bytes, us, ranks)},
          {"wrong", wrong ? Json(*wrong) : Json(nullptr)}};
}

}  // namespace

double algbw(std::size_t bytes, double us) {
  return us > 0.0 ? static_cast<double>(bytes) / (us * 1e3) : 0.0;
}

double busbw(std::size_t bytes, double us, int ranks) {
  return algbw(bytes, us) * 2.0 * (ranks - 1) / ranks;
}

std::string bench_table(const BenchResult& result, const BenchOptions& options, int ranks) {
  std::string text = fmt::format("# {}: {}\n", result.name, result.description);
  text += fmt::format("# {:>10} {:>12} {:>5}  {:^34}  {:^34}  {:^14}\n", "", "", "", "out-of-place",
                      "in-place", "comm thread");
  constexpr const char* kHead = "# {:>10} {:>12} {:>5}  {:>10} {:>7} {:>7} {:>7}";
  constexpr const char* kRest = "  {:>10} {:>7} {:>7} {:>7}  {:>8} {:>5}{}\n";
  text +=
      fmt::format(fmt::runtime(kHead), "size", "count", "type", "time", "algbw", "busbw", "#wrong");
  text += fmt::format(fmt::runtime(kRest), "time", "algbw", "busbw", "#wrong", "cpu", "core", "");
  text += fmt::format(fmt::runtime(kHead), "(B)", "(elements)", "", "(us)", "(GB/s)", "(GB/s)", "");
  text += fmt::format(fmt::runtime(kRest), "(us)", "(GB/s)", "(GB/s)", "", "(ms)", "(%)",
                      options.link_text());
  for (const BenchRow& row : result.rows) {
    text += fmt::format("  {:>10} {:>12} {:>5}  {:>10.1f} {:>7.2f} {:>7.2f} {:>7}", row.bytes,
                        row.bytes / size_of(options.dtype()), options.type, row.out_of_place_us,
                        algbw(row.bytes, row.out_of_place_us),
                        busbw(row.bytes, row.out_of_place_us, ranks),
                        count_or_dash(row.wrong_out_of_place));
    text += fmt::format("  {:>10.1f} {:>7.2f} {:>7.2f} {:>7}  {:>8} {:>5}{}\n", row.in_place_us,
                        algbw(row.bytes, row.in_place_us), busbw(row.bytes, row.in_place_us, ranks),
                        count_or_dash(row.wrong_in_place), row.cpu_ms ? fixed(*row.cpu_ms, 3) : "-",
                        row.cpu_core ? fixed(100.0 * *row.cpu_core, 0) : "-", options.link_text());
  }
  if (const auto model = fit(result, ranks)) {
    text += fmt::format(
        "# in place as a {}: alpha {:.2f} us, beta {:.4f} ns/B ({:.2f} GB/s), residual {:.0f} "
        "%{}\n",
        algorithm_of(result), model->alpha_us, model->ns_per_byte, model->gbps(),
        100.0 * model->residual, options.link_text());
  }
  return text;
}

std::string bench_ratios(const std::vector<BenchResult>& results, const BenchOptions& options) {
  if (results.size() < 2) {
    return {};
  }
  const BenchResult& first = results.front();
  std::string text = fmt::format("# in-place times as multiples of {}'s{}\n# {:>10}", first.name,
                                 options.link_text(), "size (B)");
  for (const BenchResult& result : results) {
    text += "  " + result.name;
  }
  text += '\n';
  for (std::size_t i = 0; i < first.rows.size(); ++i) {
    text += fmt::format("  {:>10}", first.rows[i].bytes);
    for (const BenchResult& result : results) {
      text += fmt::format("  {:>{}.2f}", result.rows[i].in_place_us / first.rows[i].in_place_us,
                          result.name.size());
    }
    text += options.link_text();
    text += '\n';
  }
  return text;
}

std::string deterministic_cost(const std::vector<BenchResult>& results,
                               const BenchOptions& options) {
  std::string text;
  for (const BenchResult& fast : results) {
    const auto slow = std::ranges::find(results, fast.name + kDeterministic, &BenchResult::name);
    if (slow == results.end() || fast.rows.empty()) {
      continue;
    }
    double logarithms = 0.0;
    for (std::size_t i = 0; i < fast.rows.size(); ++i) {
      logarithms += std::log(slow->rows[i].in_place_us / fast.rows[i].in_place_us);
    }
    text += fmt::format("# --reduce deterministic with {}: {:.2f} x the time of fast{}\n",
                        fast.name, std::exp(logarithms / static_cast<double>(fast.rows.size())),
                        options.link_text());
  }
  return text;
}

std::string bench_json(const std::vector<BenchResult>& results, const BenchOptions& options,
                       int ranks) {
  Json json{{"program", "bench_all_reduce"},
            {"version", kVersion},
            {"ranks", ranks},
            {"type", options.type},
            {"memory", options.memory},
            {"iterations", options.iterations},
            {"emulated_link",
             options.emulated_link ? Json(options.emulated_link->description()) : Json(nullptr)},
            {"results", Json::array()},
            {"flags", options.command_line}};
  for (const BenchResult& result : results) {
    Json one{{"name", result.name}, {"comm", result.description}, {"rows", Json::array()}};
    for (const BenchRow& row : result.rows) {
      one["rows"].push_back(
          {{"bytes", row.bytes},
           {"count", row.bytes / size_of(options.dtype())},
           {"out_of_place",
            measured_json(row.bytes, row.out_of_place_us, row.wrong_out_of_place, ranks)},
           {"in_place", measured_json(row.bytes, row.in_place_us, row.wrong_in_place, ranks)},
           {"comm_thread_cpu_ms", row.cpu_ms ? Json(*row.cpu_ms) : Json(nullptr)},
           {"comm_thread_core", row.cpu_core ? Json(*row.cpu_core) : Json(nullptr)}});
    }
    const auto model = fit(result, ranks);
    one["fit"] = model ? Json{{"as", algorithm_of(result)},
                              {"alpha_us", model->alpha_us},
                              {"beta_ns_per_byte", model->ns_per_byte},
                              {"residual", model->residual}}
                       : Json(nullptr);
    json["results"].push_back(std::move(one));
  }
  return json.dump(2) + "\n";
}

}  // namespace brigade::apps
