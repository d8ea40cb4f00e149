#pragma once

#include <memory>

#include "dist/comm/mpi_communicator.h"
#include "dist/shared_memory/shared_memory.h"

namespace brigade::dist {

/// Ranks of one host. Sums through shared memory (shared_memory.h), everything else through MPI. A
/// sum of a tensor from make_buffer() copies nothing.
///
/// The communication thread sleeps in the kernel until the last rank arrives. It spins for a moment
/// only if this rank's own thread is blocked on the result.
class SharedMemoryCommunicator final : public MpiCommunicator {
 public:
  /// As Communicator::split of `parent`. UsageError when the ranks are on several hosts.
  SharedMemoryCommunicator(const MpiCommunicator& parent, int color, int key);
  ~SharedMemoryCommunicator() override;

  bool sums_in_rank_order() const override { return true; }

 protected:
  std::string transport() const override;
  Tensor do_make_buffer(const Shape& shape, DType dtype, Device device) override;
  void do_sum(const Tensor& tensor) override;
  void reduce_scatter(const Tensor& tensor) override;
  void all_gather(const Tensor& tensor) override;

 private:
  void count_half_of_sum(const Tensor& tensor);

  std::unique_ptr<SharedMemory> make_memory();

  std::unique_ptr<SharedMemory> memory_;
};

}  // namespace brigade::dist
