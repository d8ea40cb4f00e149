#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>

#include "nn/data/batch_loader.h"
#include "nn/data/dataset.h"
#include "nn/data/sampler.h"

namespace brigade::data {

struct LoaderOptions {
  std::int64_t batch = 1;  ///< samples per rank and batch
  bool shuffle = true;     ///< another order in every epoch, the same on all ranks
  /// The samples at the end that do not fill a batch on every rank. Also with `pad` and `drop` all
  /// ranks have equally many batches, all of one size, so their collectives match. With `join` the
  /// last batches may differ in size between ranks or be empty. Each sample then comes once, so
  /// use `join` for tests.
  Uneven uneven = Uneven::pad;
  std::uint64_t seed = 0;  ///< of the order; ranks with different seeds overlap
};

/// This rank's batches of a data set, epoch after epoch, on its device:
///
///   for (const auto& [x, y] : loader.epoch(epoch)) …      x: f32 [N, in]   y: labels i64 [N], or
///                                                         values f32 [N, out]
///
/// A BatchLoader over a DistributedSampler. Beside a GPU the next batch is read while the current
/// one is used.
class Loader {
 public:
  /// `world`: anything with rank(), size() and device(). UsageError: with `drop`, fewer samples
  /// than one batch on every rank.
  template <class World>
  Loader(std::shared_ptr<const Dataset> dataset, const World& world,
         const LoaderOptions& options = {})
      : Loader(std::move(dataset),
               BatchGeometry{.batch = options.batch, .ranks = world.size(), .rank = world.rank()},
               world.device(), options) {}

  Loader(std::shared_ptr<const Dataset> dataset, const BatchGeometry& geometry, Device device,
         const LoaderOptions& options);

  /// The batches of one epoch: a range that is its own iterator. Of all epochs of a Loader one may
  /// be iterated at a time.
  struct Epoch {
    Loader* loader;
    std::int64_t step, last;

    Epoch begin() const { return *this; }
    std::default_sentinel_t end() const { return {}; }
    const Batch& operator*() const { return loader->load(step); }
    Epoch& operator++() {
      ++step;
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return step == last; }
  };

  /// Epochs may be asked for in any order: which samples are in number `epoch` depends on the seed
  /// alone. A batch may be kept: its memory is used again once no tensor holds it. Iterating throws
  /// what reading throws.
  Epoch epoch(std::int64_t epoch);

  /// The first `step` batches, counted through all epochs, are done: an epoch begins behind them,
  /// or is empty. For a run that continues another (dist/checkpoint/).
  void start_at(std::int64_t step) { start_ = step; }
  /// Batches given out so far, counted likewise.
  std::int64_t position() const { return std::max(start_, step_ + 1); }
  /// Samples of one batch on all ranks together.
  std::int64_t global_batch() const { return sampler_.geometry().global_batch(); }

  /// Batches of an epoch.
  std::int64_t size() const { return sampler_.steps_per_epoch(); }

 private:
  const Batch& load(std::int64_t step);  // once, however often it is asked for

  std::shared_ptr<const Dataset> dataset_;
  DistributedSampler sampler_;
  BatchLoader batches_;
  std::int64_t start_ = 0;
  std::int64_t step_ = -1;
  const Batch* batch_ = nullptr;  // of step_
};

}  // namespace brigade::data
