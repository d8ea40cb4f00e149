#pragma once

#include <vector>

#include "autograd/variable.h"
#include "dist/ddp/accumulation.h"
#include "dist/ddp/data_parallel_options.h"
#include "dist/ddp/grad_averager.h"
#include "dist/launch/world.h"

namespace brigade::dist {

/// Makes the ranks of a world train one model, as torch.nn.parallel.DistributedDataParallel does:
///
///   dist::DataParallel ddp(model, world);
///   Variable loss = nn::cross_entropy(ddp(x), y);
///   loss.backward();                        // all ranks now have the averaged gradients
///
/// It is called like the module it wraps, which must outlive it: anything with parameters() and
/// operator(), such as an nn::Module. A GradAverager does the work.
template <class Module>
class DataParallel {
 public:
  /// Collective. VerificationError unless the parameters of all ranks are equal, names, shapes and
  /// values (options: or take rank 0's values). Error: a parameter is wrapped already.
  DataParallel(Module& module, const World& world, const DataParallelOptions& options = {})
      : DataParallel(module, world.communicator(), options) {}
  DataParallel(Module& module, Communicator& communicator, const DataParallelOptions& options = {})
      : module_(module), averager_(module.parameters(), communicator, options) {}

  template <class... Inputs>
  auto operator()(const Inputs&... inputs) {
    return module_(inputs...);
  }

  /// As long as the result lives, backward only accumulates, on each rank by itself; the first one
  /// after it averages everything accumulated. Until then grad() is this rank's gradient divided by
  /// the number of ranks. Nestable.   auto silent = ddp.no_sync();
  [[nodiscard]] GradAverager::NoSyncScope no_sync() { return averager_.no_sync(); }

  /// A step of `micro_batches` backwards with one synchronisation, as if they were one batch:
  ///
  ///   for (auto& micro : ddp.accumulate(4)) { micro.backward(loss_of(ddp(x), y)); }
  ///
  /// Error: fewer than one.
  Accumulation accumulate(int micro_batches) { return {averager_, micro_batches}; }

  /// VerificationError that names rank and parameter unless all ranks hold equal bits. Collective.
  void verify_parameters_equal() const { averager_.verify_parameters_equal(); }

  /// Those that train, each once: what an optimizer is for.
  const std::vector<autograd::Variable>& parameters() const { return averager_.parameters(); }
  const std::vector<Bucket>& buckets() const { return averager_.buckets(); }
  Module& module() const { return module_; }
  GradAverager& averager() { return averager_; }

 private:
  Module& module_;
  GradAverager averager_;
};

}  // namespace brigade::dist
