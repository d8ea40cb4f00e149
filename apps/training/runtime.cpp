#include "apps/training/runtime.h"

#include <malloc.h>

#include <algorithm>
#include <limits>

#include "apps/doctor/doctor.h"
#include "apps/flags/rules.h"
#include "apps/training/model.h"
#include "autograd/variable.h"
#include "core/config.h"
#include "core/cpu/threads.h"
#include "core/error.h"
#include "core/ops.h"
#include "core/runtime/context.h"
#include "dist/algorithms/ordered_all_reduce.h"
#include "dist/comm/agreement.h"
#include "optim/sgd.h"

namespace brigade::apps {
namespace {

/// What --low-memory does besides Optimizer::zero_grad(GradMemory::discard).
void save_memory() {
  constexpr std::size_t kSpares = 6 << 20;  // with less the step of a GPT takes longer
  constexpr int kTrim = 1 << 20;            // bytes of libraries' buffers that may wait for reuse
  Context::current().allocator(kCpu)->set_spares(kSpares);
  static_cast<void>(mallopt(M_TRIM_THRESHOLD, kTrim));
}

}  // namespace

Runtime find_runtime(const Options& options, const dist::RankInfo& ranks, const Console& console) {
  const auto control = dist::make_communicator("mpi", kCpu);
  dist::check_same_lines("program", {fmt::format("version {}", kVersion)}, *control);
  dist::check_same_lines("flags", options.agreement(), *control);
  Runtime runtime;
  runtime.device = find_device(options.device, ranks, *control, console);
  for (const std::string& idle : idle_flags(options)) {
    console.warn("no effect: " + idle);
  }
  Context::current().set_matmul_precision(options.matmul_precision == "high" ? MatmulPrecision::high
                                          : options.matmul_precision == "medium"
                                              ? MatmulPrecision::medium
                                              : MatmulPrecision::highest);
  if (options.low_memory && runtime.device.is_cuda()) {
    throw UsageError("--low-memory: expected --device cpu, got a GPU; leave it out");
  }
  if (options.low_memory) {
    save_memory();
  }
  if (options.shrinks() && runtime.device.is_cuda()) {
    throw UsageError("--on-failure shrink: expected --device cpu, got a GPU: NCCL has no sockets");
  }
  runtime.comm = dist::make_communicator(options.shrinks() ? "mpi" : options.comm, runtime.device);
  choose_sum(options, *runtime.comm);
  const RankFacts mine = collect_facts(ranks, runtime.device, *control, *runtime.comm);
  for (const std::string& trap : warnings_of(gather_facts(mine, *control), /*with_gpus=*/false)) {
    console.warn(trap);
  }
  return runtime;
}

Device find_device(const std::string& request, const dist::RankInfo& ranks,
                   dist::Communicator& control, const Console& console) {
  std::string note;
  const Device device = dist::choose_device(request, ranks, control, note);
  if (!note.empty()) {
    console.warn(note);
  }
  return device;
}

void choose_sum(const Options& options, dist::Communicator& comm) {
  if (options.reduce == "deterministic" && !comm.sums_in_rank_order()) {
    comm.use(std::make_unique<dist::OrderedAllReduce>());
  }
}

void set_threads(const Options& options, const dist::RankInfo& ranks) {
  if (options.threads > max_cpu_threads()) {
    throw UsageError(
        fmt::format("--threads: expected at most {}, which this OpenBLAS is built for, got {}",
                    max_cpu_threads(), options.threads));
  }
  set_cpu_threads(static_cast<int>(options.threads > 0
                                       ? options.threads
                                       : std::min<std::int64_t>(ranks.threads, max_cpu_threads())));
}

double product_rate(Device device, DType factors) {
  constexpr std::int64_t kSide = 1024;
  constexpr int kTimes = 10;
  const Tensor a = Tensor::zeros({kSide, kSide}, factors, device);
  Tensor c = Tensor::empty({kSide, kSide}, DType::f32, device);
  double shortest = std::numeric_limits<double>::max();
  for (int i = 0; i < kTimes; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    ops::gemm(a, ops::Trans::no, a, ops::Trans::yes, {}, c);
    compute_stream(device).synchronize();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    shortest = std::min(shortest, spent.count());
  }
  return 2.0 * kSide * kSide * kSide / shortest;
}

ResidentPeak count_memory(Device device) {
  {
    const auto model = make_network({.widths = {8, 8, 8}}, /*seed=*/0, device);
    const Tensor x = Tensor::zeros({4, 8}, DType::f32, device);
    const auto loss = make_loss("mse");
    (*loss)(model->forward(autograd::Variable(x)), x).backward();
    optim::SGD(model->parameters(), {.lr = 0.01}).step();
  }
  CachingAllocator& allocator = *Context::current().allocator(device);
  allocator.trim();
  allocator.reset_peak();
  return {};
}

}  // namespace brigade::apps
