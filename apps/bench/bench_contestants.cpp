#include "apps/bench/bench_contestants.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "apps/bench/blocking_mpi.h"
#include "apps/training/gather.h"
#include "core/error.h"
#include "core/runtime/context.h"
#include "dist/algorithms/ordered_all_reduce.h"
#include "dist/comm/emulated_link_communicator.h"
#include "dist/comm/mpi_communicator.h"

namespace brigade::apps {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  constexpr double kNs = 1e-9;
  return static_cast<double>(time.tv_sec) + kNs * static_cast<double>(time.tv_nsec);
}

bool can_sum_in_rank_order(const std::string& comm) {
  return comm != "mpi_blocking" && comm != "hierarchical";
}

std::unique_ptr<dist::Communicator> connect(const std::string& comm, const std::string& reduce,
                                            Device device) {
  const bool blocking = comm == "mpi_blocking";
  const bool deterministic = reduce == "deterministic";
  if (deterministic && !can_sum_in_rank_order(comm)) {
    throw UsageError(
        concat("--reduce deterministic: expected a --comm that can add in rank order, "
               "got ",
               comm));
  }
  if (blocking && device.is_cuda()) {
    throw UsageError("--comm mpi_blocking: expected --device cpu, got a GPU");
  }
  auto result =
      blocking ? std::make_unique<dist::MpiCommunicator>() : dist::make_communicator(comm, device);
  if (blocking) {
    result->use(dist::make_blocking_mpi_all_reduce());
  } else if (deterministic && !result->sums_in_rank_order()) {
    result->use(std::make_unique<dist::OrderedAllReduce>());
  }
  return result;
}

/// Collective, because ranks must agree on whether all hosts have equally many.
std::vector<std::string> all_that_work(Device device, const dist::RankInfo& ranks,
                                       dist::Communicator& control) {
  const std::vector<int> sizes = dist::all_gather_values(control, ranks.local_size);
  if (device.is_cuda()) {
    return {"auto"};
  }
  std::vector<std::string> comms{"mpi", "mpi_blocking"};
  if (ranks.hosts == 1) {
    comms.emplace_back("shared");
  } else if (std::ranges::count(sizes, sizes.front()) == control.size()) {
    comms.emplace_back("hierarchical");
  }
  comms.insert(comms.end(), {"ring", "halving", "tree"});
  return comms;
}

/// Small whole numbers, so that every order of additions gives the same sum.
double known_number(std::int64_t index, int rank) {
  constexpr std::int64_t kPeriod = 251;
  return static_cast<double>(index % kPeriod + rank);
}

/// The median over iterations of the slowest rank. Collective.
double slowest_median(const std::vector<double>& mine, dist::Communicator& control) {
  const std::vector<std::vector<double>> all = gather_vectors(control, mine);
  std::vector<double> slowest = all.front();
  for (const std::vector<double>& one : all) {
    for (std::size_t i = 0; i < slowest.size(); ++i) {
      slowest[i] = std::max(slowest[i], one[i]);
    }
  }
  const auto middle = slowest.begin() + static_cast<std::ptrdiff_t>(slowest.size() / 2);
  std::nth_element(slowest.begin(), middle, slowest.end());
  return *middle;
}

std::int64_t sum_over_ranks(std::int64_t mine, dist::Communicator& control) {
  std::int64_t sum = 0;
  for (const std::int64_t one : dist::all_gather_values(control, mine)) {
    sum += one;
  }
  return sum;
}

/// What one contestant's iterations took on this rank.
struct Samples {
  std::vector<double> out_of_place, in_place, cpu, beside;
};

/// Collective.
BenchRow medians(const Samples& samples, std::size_t bytes, dist::Communicator& control) {
  constexpr double kUs = 1e6;
  constexpr double kMs = 1e3;
  BenchRow row;
  row.bytes = bytes;
  row.out_of_place_us = kUs * slowest_median(samples.out_of_place, control);
  row.in_place_us = kUs * slowest_median(samples.in_place, control);
  if (!samples.cpu.empty()) {
    const double cpu = slowest_median(samples.cpu, control);
    row.cpu_ms = kMs * cpu;
    row.cpu_core = cpu / slowest_median(samples.beside, control);
  }
  return row;
}

}  // namespace

std::int64_t count_wrong_sums(const Tensor& sums, int ranks) {
  return dispatch_float(sums.dtype(), [&]<class T>() {
    const std::vector<T> values = sums.to_vector<T>();
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      double expected = 0.0;
      for (int rank = 0; rank < ranks; ++rank) {
        expected += known_number(static_cast<std::int64_t>(i), rank);
      }
      wrong += static_cast<double>(values[i]) == expected ? 0 : 1;  // NaN is wrong too
    }
    return wrong;
  });
}

Contestant::Contestant(const std::string& comm, const std::string& reduce,
                       const BenchOptions& options, Device device)
    : name_(reduce == "fast" ? comm : comm + " " + reduce),
      comm_(connect(comm, reduce, device)),
      device_(device) {
  if (options.emulated_link) {
    comm_ =
        std::make_unique<dist::EmulatedLinkCommunicator>(std::move(comm_), *options.emulated_link);
  }
  const Shape shape{static_cast<std::int64_t>(options.max_bytes / size_of(options.dtype()))};
  source_ = Tensor::zeros(shape, options.dtype(), device);
  result_ = options.memory == "bucket" ? comm_->make_buffer(shape, options.dtype(), device)
                                       : Tensor::zeros(shape, options.dtype(), device);
  if (!device.is_cuda()) {
    clockid_t clock{};
    const auto ask = [&clock](dist::Collectives&) {
      pthread_getcpuclockid(pthread_self(), &clock);
    };
    comm_->wait(comm_->enqueue(view(result_, 0), "clock", ask), device);
    thread_clock_ = clock;
  }
}

Tensor Contestant::view(const Tensor& tensor, std::size_t bytes) const {
  return tensor.flat_view(0, {static_cast<std::int64_t>(bytes / size_of(tensor.dtype()))});
}

template <class Work>
double Contestant::timed(Work work) {
  compute_stream(device_).synchronize();
  comm_->barrier();
  const auto begin = Clock::now();
  work();
  compute_stream(device_).synchronize();
  return seconds_since(begin);
}

double Contestant::time_out_of_place(std::size_t bytes) {
  const Tensor from = view(source_, bytes);
  const Tensor to = view(result_, bytes);
  return timed([&] {
    to.copy_from(from);
    comm_->blocking_all_reduce(to);
  });
}

double Contestant::time_in_place(std::size_t bytes) {
  const Tensor tensor = view(result_, bytes);
  tensor.zero();  // sums of sums would soon be infinite
  return timed([&] { comm_->blocking_all_reduce(tensor); });
}

std::optional<Contestant::ThreadUse> Contestant::use_of_thread(std::size_t bytes) {
  if (!thread_clock_) {
    return std::nullopt;
  }
  constexpr std::chrono::microseconds kLook{50};
  comm_->barrier();
  const auto begin = Clock::now();
  const double cpu = read_clock(*thread_clock_);
  const dist::Work work = comm_->all_reduce(view(result_, bytes));
  // Not wait(): it would tell the communication thread that this core has nothing better to do.
  while (!work.done().done()) {
    std::this_thread::sleep_for(kLook);
  }
  const ThreadUse use{.cpu_seconds = read_clock(*thread_clock_) - cpu,
                      .seconds = seconds_since(begin)};
  comm_->wait(work, device_);
  return use;
}

Tensor Contestant::known_numbers(std::size_t bytes) const {
  return dispatch_float(source_.dtype(), [&]<class T>() {
    std::vector<T> values(bytes / sizeof(T));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<T>(known_number(static_cast<std::int64_t>(i), comm_->rank()));
    }
    return Tensor::from(values, {static_cast<std::int64_t>(values.size())}, device_);
  });
}

std::int64_t Contestant::count_wrong_out_of_place(std::size_t bytes) {
  const Tensor from = view(source_, bytes);
  const Tensor to = view(result_, bytes);
  from.copy_from(known_numbers(bytes));
  to.copy_from(from);
  comm_->blocking_all_reduce(to);
  const std::int64_t wrong = count_wrong_sums(to, comm_->size());
  from.zero();
  return wrong;
}

std::int64_t Contestant::count_wrong_in_place(std::size_t bytes) {
  const Tensor tensor = view(result_, bytes);
  tensor.copy_from(known_numbers(bytes));
  comm_->blocking_all_reduce(tensor);
  return count_wrong_sums(tensor, comm_->size());
}

std::vector<std::unique_ptr<Contestant>> make_contestants(const BenchOptions& options,
                                                          Device device,
                                                          const dist::RankInfo& ranks,
                                                          dist::Communicator& control) {
  const bool asked = !options.comms.empty();
  std::vector<std::unique_ptr<Contestant>> contestants;
  for (const std::string& comm : asked ? options.comms : all_that_work(device, ranks, control)) {
    for (const std::string& reduce : options.reduce) {
      if (asked || reduce == "fast" || can_sum_in_rank_order(comm)) {
        contestants.push_back(std::make_unique<Contestant>(comm, reduce, options, device));
      }
    }
  }
  return contestants;
}

std::vector<BenchResult> race(const std::vector<std::unique_ptr<Contestant>>& contestants,
                              const BenchOptions& options, dist::Communicator& control) {
  std::vector<BenchResult> results;
  results.reserve(contestants.size());
  for (const auto& contestant : contestants) {
    results.push_back({contestant->name(), contestant->description(), {}});
  }
  for (const std::size_t bytes : options.sizes()) {
    std::vector<Samples> samples(contestants.size());
    for (std::int64_t turn = -options.warmup; turn < options.iterations; ++turn) {
      for (std::size_t i = 0; i < contestants.size(); ++i) {
        Samples warm_up;
        Samples& kept = turn < 0 ? warm_up : samples[i];
        kept.out_of_place.push_back(contestants[i]->time_out_of_place(bytes));
        kept.in_place.push_back(contestants[i]->time_in_place(bytes));
        if (const auto use = contestants[i]->use_of_thread(bytes)) {
          kept.cpu.push_back(use->cpu_seconds);
          kept.beside.push_back(use->seconds);
        }
      }
    }
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      BenchRow row = medians(samples[i], bytes, control);
      if (options.check) {
        row.wrong_out_of_place =
            sum_over_ranks(contestants[i]->count_wrong_out_of_place(bytes), control);
        row.wrong_in_place = sum_over_ranks(contestants[i]->count_wrong_in_place(bytes), control);
      }
      results[i].rows.push_back(row);
    }
  }
  return results;
}

}  // namespace brigade::apps
