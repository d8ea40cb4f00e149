#include "dist/comm/communicator.h"

#include "core/error.h"
#include "core/runtime/context.h"
#include "core/runtime/trace.h"

namespace brigade::dist {

std::string Communicator::description() const {
  return algorithm_ ? transport() + ", " + algorithm_->name() : transport();
}

void Communicator::abandon() noexcept {
  if (algorithm_) {
    algorithm_->abandon();
  }
}

std::unique_ptr<Communicator> Communicator::split(int /*color*/, int /*key*/) {
  throw Error(fmt::format("{} cannot be split into sub-groups", transport()));
}

// Two streams and two events. enqueue() adds to two queues and never waits; on a CPU wait() does:
//
//   compute   ... dW | record(ready) | dx of the next layer ...            | wait(end) | optimizer
//                            |                                                  ^
//   comm               wait(ready) | begin | sum over ranks | record(end) ------+
//
Work Communicator::enqueue(const Tensor& payload, std::string_view label, Collective collective) {
  Stream& compute = compute_stream(payload.device());
  Stream& comm = comm_stream();
  // Without these two lines the collective could read a gradient that a kernel is still writing.
  const Event ready = compute.record(times_.on ? Timing::on : Timing::off);
  comm.wait(ready);

  for (const Wrap& wrap : wraps_) {
    collective = wrap(payload, label, std::move(collective));
  }
  // Counted before it runs: on a GPU it runs now, and one that fails halfway has been started.
  ++collectives_;
  bytes_reduced_ += payload.nbytes();
  const Event begin = times_.now(comm);
  comm.run([this, collective = std::move(collective)] {
    const ProfilerRange range("collective");
    collective(*this);
  });
  const Event end = comm.record(Timing::on);
  if (times_.on) {
    times_.collectives.push_back({std::string(label), payload.nbytes(), ready, begin, end});
  }
  return {end, payload.device()};
}

Work Communicator::all_reduce(const Tensor& tensor, std::string_view label) {
  BRIGADE_CHECK(tensor.defined(), "all_reduce: expected a tensor, got an undefined one");
  // By value: on the CPU the memory stays alive until the collective has run.
  return enqueue(tensor, label, [this, tensor](Collectives& ranks) {
    algorithm_ ? algorithm_->run(ranks, tensor) : ranks.sum(tensor);
  });
}

void Communicator::wait(const Work& work) {
  Stream& compute = compute_stream(work.device());
  const Event begin = times_.now(compute);
  compute.wait(work.done_event());
  if (times_.on) {
    times_.waits.push_back({begin, times_.now(compute)});
  }
}

void Communicator::blocking_all_reduce(const Tensor& tensor, std::string_view label) {
  const Event begin = times_.now(compute_stream(tensor.device()));
  wait(all_reduce(tensor, label));
  if (times_.on) {
    times_.waits.back().begin = begin;  // the whole collective counts as waiting
  }
}

}  // namespace brigade::dist
