// framework_bench: what the framework itself costs per node, against the size of the model.
//
// Google Benchmark; `s/node` is the column to read: constant where the cost is linear. See
// FRAMEWORK.md here for what a node is in each, and framework_cost_test.cpp for what is asserted.
#include <benchmark/benchmark.h>

#include <string>

#include "core/runtime/trace.h"
#include "tests/bench/framework_cost.h"

namespace brigade::bench {
namespace {

/// Time per node beside the time per run; rates count seconds, inverted they are times.
void count_nodes(benchmark::State& state) {
  state.counters["s/node"] = benchmark::Counter(
      static_cast<double>(state.range(0)),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void engine(benchmark::State& state) {
  EngineChain chain(static_cast<std::size_t>(state.range(0)));
  chain.run();  // takes the memory that every further run reuses
  for ([[maybe_unused]] const auto _ : state) {
    chain.run();
  }
  count_nodes(state);
}
BENCHMARK(engine)->RangeMultiplier(10)->Range(10, 100'000);

void narrow_network(benchmark::State& state) {
  NarrowNetwork network(static_cast<std::size_t>(state.range(0)));
  network.run();
  for ([[maybe_unused]] const auto _ : state) {
    network.run();
  }
  count_nodes(state);
}
BENCHMARK(narrow_network)->RangeMultiplier(10)->Range(10, 1'000);

/// What a scope costs when nobody looks.
void unseen_scope(benchmark::State& state) {
  for ([[maybe_unused]] const auto _ : state) {
    const TraceScope scope("backward linear", [] { return std::string("0.weight"); });
  }
}
BENCHMARK(unseen_scope);

void bucket_assignment(benchmark::State& state) {
  for ([[maybe_unused]] const auto _ : state) {
    benchmark::DoNotOptimize(plan_of(static_cast<std::size_t>(state.range(0))));
  }
  count_nodes(state);
}
BENCHMARK(bucket_assignment)->RangeMultiplier(10)->Range(100, 100'000);

void reducer(benchmark::State& state) {
  WrappedParameters parameters(static_cast<std::size_t>(state.range(0)));
  for ([[maybe_unused]] const auto _ : state) {
    parameters.report_all();
  }
  count_nodes(state);
}
BENCHMARK(reducer)->RangeMultiplier(10)->Range(100, 100'000);

}  // namespace
}  // namespace brigade::bench

BENCHMARK_MAIN();
