#include "dist/communicator.h"

#include "core/context.h"
#include "core/trace.h"

namespace brigade::dist {

Work Communicator::all_reduce(const Tensor& tensor) {
  Stream& compute = compute_stream(tensor.device());
  Stream& comm = comm_stream();
  // Without these two lines the collective could read a gradient that a kernel is still writing.
  const Event ready = compute.record(timing_);
  comm.wait(ready);

  const Event begin = timing_ == Timing::on ? comm.record(timing_) : Event();
  comm.run([this, tensor] {
    const TraceScope scope("allreduce");
    sum(tensor);
  });
  const Event end = comm.record(timing_);

  ++collectives_;
  bytes_reduced_ += tensor.nbytes();
  if (timing_ == Timing::on) {
    collective_records_.push_back({tensor.nbytes(), ready, begin, end});
  }
  return Work(end);
}

void Communicator::wait(const Work& work, Device device) {
  Stream& compute = compute_stream(device);
  if (timing_ == Timing::off) {
    compute.wait(work.done());
    return;
  }
  const Event begin = compute.record(timing_);
  compute.wait(work.done());
  wait_records_.push_back({begin, compute.record(timing_)});
}

}  // namespace brigade::dist
