#include "apps/bench/all_reduce_case.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "apps/metrics/timing_summary.h"
#include "core/runtime/context.h"
#include "dist/comm/gather.h"

namespace brigade::apps {

namespace {

using Clock = std::chrono::steady_clock;

std::int64_t input_element(std::int64_t index, int rank) {
  constexpr std::int64_t kPeriod = 251;
  return index % kPeriod + rank;
}

Tensor make_input(std::int64_t elements, int rank, Device device) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < elements; ++i) {
    values.push_back(static_cast<float>(input_element(i, rank)));
  }
  return Tensor::from(values, {elements}, device);
}

/// View of the first `bytes` bytes.
Tensor head(const Tensor& tensor, std::size_t bytes) {
  return tensor.flat_view(0, {static_cast<std::int64_t>(bytes / sizeof(float))});
}

/// Median over the runs of the slowest rank's time, in µs. Collective.
double slowest_median_us(const std::vector<double>& seconds, dist::Communicator& control) {
  constexpr double kUs = 1e6;
  std::vector<double> slowest(seconds.size());
  for (const std::vector<double>& rank : dist::all_gather_sequences(control, seconds)) {
    std::ranges::transform(slowest, rank, slowest.begin(),
                           [](double a, double b) { return std::max(a, b); });
  }
  return kUs * quantile(slowest, 0.5);
}

}  // namespace

AllReduceCase::AllReduceCase(std::string name, std::unique_ptr<dist::Communicator> comm,
                             const BenchOptions& options, Device device)
    : name_(std::move(name)), comm_(std::move(comm)), device_(device) {
  input_ = make_input(static_cast<std::int64_t>(options.max_bytes / sizeof(float)), comm_->rank(),
                      device);
  bucket_ = comm_->make_buffer(input_.shape(), DType::f32, device);
}

double AllReduceCase::run(std::size_t bytes) {
  const Tensor bucket = head(bucket_, bytes);
  bucket.copy_from(head(input_, bytes));
  compute_stream(device_).synchronize();
  comm_->barrier();
  const auto begin = Clock::now();
  comm_->blocking_all_reduce(bucket);
  compute_stream(device_).synchronize();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::int64_t AllReduceCase::count_wrong(std::size_t bytes) const {
  const int ranks = comm_->size();
  std::int64_t wrong = 0;
  std::int64_t index = 0;
  for (const float sum : head(bucket_, bytes).to_vector<float>()) {
    const std::int64_t expected = ranks * input_element(index++, 0) + ranks * (ranks - 1) / 2;
    wrong += sum == static_cast<float>(expected) ? 0 : 1;  // NaN counts as wrong
  }
  return wrong;
}

std::vector<BenchResult> run_alternating(std::vector<AllReduceCase>& cases,
                                         const BenchOptions& options, dist::Communicator& control) {
  std::vector<BenchResult> results;
  std::ranges::transform(cases, std::back_inserter(results), [](const AllReduceCase& one) {
    return BenchResult{one.name(), one.description(), {}};
  });
  for (const std::size_t bytes : options.sizes()) {
    std::vector<std::vector<double>> seconds(cases.size());
    for (std::int64_t turn = -options.warmup; turn < options.iterations; ++turn) {
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const double run = cases[i].run(bytes);
        if (turn >= 0) {
          seconds[i].push_back(run);
        }
      }
    }
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto wrong = dist::all_gather_values(control, cases[i].count_wrong(bytes));
      results[i].rows.push_back({.bytes = bytes,
                                 .us = slowest_median_us(seconds[i], control),
                                 .wrong = std::reduce(wrong.begin(), wrong.end())});
    }
  }
  return results;
}

}  // namespace brigade::apps
