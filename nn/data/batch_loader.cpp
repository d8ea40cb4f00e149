#include "nn/data/batch_loader.h"

#include "core/error.h"
#include "core/runtime/context.h"
#include "core/runtime/pinned.h"
#include "core/runtime/trace.h"

namespace brigade::data {

namespace {

/// In the shapes of `like`: where samples are decoded to, on their way to a GPU.
Batch pinned_like(const Batch& like) {
  return {.inputs = empty_pinned(like.inputs.shape(), like.inputs.dtype()),
          .targets = empty_pinned(like.targets.shape(), like.targets.dtype())};
}

}  // namespace

BatchLoader::BatchLoader(const Dataset& data, DistributedSampler& sampler, Device device,
                         Prefetch prefetch)
    : data_(data),
      sampler_(sampler),
      device_(device),
      prefetch_(prefetch),
      buffers_(prefetch == Prefetch::on ? 2 : 1) {
  const BatchGeometry& geometry = sampler.geometry();
  const std::int64_t parts = geometry.accum * geometry.ranks;  // that differ by a sample
  const std::int64_t samples = geometry.accum * ((sampler.global_samples(0) + parts - 1) / parts);
  for (Buffers& buffers : buffers_) {
    buffers.device = allocate_batch(data, samples, device);
    buffers.host = device.is_cuda() ? pinned_like(buffers.device) : Batch();
  }
  if (device.is_cuda()) {
    copies_ = make_side_stream(device, "brigade-copies");
  }
  reader_ = prefetch == Prefetch::on ? make_side_stream(kCpu, "brigade-loader")
                                     : std::make_unique<InlineStream>();
}

BatchLoader::~BatchLoader() {
  reader_.reset();  // finishes a step that nobody will ask for
  if (copies_) {
    try {
      copies_->synchronize();  // the buffers go back to the allocator now
    } catch (const Error&) {
      // The device has failed: whoever asks it next hears of it.
    }
  }
}

const std::vector<Batch>& BatchLoader::load(std::int64_t step) {
  Buffers& buffers = buffers_of(step);
  if (started_ != step) {
    start(step);  // every one without prefetching, else the first
  }
  buffers.reusable.synchronize();  // the reader waits, too, but dist/watch sees this thread alone
  buffers.decoded.synchronize();
  compute_stream(device_).wait(buffers.copied);
  if (prefetch_ == Prefetch::on) {
    start(step + 1);
  }
  return buffers.batches;
}

BatchLoader::Buffers& BatchLoader::buffers_of(std::int64_t step) {
  return buffers_[static_cast<std::size_t>(step) % buffers_.size()];
}

/// What has used the step's buffers before is enqueued on the compute stream by now.
void BatchLoader::start(std::int64_t step) {
  Buffers& buffers = buffers_of(step);
  buffers.decoded.synchronize();  // a step that was read ahead and skipped may still be decoded
  buffers.reusable = buffers.copied;
  buffers.batches.clear();
  if (!buffers.device.inputs.holds_alone() || !buffers.device.targets.holds_alone()) {
    // Somebody keeps a batch, or a graph that has not run backward does.
    buffers.device = allocate_batch(data_, buffers.device.inputs.shape()[0], device_);
  }
  reader_->run([this, &buffers, step, device_is_free = compute_stream(device_).record()] {
    fill(buffers, step, device_is_free);
  });
  buffers.decoded = reader_->record();
  started_ = step;
}

void BatchLoader::fill(Buffers& buffers, std::int64_t step, const Event& device_is_free) {
  const ProfilerRange range("decode batch");
  const std::int64_t in_epoch = step % sampler_.steps_per_epoch();
  if (const std::int64_t epoch = step / sampler_.steps_per_epoch(); epoch != epoch_) {
    sampler_.set_epoch(static_cast<std::uint32_t>(epoch));
    epoch_ = epoch;
  }
  if (copies_) {
    buffers.reusable.synchronize(/*urgent=*/false);
    copies_->run(
        [&] { copies_->wait(device_is_free); });  // on its GPU, which is new to this thread
  }
  std::int64_t row = 0;
  for (std::int64_t micro = 0; micro < sampler_.geometry().accum; ++micro) {
    const auto samples = sampler_.micro_batch(in_epoch, micro);
    const std::int64_t count = std::ssize(samples);
    const Batch decoded = (copies_ ? buffers.host : buffers.device).rows(row, count);
    data_.read(samples, decoded);
    const Batch& batch = buffers.batches.emplace_back(buffers.device.rows(row, count));
    if (copies_) {
      copies_->run([&] {
        batch.inputs.copy_from(decoded.inputs);
        batch.targets.copy_from(decoded.targets);
      });
    }
    row += count;
  }
  buffers.copied = copies_ ? copies_->record() : Event();
}

}  // namespace brigade::data
