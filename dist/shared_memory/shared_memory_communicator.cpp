#include "dist/shared_memory/shared_memory_communicator.h"

#include "core/error.h"
#include "dist/comm/placement.h"

namespace brigade::dist {

SharedMemoryCommunicator::SharedMemoryCommunicator(const MpiCommunicator& parent, int color,
                                                   int key)
    : MpiCommunicator(parent, color, key), memory_(make_memory()) {}

SharedMemoryCommunicator::~SharedMemoryCommunicator() {
  finish();  // the stream's thread uses memory_
}

std::unique_ptr<SharedMemory> SharedMemoryCommunicator::make_memory() {
  const int hosts = placement_of(rank(), host_of_ranks()).hosts;
  if (hosts > 1) {
    throw UsageError(
        fmt::format("comm: shared memory joins ranks of one host, but these are on {}; use --comm "
                    "hierarchical or mpi",
                    hosts));
  }
  return std::make_unique<SharedMemory>(*this,
                                        WaitPolicy{.spin_first = [this] { return someone_waits(); },
                                                   .check = [this] { check_not_abandoned(); }});
}

std::string SharedMemoryCommunicator::transport() const {
  return fmt::format("shared memory of one host, {}", MpiCommunicator::transport());
}

Tensor SharedMemoryCommunicator::do_make_buffer(const Shape& shape, DType dtype, Device device) {
  return device.is_cuda() ? MpiCommunicator::do_make_buffer(shape, dtype, device)
                          : memory_->make_buffer(shape, dtype);
}

void SharedMemoryCommunicator::do_sum(const Tensor& tensor) {
  memory_->sum(tensor);
}

/// As sum() counts a whole one.
void SharedMemoryCommunicator::count_half_of_sum(const Tensor& tensor) {
  const auto ranks = static_cast<std::uint64_t>(size());
  count_sent((ranks - 1) * tensor.nbytes() / ranks);
}

void SharedMemoryCommunicator::reduce_scatter(const Tensor& tensor) {
  if (memory_->reduce_scatter(tensor)) {
    count_half_of_sum(tensor);
  } else {
    MpiCommunicator::reduce_scatter(tensor);
  }
}

void SharedMemoryCommunicator::all_gather(const Tensor& tensor) {
  if (memory_->all_gather(tensor)) {
    count_half_of_sum(tensor);
  } else {
    MpiCommunicator::all_gather(tensor);
  }
}

}  // namespace brigade::dist
