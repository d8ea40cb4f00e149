#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/runtime/stream.h"
#include "nn/data/dataset.h"
#include "nn/data/sampler.h"

namespace brigade::data {

/// Whether a BatchLoader works one step ahead, on a thread of its own.
enum class Prefetch : bool { off, on };

/// This rank's micro-batches, step after step, on its device.
///
/// With Prefetch::on the next step's samples are drawn and decoded while the current step computes;
/// for a GPU into pinned memory, from where a stream of their own copies them. The step then waits
/// for data only if reading takes longer than computing. There are two sets of buffers, used in
/// turn: while a step computes on one, the next step's samples go into the other. One of which
/// somebody still holds a tensor is left to it and replaced.
class BatchLoader {
 public:
  /// The references must outlive it. From here on the sampler's epochs and micro-batches belong to
  /// the loader; its sizes (steps_per_epoch, global_samples) stay everyone's.
  BatchLoader(const Dataset& data, DistributedSampler& sampler, Device device, Prefetch prefetch);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// The micro-batches of step `step`, counted from 0 through all epochs; to be called in order,
  /// from any step on. The reference is valid until the next call, and the tensors as long as
  /// somebody holds them. Rethrows what reading has thrown.
  const std::vector<Batch>& load(std::int64_t step);

 private:
  struct Buffers {
    Batch device;                // all micro-batches, one after the other
    Batch host;                  // the same, on the way to a GPU
    std::vector<Batch> batches;  // views of `device`
    Event decoded;               // on the loader's thread; `batches` and `copied` are set
    Event copied;                // on the copy stream
    Event reusable;              // `copied` of the step before in these buffers: `host` is free
  };

  Buffers& buffers_of(std::int64_t step);
  void start(std::int64_t step);
  void fill(Buffers& buffers, std::int64_t step, const Event& device_is_free);

  const Dataset& data_;
  DistributedSampler& sampler_;
  Device device_;
  Prefetch prefetch_;
  std::vector<Buffers> buffers_;
  std::int64_t epoch_ = -1;         // the sampler's; none yet
  std::int64_t started_ = -1;       // the last step of which reading has begun
  std::unique_ptr<Stream> copies_;  // null on the CPU: nothing to copy
  std::unique_ptr<Stream> reader_;  // last: its thread uses everything above
};

}  // namespace brigade::data
