#include "apps/bench/bench_options.h"

#include <algorithm>

#include "apps/flags/flag_table.h"
#include "core/error.h"

namespace brigade::apps {

namespace {

constexpr const char* kExamples = R"(Examples:
  mpirun -np 2 bench_all_reduce
  mpirun -np 2 bench_all_reduce -b 1M -e 64M --comm mpi,mpi_blocking,shared
  mpirun -np 4 bench_all_reduce --comm ring --reduce fast,deterministic
  sudo scripts/netlab.sh run --rate 1gbit -- build/cpu-release/bin/bench_all_reduce)";

const std::vector<std::string> kComms{"auto", "mpi",     "mpi_blocking", "shared", "hierarchical",
                                      "ring", "halving", "tree",         "nccl"};

void declare(FlagTable& flags, BenchOptions& o) {
  constexpr double kLargestFactor = 1e6;
  constexpr double kSmallestFactor = 1.01;
  flags.group("Sizes");
  flags.value("-b,--min-bytes", "N[K|M|G]", o.min_bytes, parse_bytes, "smallest (4K)");
  flags.value("-e,--max-bytes", "N[K|M|G]", o.max_bytes, parse_bytes, "largest (64M)");
  flags.number("-f,--factor", o.factor, kSmallestFactor, kLargestFactor, "from size to size (4)");
  flags.choice("-d,--type", o.type, {"f32", "f64"}, "f32 | f64 (f32)");
  flags.group("Measurement");
  flags.count("-n,--iters", o.iterations, 1, "times each is measured; the median counts (20)");
  flags.count("-w,--warmup", o.warmup, 0, "times before that (3)");
  flags.toggle("--no-check", o.check, "do not check the sums", false);
  flags.group("What");
  flags.list("--comm", o.comms, kComms,
             "auto, mpi, mpi_blocking, shared, hierarchical, ring, halving, tree, nccl (all for "
             "these ranks and this device); they take turns");
  flags.list("--reduce", o.reduce, {"fast", "deterministic"}, "fast, deterministic (fast)");
  flags.choice("--memory", o.memory, {"bucket", "plain"},
               "bucket: as gradients are held | plain: any other (bucket)");
  flags.choice("--device", o.device, {"auto", "cpu", "cuda"}, "auto | cpu | cuda (auto)");
  flags.value("--emulate-link", "US,GB/S", o.emulated_link, parse_link,
              "as slowly as over this link; CPU");
  flags.group("Output");
  flags.toggle("--json", o.json, "stdout is JSON alone");
}

void check(const BenchOptions& o) {
  const std::size_t element = size_of(o.dtype());
  if (o.min_bytes < element) {
    throw UsageError(concat("--min-bytes: expected at least one ", o.type, ", ", element,
                            " bytes, got ", o.min_bytes));
  }
  if (o.max_bytes < o.min_bytes) {
    throw UsageError(
        concat("--max-bytes: expected at least --min-bytes, ", o.min_bytes, ", got ", o.max_bytes));
  }
}

}  // namespace

std::vector<std::size_t> BenchOptions::sizes() const {
  const std::size_t element = size_of(dtype());
  std::vector<std::size_t> sizes;
  auto bytes = static_cast<double>(min_bytes);
  while (bytes <= static_cast<double>(max_bytes)) {
    const std::size_t whole = static_cast<std::size_t>(bytes) / element * element;
    if (sizes.empty() || whole > sizes.back()) {
      sizes.push_back(whole);
    }
    bytes *= factor;
  }
  return sizes;
}

std::vector<std::string> BenchOptions::agreement() const {
  const auto joined = [](const std::vector<std::string>& list) {
    std::string text;
    for (const std::string& one : list) {
      text += ' ' + one;
    }
    return text;
  };
  return {concat("--min-bytes ", min_bytes),
          concat("--max-bytes ", max_bytes),
          concat("--factor ", factor),
          concat("--warmup ", warmup),
          concat("--iters ", iterations),
          concat("--type ", type),
          concat("--memory ", memory),
          concat("--comm", joined(comms)),
          concat("--reduce", joined(reduce)),
          concat("--device ", device),
          concat("--emulate-link ", emulated_link ? emulated_link->description() : "off"),
          concat("--no-check ", check ? "off" : "on")};
}

BenchParse parse_bench_options(int argc, const char* const* argv) {
  CLI::App app("Times all-reduces of one size after the other, checks the sums, fits α and β.",
               "bench_all_reduce");
  prepare_command_line(app);
  app.footer(kExamples);
  BenchParse result;
  FlagTable flags(app);
  declare(flags, result.options);
  result.exit = parse_command_line(app, argc, argv, [&] { check(result.options); });
  result.options.command_line = as_typed(argc, argv);
  return result;
}

}  // namespace brigade::apps
