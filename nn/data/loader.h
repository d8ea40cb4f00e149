#pragma once

#include <cstdint>
#include <memory>

#include "core/random.h"
#include "nn/data/batch_loader.h"
#include "nn/data/dataset.h"
#include "nn/data/sampler.h"

namespace brigade::data {

struct LoaderOptions {
  std::int64_t batch = 1;  ///< samples per rank and batch
  bool shuffle = true;     ///< another order in every epoch, the same on all ranks
  /// The samples at the end that do not fill a batch on every rank. Also with `pad` and `drop` all
  /// ranks have equally many batches, all of one size, so their collectives match. With `join` the
  /// last batches may differ in size between ranks or be empty.
  Uneven uneven = Uneven::pad;
  std::uint64_t seed = initial_seed();  ///< of the order; as manual_seed has set it
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

  class Iterator {
   public:
    Iterator(BatchLoader* batches, std::int64_t step, std::int64_t end)
        : batches_(batches), step_(step), end_(end) {
      load();
    }
    const Batch& operator*() const { return *batch_; }
    Iterator& operator++() {
      ++step_;
      load();
      return *this;
    }
    bool operator==(const Iterator& other) const { return step_ == other.step_; }

   private:
    void load() { batch_ = step_ < end_ ? &batches_->load(step_).front() : nullptr; }

    BatchLoader* batches_;
    std::int64_t step_;
    std::int64_t end_;
    const Batch* batch_ = nullptr;
  };

  /// The batches of one epoch. Of all epochs of a Loader one may be iterated at a time.
  class Epoch {
   public:
    Epoch(BatchLoader* batches, std::int64_t begin, std::int64_t end)
        : batches_(batches), begin_(begin), end_(end) {}
    Iterator begin() const { return {batches_, begin_, end_}; }
    Iterator end() const { return {batches_, end_, end_}; }

   private:
    BatchLoader* batches_;
    std::int64_t begin_;
    std::int64_t end_;
  };

  /// Epochs may be asked for in any order: which samples are in number `epoch` depends on the seed
  /// alone. A batch may be used until the next one is taken; its memory is then used again, so
  /// clone() what must stay. Iterating throws what reading throws.
  Epoch epoch(std::int64_t epoch);

  /// Batches of an epoch.
  std::int64_t size() const { return sampler_.steps_per_epoch(); }
  const Dataset& dataset() const { return *dataset_; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  DistributedSampler sampler_;
  BatchLoader batches_;
};

}  // namespace brigade::data
