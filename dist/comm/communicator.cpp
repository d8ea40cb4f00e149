#include "dist/comm/communicator.h"

#include <chrono>
#include <thread>

#include "core/error.h"
#include "core/runtime/context.h"
#include "core/runtime/loan.h"
#include "core/runtime/trace.h"

namespace brigade::dist {

std::string Communicator::description() const {
  const std::string carrier = algorithm_ ? transport() + ", " + algorithm_->name() : transport();
  return link_ ? carrier + ", " + link_->description() : carrier;
}

void Communicator::emulate_link(const LinkModel& link) {
  const Device device = comm_stream().device();
  if (device.is_cuda()) {
    throw UsageError(concat("emulated links are for CPU ranks, but this one's gradients are on ",
                            device, "; use --device cpu or leave out --emulate-link"));
  }
  link_ = link;
}

void Communicator::count_again(const Traffic& repeated) {
  collectives_ += repeated.collectives;
  bytes_reduced_ += repeated.bytes_reduced;
  count_sent(repeated.bytes_sent);
}

void Communicator::abandon() noexcept {
  if (algorithm_) {
    algorithm_->abandon();
  }
}

std::unique_ptr<Communicator> Communicator::split(int /*color*/, int /*key*/) {
  throw Error(concat(transport(), " cannot be split into sub-groups"));
}

// Two streams and two events. Nothing here waits; each line only adds to a queue:
//
//   compute   ... dW | record(ready) | dx of the next layer ...            | wait(end) | optimizer
//                            |                                                  ^
//   comm               wait(ready) | begin | sum over ranks | record(end) ------+
//
Work Communicator::enqueue(const Tensor& payload, std::string_view label,
                           std::function<void(Collectives&)> collective) {
  end_loan(payload);  // a layer's output would be overwritten by backward while it travels
  Stream& compute = compute_stream(payload.device());
  Stream& comm = comm_stream();
  const Timing timing = event_times() ? Timing::on : Timing::off;
  // Without these two lines the collective could read a gradient that a kernel is still writing.
  const Event ready = compute.record(timing);
  comm.wait(ready);

  // Before it runs: on a GPU that is now, and one that fails halfway has been started.
  ++collectives_;
  bytes_reduced_ += payload.nbytes();
  const Event begin = mark(comm);
  comm.run([this, &comm, collective = std::move(collective)] {
    const ProfilerRange range("allreduce");
    std::optional<UseStream> operators;
    if (comm.device().is_cuda()) {
      // Here runs the rank's own thread, whose operators would go to the compute stream. On the
      // CPU it is the communication thread, and operators run on it anyway.
      operators.emplace(comm);
    }
    if (link_) {
      // The clock of the emulated link starts when the last rank has come: before that no byte of
      // its could travel.
      do_sum(Tensor::zeros({1}));  // not sum(): it is no rank's gradient
    }
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t sent_before = bytes_sent();
    collective(*this);
    if (link_) {
      // Only on the CPU, where the sum is done by now and this is the stream's own thread.
      // What a hook has compressed costs what it sent, not what it was given.
      const std::chrono::duration<double, std::milli> cost(
          link_->ring_ms(size(), static_cast<double>(bytes_sent() - sent_before)));
      std::this_thread::sleep_until(start +
                                    std::chrono::ceil<std::chrono::steady_clock::duration>(cost));
    }
  });
  const Event end = comm.record(timing);
  if (timed_) {
    collective_records_.push_back({std::string(label), payload.nbytes(), ready, begin, end});
  }
  return Work(end);
}

Work Communicator::all_reduce(const Tensor& tensor, std::string_view label) {
  // By value: on the CPU the memory stays alive until the collective has run.
  return enqueue(tensor, label, [this, tensor](Collectives& ranks) {
    if (algorithm_) {
      algorithm_->run(ranks, tensor);
    } else {
      ranks.sum(tensor);
    }
  });
}

void Communicator::wait(const Work& work, Device device) {
  Stream& compute = compute_stream(device);
  wait_since(mark(compute), work, compute);
}

void Communicator::blocking_all_reduce(const Tensor& tensor, std::string_view label) {
  Stream& compute = compute_stream(tensor.device());
  const Event begin = mark(compute);
  wait_since(begin, all_reduce(tensor, label), compute);
}

void Communicator::wait_since(const Event& begin, const Work& work, Stream& compute) {
  compute.wait(work.done());
  if (timed_) {
    wait_records_.push_back({begin, mark(compute)});
  }
}

}  // namespace brigade::dist
