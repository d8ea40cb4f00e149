#include "apps/bench/bench_options.h"

#include <string_view>

#include "apps/flags/declare_flags.h"
#include "apps/flags/flag_groups.h"
#include "core/error.h"

namespace brigade::apps {

namespace {

constexpr const char* kExamples = R"(Examples:
  mpirun -np 2 bench_all_reduce -b 1M -e 64M --comm mpi,shared
  mpirun -np 4 bench_all_reduce -b 8 -e 64M -f 2 --comm ring,halving,tree
  sudo scripts/netlab.sh run --rate 1gbit -- build/cpu-release/bin/bench_all_reduce)";

/// "4096", "4K", "64M" or "1G".
std::size_t parse_bytes(const std::string& flag, const std::string& text) {
  constexpr std::string_view kUnits = "KMG";
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50U;
  const std::size_t unit = text.empty() ? kUnits.npos : kUnits.find(text.back());
  const std::size_t shift = unit == kUnits.npos ? 0 : 10 * (unit + 1);
  const std::string digits = text.substr(0, text.size() - (shift > 0 ? 1 : 0));
  return parse_number(flag, digits, shift > 0 ? 1 : sizeof(float), kMost >> shift) << shift;
}

class BenchFlags : FlagGroups {
 public:
  BenchFlags(CLI::App& app, BenchOptions& o) : FlagGroups(app) {
    group("Sizes");
    value("-b,--min-bytes", "SIZE", o.min_bytes, parse_bytes, "smallest, such as 64K or 1M (4K)");
    value("-e,--max-bytes", "SIZE", o.max_bytes, parse_bytes, "largest (64M)");
    number("-f,--factor", o.factor, 1.01, 1e6, "each size / the previous one (4)");
    group("Runs");
    count("-n,--iters", o.iterations, 1, "timed, for each size (20)");
    count("-w,--warmup", o.warmup, 0, "untimed, before them (3)");
    const auto comms = [](const std::string& flag, const std::string& text) {
      return parse_list(flag, text, {kComms.begin(), kComms.end()});
    };
    value("--comm", "A,B,..", o.comms, comms, fmt::format("{} (auto)", fmt::join(kComms, " | ")));
    choice("--device", o.device, {"auto", "cpu", "cuda"});
    group("Output");
    toggle("--json", o.json, "print JSON only");
  }
};

}  // namespace

std::vector<std::size_t> BenchOptions::sizes() const {
  std::vector<std::size_t> sizes;
  auto bytes = static_cast<double>(min_bytes);
  while (bytes <= static_cast<double>(max_bytes)) {
    const std::size_t whole = static_cast<std::size_t>(bytes) / sizeof(float) * sizeof(float);
    if (sizes.empty() || whole > sizes.back()) {
      sizes.push_back(whole);
    }
    bytes *= factor;
  }
  return sizes;
}

BenchParse parse_bench_options(int argc, const char* const* argv) {
  CLI::App app("Times all-reduces like nccl-tests, checks the sums, fits alpha and beta.",
               "bench_all_reduce");
  prepare_command_line(app);
  app.footer(kExamples);
  BenchParse result;
  BenchOptions& options = result.options;
  BenchFlags(app, options);
  result.exit = parse_command_line(app, argc, argv, [&] {
    if (options.max_bytes < options.min_bytes) {
      throw UsageError(message_of("--max-bytes: expected at least --min-bytes, ", options.min_bytes,
                                  ", got ", options.max_bytes));
    }
    options.config = config_lines(app);
  });
  return result;
}

}  // namespace brigade::apps
