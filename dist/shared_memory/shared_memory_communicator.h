#pragma once

#include <memory>

#include "dist/comm/mpi_communicator.h"
#include "dist/shared_memory/shared_memory.h"

namespace brigade::dist {

/// Ranks of one host: sums through shared memory (shared_memory.h), everything else as
/// MpiCommunicator. Buckets belong into memory of make_buffer: then a sum copies nothing.
///
/// Waiting for the others costs no processor time: the communication thread sleeps in the kernel
/// until the last rank comes, except for a moment while this rank is blocked on the result.
class SharedMemoryCommunicator final : public MpiCommunicator {
 public:
  /// As Communicator::split of `parent`. UsageError when the ranks are on several hosts.
  SharedMemoryCommunicator(const MpiCommunicator& parent, int color, int key);
  ~SharedMemoryCommunicator() override;

  bool sums_in_rank_order() const override { return true; }
  std::unique_ptr<Communicator> split(int color, int key) override;

 protected:
  std::string transport() const override;
  Tensor do_make_buffer(const Shape& shape, DType dtype, Device device) override;
  void do_sum(const Tensor& tensor) override;
  void do_reduce_scatter(const Tensor& tensor) override;
  void do_all_gather(const Tensor& tensor) override;

 private:
  std::unique_ptr<SharedMemory> make_memory();

  std::unique_ptr<SharedMemory> memory_;
};

}  // namespace brigade::dist
