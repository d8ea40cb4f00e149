#include "dist/overlap/bucket_optimizer.h"

#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/runtime/context.h"
#include "core/runtime/trace.h"

namespace brigade::dist {

BucketOptimizer::BucketOptimizer(const std::vector<autograd::Variable>& parameters,
                                 Communicator& comm, Device device, OptimizerCalls optimizer,
                                 UpdateDeadline deadline)
    : parameters_(parameters),
      comm_(comm),
      device_(device),
      optimizer_(std::move(optimizer)),
      deadline_(deadline),
      stream_(make_side_stream(device, "brigade-update")) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    handles_.push_back(parameters[i].attach_listener(*this, i));
  }
}

void BucketOptimizer::finish() noexcept {
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    revoke_permission();
  }
  permission_->granted ? wait_for_all() : forget_all();
  optimizer_.end();
}

const char* BucketOptimizer::failure() const {
  return all_made_
             ? nullptr
             : "updates in flight have failed or were dropped, so the ranks no longer hold the "
               "same weights";
}

void BucketOptimizer::forget_all() noexcept {
  for (const autograd::Variable& parameter : parameters_) {
    const bool awaited = parameter.set_pending_write(nullptr);
    all_made_ = all_made_ && !awaited;
  }
}

void BucketOptimizer::wait_for_all() noexcept {
  std::string failure;  // one line, because the parameters of a bucket fail alike
  for (const autograd::Variable& parameter : parameters_) {
    try {
      parameter.wait_for_pending_write();
    } catch (const std::exception& error) {
      failure = fmt::format("[rank {}] {}", comm_.rank(), error.what());
    }
  }
  if (!failure.empty()) {
    report_line(failure);
  }
}

BucketOptimizer::~BucketOptimizer() {
  finish();
  if (permission_->granted || device_.is_cuda()) {
    return;
  }
  // Its thread may be waiting for a rank that is gone, so it is joined aside.
  Stream* const stream = stream_.release();
  try {
    std::thread([stream] { const std::unique_ptr<Stream> joined(stream); }).detach();
  } catch (const std::system_error&) {
    return;  // or never
  }
}

void BucketOptimizer::revoke_permission() noexcept {
  const std::lock_guard lock(permission_->mutex);  // waits for the one update that is running
  permission_->granted = false;
}

void BucketOptimizer::launched(const Bucket& bucket, const Work& work) {
  updates_.push_back(
      {.bucket = &bucket, .reduced = work, .run = optimizer_.update(bucket), .done = {}});
}

void BucketOptimizer::on_node_end() {
  for (; started_ < updates_.size(); ++started_) {
    start(updates_[started_]);
  }
}

void BucketOptimizer::start(Update& update) {
  stream_->wait(compute_stream(device_).record());  // dx has been computed from the old weights
  stream_->wait(update.reduced.done_event());
  const Event begin = comm_.times().now(*stream_);
  stream_->run([run = std::move(update.run), permission = permission_] {
    const std::lock_guard lock(permission->mutex);
    if (!permission->granted) {
      return;
    }
    const ProfilerRange range("optimizer");
    run();
  });
  update.done = stream_->record(comm_.times().on ? Timing::on : Timing::off);
  if (comm_.times().on) {
    records_.push_back({update.bucket->label, begin, update.done});
  }
}

void BucketOptimizer::backward_ended() {
  on_node_end();
  for (const Update& update : updates_) {
    if (deadline_ == UpdateDeadline::end_of_backward) {
      comm_.wait(Work(update.done, device_));
      continue;
    }
    for (const std::size_t index : update.bucket->members) {
      parameters_[index].set_pending_write([this, done = update.done] { wait_for_update(done); });
    }
  }
  updates_.clear();
  started_ = 0;
}

void BucketOptimizer::wait_for_update(const Event& done) {
  try {
    comm_.wait(Work(done, device_));
  } catch (...) {
    all_made_ = false;
    throw;
  }
}

void BucketOptimizer::backward_aborted() noexcept {
  if (!updates_.empty()) {  // some may have been started, of a step that will never be complete
    revoke_permission();
    all_made_ = false;
  }
  updates_.clear();
  started_ = 0;
}

}  // namespace brigade::dist
