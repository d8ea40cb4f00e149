#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/ops.h"
#include "dist/comm/communicator.h"

namespace brigade::test {

/// A stream that executes nothing by itself: it keeps what it was given, in order, until flush().
/// Shows what would have happened when, and lets a test hold a collective back as a slow network
/// would.
class RecordingStream final : public Stream {
 public:
  explicit RecordingStream(std::vector<std::string>& log) : Stream(kCpu), log_(log) {}
  void run(std::function<void()> work) override;
  Event record(Timing timing) override;
  void wait(const Event& event) override;
  using Stream::record;

  /// Executes everything kept so far.
  void flush();

 private:
  std::vector<std::string>& log_;
  std::vector<std::function<void()>> kept_;
};

/// One of `size` ranks whose peers all hold the same values: a sum multiplies by `size`. Logs
/// "wait", "run", "record" and "sum N" and lets tests add lines of their own, so that a test can
/// assert the order of everything.
class FakeCommunicator final : public dist::Communicator {
 public:
  explicit FakeCommunicator(int size) : Communicator(0, size), stream_(log) {}

  void barrier() override { log.emplace_back("barrier"); }
  std::vector<std::byte> all_gather_bytes(std::span<const std::byte> mine) override;
  void broadcast(std::span<std::byte> /*bytes*/, int /*root*/) override {}
  RecordingStream& stream() { return stream_; }

  /// Addresses of the tensors handed to all_reduce, in order.
  std::vector<const std::byte*> reduced;
  std::vector<std::string> log;
  /// What make_buffer has handed out.
  std::vector<Tensor> buffers;
  /// Whether it has none left.
  bool out_of_memory = false;

 protected:
  std::string transport() const override { return "fake"; }
  Stream& comm_stream() override { return stream_; }
  Tensor do_make_buffer(const Shape& shape, DType dtype, Device device) override {
    BRIGADE_CHECK(!out_of_memory, "fake: out of memory");
    Tensor buffer = Tensor::empty(shape, dtype, device);
    ops::fill(std::numeric_limits<double>::quiet_NaN(), buffer);  // nobody may count on a value
    return buffers.emplace_back(std::move(buffer));
  }
  void do_sum(const Tensor& tensor) override;
  /// Every peer sends what this rank sends, in the order of its own messages.
  void do_exchange(std::span<const dist::Message> outgoing, std::span<const dist::Message> incoming,
                   const OnArrival& arrived) override;

 private:
  RecordingStream stream_;
};

}  // namespace brigade::test
