#include "tests/support/all_reduces.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/ops.h"
#include "dist/algorithms/halving_doubling.h"
#include "dist/algorithms/ordered_all_reduce.h"
#include "dist/algorithms/ring_all_reduce.h"
#include "dist/algorithms/tree_all_reduce.h"

namespace brigade::test {
namespace {

template <class T>
void expect_near_sum(const Tensor& sum, int ranks) {
  std::vector<double> expected(static_cast<std::size_t>(sum.numel()));
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<T> term = terms(sum.numel(), sum.dtype(), rank).to_vector<T>();
    for (std::size_t i = 0; i < term.size(); ++i) {
      expected[i] += term[i];
    }
  }
  // Each of the ranks - 1 additions rounds a partial sum that is below `ranks`.
  const double tolerance = ranks * ranks * static_cast<double>(std::numeric_limits<T>::epsilon());
  const std::vector<T> values = sum.to_vector<T>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance) << "element " << i << " of " << values.size();
  }
}

}  // namespace

std::unique_ptr<dist::AllReduce> make_all_reduce(const std::string& name) {
  if (name == "ring") {
    return std::make_unique<dist::RingAllReduce>();
  }
  if (name == "halving") {
    return std::make_unique<dist::HalvingDoublingAllReduce>();
  }
  if (name == "tree") {
    return std::make_unique<dist::TreeAllReduce>();
  }
  BRIGADE_CHECK(name == "ordered", "all-reduce: unknown '{}'", name);
  return std::make_unique<dist::OrderedAllReduce>();
}

Tensor terms(std::int64_t numel, DType dtype, int rank) {
  Tensor values = Tensor::empty({numel}, dtype);
  ops::uniform({.stream = {.seed = 7, .sequence = static_cast<std::uint32_t>(rank)},
                .low = -0.7,
                .high = 0.9},
               values);
  return values;
}

void expect_all_reduce_sums(dist::Communicator& comm, std::int64_t numel, DType dtype) {
  const Tensor sum = terms(numel, dtype, comm.rank());
  comm.blocking_all_reduce(sum);
  if (dtype == DType::f32) {
    expect_near_sum<float>(sum, comm.size());
  } else {
    expect_near_sum<double>(sum, comm.size());
  }
  const std::vector<std::byte> all = comm.all_gather_bytes({sum.bytes(), sum.nbytes()});
  for (std::size_t at = 0; at < all.size(); at += sum.nbytes()) {
    EXPECT_EQ(std::memcmp(all.data() + at, sum.bytes(), sum.nbytes()), 0)
        << "rank " << comm.rank() << " has other bits than rank " << at / sum.nbytes();
  }
}

}  // namespace brigade::test
