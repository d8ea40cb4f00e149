#pragma once

#include <cstdint>
#include <string>

#include "dist/comm/collectives.h"

namespace brigade::dist {

/// An all-reduce of our own, made of exchanges, to use in place of the library's.
class AllReduce {
 public:
  virtual ~AllReduce() = default;

  /// For people: "ring", "recursive halving and doubling".
  virtual std::string name() const = 0;

  /// tensor := sum over ranks, in place; every rank ends with the same bits. Called in the order of
  /// the communication stream (collectives.h), one call after the other, so memory may be kept from
  /// one to the next.
  virtual void run(Collectives& ranks, const Tensor& tensor) = 0;

  /// Memory in which run() needs no copy of its own (Communicator::make_buffer). Collective.
  virtual Tensor make_buffer(const Shape& shape, DType dtype, Device device) {
    return Tensor::empty(shape, dtype, device);
  }

  /// Makes a run() in progress in groups of its own fail soon (Communicator::abandon). From any
  /// thread.
  virtual void abandon() noexcept {}

  /// Bytes sent by other means than the `ranks` of run().
  virtual std::uint64_t bytes_sent() const { return 0; }
};

}  // namespace brigade::dist
