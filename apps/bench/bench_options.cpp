#include "apps/bench/bench_options.h"

#include <cmath>

#include "core/error.h"

namespace brigade::apps {

namespace {

constexpr const char* kExamples = R"(Examples:
  mpirun -np 2 bench_all_reduce -b 1M -e 64M --comm mpi,shared
  mpirun -np 4 bench_all_reduce -b 8 -e 64M -f 2 --comm ring,halving,tree
  sudo scripts/netlab.sh run --rate 1gbit -- build/cpu-release/bin/bench_all_reduce)";

void declare_flags(CLI::App& app, BenchOptions& o) {
  constexpr std::int64_t kMany = 1'000'000'000;
  const CLI::AsSizeValue bytes(/*kb_is_1000=*/false);
  const CLI::Range size(std::uint64_t{0},
                        std::uint64_t{1} << 50U);  // AsSizeValue takes -1 for 2^64 - 1
  app.add_option("-b,--min-bytes", o.min_bytes, "smallest size")->transform(bytes)->check(size);
  app.add_option("-e,--max-bytes", o.max_bytes, "largest size")->transform(bytes)->check(size);
  app.add_option("-f,--factor", o.factor, "each size / the previous one")
      ->check(CLI::Range(1.01, 1e6));
  app.add_option("-n,--iters", o.iterations, "timed runs per size")
      ->check(CLI::Range(std::int64_t{1}, kMany));
  app.add_option("-w,--warmup", o.warmup, "untimed runs per size")
      ->check(CLI::Range(std::int64_t{0}, kMany));
  app.add_option("--comm", o.comms, "what to compare, comma-separated")
      ->delimiter(',')
      ->check(CLI::IsMember(
          {"auto", "mpi", "ring", "halving", "tree", "shared", "hierarchical", "nccl"}));
  app.add_option("--device", o.device, "where the tensors are")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_flag("--json", o.json, "print JSON only");
}

void check_sizes(const BenchOptions& o) {
  if (o.min_bytes < sizeof(float)) {
    throw UsageError(
        message_of("--min-bytes: expected at least one f32, 4 bytes, got ", o.min_bytes));
  }
  if (std::isnan(o.factor)) {
    throw UsageError("--factor: expected a number, got nan");
  }
  if (o.max_bytes < o.min_bytes) {
    throw UsageError(message_of("--max-bytes: expected at least --min-bytes, ", o.min_bytes,
                                ", got ", o.max_bytes));
  }
}

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
  app.option_defaults()->always_capture_default();  // for --help and config_to_str()
  app.footer(kExamples);
  BenchParse result;
  declare_flags(app, result.options);
  result.exit = parse_command_line(app, argc, argv, [&] {
    check_sizes(result.options);
    result.options.config = CLI::detail::split(app.config_to_str(/*default_also=*/true), '\n');
  });
  return result;
}

}  // namespace brigade::apps
