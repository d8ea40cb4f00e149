#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/runtime/stream.h"
#include "core/tensor.h"
#include "dist/comm/communicator.h"

namespace brigade::test {

/// A rank whose collectives do nothing, at once, on the calling thread: alone, or one of several
/// that all say the same.
class IdleCommunicator : public dist::Communicator {
 public:
  explicit IdleCommunicator(int rank = 0, int size = 1) : Communicator(rank, size) {}
  void barrier() override {}
  std::vector<std::byte> all_gather_bytes(std::span<const std::byte> mine) override {
    std::vector<std::byte> all;
    for (int rank = 0; rank < size(); ++rank) {
      all.insert(all.end(), mine.begin(), mine.end());
    }
    return all;
  }
  void broadcast(std::span<std::byte> /*bytes*/, int /*root*/) override {}

 protected:
  std::string transport() const override { return "idle"; }
  Stream& comm_stream() override { return stream_; }
  void do_sum(const Tensor& /*tensor*/) override {}
  void do_exchange(std::span<const dist::Message> /*outgoing*/,
                   std::span<const dist::Message> /*incoming*/,
                   const OnArrival& /*arrived*/) override {}

 private:
  InlineStream stream_;
};

}  // namespace brigade::test
