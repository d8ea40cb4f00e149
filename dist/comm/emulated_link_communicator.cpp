#include "dist/comm/emulated_link_communicator.h"

#include <chrono>
#include <thread>
#include <utility>

#include "core/error.h"

namespace brigade::dist {

EmulatedLinkCommunicator::EmulatedLinkCommunicator(std::unique_ptr<Communicator> inner,
                                                   const LinkModel& link)
    : Communicator(inner->rank(), inner->size()), owned_(std::move(inner)), link_(link) {
  const Device device = comm_stream().device();
  if (device.is_cuda()) {
    throw UsageError(
        fmt::format("emulated links are for CPU ranks, but this one's gradients are on {}; use "
                    "--device cpu or leave out --emulate-link",
                    device));
  }
  if (inner_.algorithm_) {
    use(std::move(inner_.algorithm_));
  }
  add_wrap([this](const Tensor& /*payload*/, std::string_view /*label*/, Collective collective) {
    return [this, collective = std::move(collective)](Collectives& /*ranks*/) {
      run_delayed(collective);
    };
  });
}

void EmulatedLinkCommunicator::abandon() noexcept {
  Communicator::abandon();
  inner_.abandon();
}

// Only on the CPU, where this is the communication stream's own thread and a collective has ended
// when its call returns.
void EmulatedLinkCommunicator::run_delayed(const Collective& collective) {
  // The clock starts when the last rank has come: before that no byte of its could travel. Not
  // sum(), which would count it as sent.
  do_sum(Tensor::zeros({1}));
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t sent_before = bytes_sent();
  collective(*this);
  // A hook that compresses costs what it sent, not what it was given.
  const std::chrono::duration<double, std::milli> cost(
      link_.ring_ms(size(), static_cast<double>(bytes_sent() - sent_before)));
  std::this_thread::sleep_until(start +
                                std::chrono::ceil<std::chrono::steady_clock::duration>(cost));
}

}  // namespace brigade::dist
