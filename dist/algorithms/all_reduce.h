#pragma once

#include <cstdint>
#include <string>

#include "dist/comm/collectives.h"

namespace brigade::dist {

/// An all-reduce algorithm of our own (Communicator::use). It replaces the library's.
class AllReduce {
 public:
  virtual ~AllReduce() = default;

  /// For people: "ring", "recursive halving and doubling".
  virtual std::string name() const = 0;

  /// tensor := sum over ranks, in place; every rank gets the same bits. Calls come one after the
  /// other in the order of the communication stream (collectives.h), so they may share memory.
  virtual void run(Collectives& ranks, const Tensor& tensor) = 0;

  /// Allocates memory that run() sums without a copy (Communicator::make_buffer). Collective.
  virtual Tensor make_buffer(const Shape& shape, DType dtype, Device device) {
    return Tensor::empty(shape, dtype, device);
  }

  /// Makes a run() in progress fail soon, if it waits in sub-groups (Communicator::abandon). Any
  /// thread may call this.
  virtual void abandon() noexcept {}

  /// Bytes that run() sent through sub-groups and not through `ranks`.
  virtual std::uint64_t bytes_sent() const { return 0; }
};

}  // namespace brigade::dist
