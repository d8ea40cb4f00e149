#include "tests/support/hook_bench.h"

#include <cstring>
#include <numeric>

#include "core/error.h"

namespace brigade::test {

HookBench::HookBench(dist::Communicator& comm, std::unique_ptr<dist::CommHook> hook,
                     const std::vector<Shape>& shapes)
    : comm_(comm), hook_(std::move(hook)) {
  for (const Shape& shape : shapes) {
    parameters_.emplace_back(Tensor::zeros(shape), true, fmt::format("p{}", parameters_.size()));
  }
  std::vector<std::size_t> all(shapes.size());
  std::iota(all.begin(), all.end(), 0U);
  buckets_ = dist::make_buckets(parameters_, {all});
  hook_->prepare(parameters_, buckets_, comm_);
}

std::vector<float> HookBench::reduce(const std::vector<float>& gradients) {
  std::size_t used = 0;
  for (const autograd::Variable& parameter : parameters_) {
    const Tensor& place = parameter.grad_state()->grad();
    BRIGADE_CHECK(used * sizeof(float) + place.nbytes() <= gradients.size() * sizeof(float),
                  "hook bench: {} gradients are too few", gradients.size());
    std::memcpy(place.bytes(), gradients.data() + used, place.nbytes());
    used += static_cast<std::size_t>(place.numel());
  }
  comm_.wait(hook_->all_reduce(0, buckets_.front().grads, "bucket", comm_));
  std::vector<float> result;
  for (const autograd::Variable& parameter : parameters_) {
    const std::vector<float> values = parameter.grad_state()->grad().to_vector<float>();
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

std::vector<std::vector<float>> from_all(dist::Communicator& comm, const std::vector<float>& mine) {
  const std::vector<std::byte> bytes = comm.all_gather_bytes(std::as_bytes(std::span(mine)));
  std::vector<std::vector<float>> all(static_cast<std::size_t>(comm.size()),
                                      std::vector<float>(mine.size()));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::size_t length = mine.size() * sizeof(float);
    std::memcpy(all[rank].data(), bytes.data() + rank * length, length);
  }
  return all;
}

}  // namespace brigade::test
