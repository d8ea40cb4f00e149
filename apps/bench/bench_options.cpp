#include "apps/bench/bench_options.h"

#include <charconv>
#include <string_view>
#include <system_error>

#include "apps/flags/declare_flags.h"
#include "apps/flags/flag_groups.h"
#include "core/error.h"

namespace brigade::apps {

namespace {

constexpr const char* kExamples = R"(Examples:
  mpirun -np 2 bench_all_reduce -b 1M -e 64M --comm mpi,shared
  mpirun -np 4 bench_all_reduce -b 8 -e 64M -f 2 --comm ring,halving,tree
  sudo scripts/netlab.sh run --rate 1gbit -- build/cpu-release/bin/bench_all_reduce)";

/// "4096", "4K", "64M" or "1g".
std::size_t parse_bytes(const std::string& flag, const std::string& text) {
  constexpr std::string_view kUnits = "KMGkmg";
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50U;
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::size_t unit = rest + 1 == end ? kUnits.find(*rest) : kUnits.npos;
  const std::size_t shift = unit == kUnits.npos ? 0 : 10 * (unit % 3 + 1);
  if (error != std::errc{} || (rest != end && shift == 0) || number > kMost >> shift ||
      number << shift < sizeof(float)) {
    throw UsageError(fmt::format(
        "{}: expected a size from 4 bytes to 1 PiB, such as 4096, 64K, 1M or 1G, got \"{}\"", flag,
        text));
  }
  return number << shift;
}

class BenchFlags : FlagGroups {
 public:
  BenchFlags(CLI::App& app, BenchOptions& o) : FlagGroups(app) {
    group("Sizes");
    value("-b,--min-bytes", "SIZE", o.min_bytes, parse_bytes,
          "smallest size, such as 64K or 1M (4K)");
    value("-e,--max-bytes", "SIZE", o.max_bytes, parse_bytes, "largest size (64M)");
    number("-f,--factor", o.factor, 1.01, 1e6, "each size / the one before (4)");
    group("Runs");
    count("-n,--iters", o.iterations, 1, "timed runs per size (20)");
    count("-w,--warmup", o.warmup, 0, "untimed runs per size (3)");
    const auto comms = [](const std::string& flag, const std::string& text) {
      return parse_list(flag, text, {kComms.begin(), kComms.end()});
    };
    value("--comm", "A,B,..", o.comms, comms, fmt::format("{} (auto)", fmt::join(kComms, " | ")));
    choice("--device", o.device, {"auto", "cpu", "cuda"}, "where the tensors are: ");
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

Parsed<BenchOptions> parse_bench_options(int argc, const char* const* argv) {
  CLI::App app("Times all-reduces like nccl-tests, checks the sums, fits alpha and beta.",
               "bench_all_reduce");
  prepare_command_line(app);
  app.footer(kExamples);
  Parsed<BenchOptions> result;
  BenchOptions& options = result.options;
  const BenchFlags flags(app, options);
  result.exit = parse_command_line(app, argc, argv, [&] {
    if (options.max_bytes < options.min_bytes) {
      throw UsageError(fmt::format("--max-bytes: expected at least --min-bytes, {}, got {}",
                                   options.min_bytes, options.max_bytes));
    }
    options.config = config_lines(app);
  });
  return result;
}

}  // namespace brigade::apps
