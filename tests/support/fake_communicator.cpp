#include "tests/support/fake_communicator.h"

#include "core/ops.h"

namespace brigade::test {
namespace {

/// Done when its stream has been flushed past it. A host that waits for it flushes: one thread
/// plays both sides.
class FlushedEvent final : public EventState {
 public:
  explicit FlushedEvent(RecordingStream& stream) : stream_(stream) {}
  void complete() { done_ = true; }
  bool done() const override { return done_; }
  void synchronize(bool /*urgent*/) override { stream_.flush(); }

 private:
  RecordingStream& stream_;
  bool done_ = false;
};

}  // namespace

void RecordingStream::run(std::function<void()> work) {
  log_.emplace_back("run");
  kept_.push_back(std::move(work));
}

Event RecordingStream::record(Timing /*timing*/) {
  log_.emplace_back("record");
  auto event = std::make_shared<FlushedEvent>(*this);
  kept_.emplace_back([event] { event->complete(); });
  return Event(std::move(event));
}

void RecordingStream::wait(const Event& event) {
  log_.emplace_back("wait");
  kept_.emplace_back([event] { event.synchronize(); });
}

void RecordingStream::flush() {
  const std::vector<std::function<void()>> work = std::exchange(kept_, {});
  for (const std::function<void()>& item : work) {
    item();
  }
}

std::vector<std::byte> FakeCommunicator::all_gather_bytes(std::span<const std::byte> mine) {
  std::vector<std::byte> all;
  for (int rank = 0; rank < size(); ++rank) {
    all.insert(all.end(), mine.begin(), mine.end());
  }
  return all;
}

void FakeCommunicator::do_sum(const Tensor& tensor) {
  log.push_back(fmt::format("sum {}", tensor.numel()));
  reduced.push_back(tensor.bytes());
  Tensor values = tensor;
  ops::axpby(values, {.alpha = static_cast<double>(size()), .beta = 0.0}, values);
}

void FakeCommunicator::do_exchange(std::span<const dist::Message> outgoing,
                                   std::span<const dist::Message> incoming,
                                   const OnArrival& /*arrived*/) {
  log.push_back(fmt::format("exchange {}", outgoing.size()));
  BRIGADE_CHECK(outgoing.size() == incoming.size(),
                "fake: peers that do as this rank does send {} messages, expected {}",
                outgoing.size(), incoming.size());
  for (std::size_t i = 0; i < incoming.size(); ++i) {
    incoming[i].tensor.copy_from(outgoing[i].tensor);
  }
}

}  // namespace brigade::test
