#include "dist/hooks/power_sgd.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/ops.h"

namespace brigade::dist {
namespace {

using ops::Trans;

/// Seed of the first Q, the same on all ranks. The index of the parameter selects the random
/// sequence, so Q does not depend on the buckets.
constexpr std::uint64_t kSeed = 0x1905'1372'7000'0001;

/// A compressed parameter. P and Q are stored transposed, so that each of their vectors is
/// contiguous.
struct Matrix {
  Tensor grad;   ///< M, in the bucket       [n, m]
  Tensor error;  ///< E, and within a step M + E   [n, m]
  Tensor p;      ///< in State::first        [R, n]
  Tensor q;      ///< in State::second       [R, m]
};

/// A parameter that is summed without compression.
struct Exact {
  Tensor grad;  ///< in the bucket
  Tensor sum;   ///< in State::first
};

/// [n, m]: the first dimension and the product of the others.
Shape as_matrix(const Shape& shape) {
  return {shape[0], shape[0] > 0 ? shape.numel() / shape[0] : 0};
}

/// The rank of the approximation for a parameter of this shape; 0 if it would not save bytes.
std::int64_t rank_for(const Shape& shape, std::int64_t wanted) {
  if (shape.rank() < 2) {
    return 0;
  }
  const std::int64_t n = as_matrix(shape)[0];
  const std::int64_t m = as_matrix(shape)[1];
  const std::int64_t rank = std::min({wanted, n, m});
  return (n + m) * rank < n * m ? rank : 0;
}

/// Divides `memory` into consecutive slices.
struct Slicer {
  Tensor memory;
  std::int64_t used = 0;

  Tensor take(const Shape& shape) {
    return memory.flat_view(std::exchange(used, used + shape.numel()), shape);
  }
};

/// Makes the rows of p orthonormal by modified Gram-Schmidt, with tensor functions alone: no value
/// goes to the host. `number` [1, 1] is scratch memory.
///
/// Each row passes twice: of a row almost in the span of those before it, little is left, and the
/// rounding errors of the first pass are large against that (Giraud, Langou & Rozložník, Comput.
/// Math. Appl. 50, 2005). `tiny` [1] is added in between: a row of which nothing is left becomes a
/// unit vector, because a zero row would end the power iteration.
void orthonormalize(const Tensor& p, const Tensor& tiny, Tensor& number) {
  const auto row = [&](std::int64_t i) { return p.flat_view(i * p.shape()[1], {1, p.shape()[1]}); };
  for (std::int64_t i = 0; i < p.shape()[0]; ++i) {
    Tensor x = row(i);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t j = 0; j < i; ++j) {
        ops::gemm(x, Trans::no, row(j), Trans::yes, {}, number);
        ops::gemm(number, Trans::no, row(j), Trans::no, {.alpha = -1.0, .beta = 1.0}, x);
      }
      Tensor at_i = x.flat_view(i, {1});
      ops::axpby(tiny, {.alpha = pass == 0 ? 1.0 : 0.0, .beta = 1.0}, at_i);
    }
    ops::gemm(x, Trans::no, x, Trans::yes, {}, number);
    ops::unary(UnaryOp::sqrt, number, number);
    ops::binary(BinaryOp::div, x, number, {}, x);
  }
}

struct State {
  State(std::span<const autograd::Variable> parameters, const Bucket& bucket, std::int64_t wanted) {
    std::int64_t first_size = 0;
    std::int64_t second_size = 0;
    for (const std::size_t member : bucket.members) {
      const Shape shape = parameters[member].shape();
      const std::int64_t rank = rank_for(shape, wanted);
      first_size += rank > 0 ? rank * as_matrix(shape)[0] : shape.numel();
      second_size += rank > 0 ? rank * as_matrix(shape)[1] : 0;
    }
    const auto zeros = [&](const Shape& shape) {
      return Tensor::zeros(shape, bucket.grads.dtype(), bucket.grads.device());
    };
    number = zeros({1, 1});
    tiny = zeros({1});
    ops::fill(1e-15, tiny);  // its square is not 0 in f32
    first = zeros({first_size});
    second = zeros({second_size});

    Slicer firsts{first};
    Slicer seconds{second};
    std::int64_t offset = 0;
    for (const std::size_t member : bucket.members) {
      const Tensor& parameter = parameters[member].data();
      const std::int64_t rank = rank_for(parameter.shape(), wanted);
      if (rank == 0) {
        exact.push_back({.grad = bucket.grads.flat_view(offset, parameter.shape()),
                         .sum = firsts.take(parameter.shape())});
      } else {
        const Shape shape = as_matrix(parameter.shape());
        Matrix& matrix = matrices.emplace_back(Matrix{.grad = bucket.grads.flat_view(offset, shape),
                                                      .error = zeros(shape),
                                                      .p = firsts.take({rank, shape[0]}),
                                                      .q = seconds.take({rank, shape[1]})});
        ops::uniform({.stream = {.seed = kSeed, .sequence = static_cast<std::uint32_t>(member)},
                      .low = -1.0,
                      .high = 1.0},
                     matrix.q);
        const std::string& name = parameters[member].name();
        kept.emplace_back("error." + name, matrix.error);
        kept.emplace_back("q." + name, matrix.q);
      }
      offset += static_cast<std::int64_t>(slice_bytes(parameter) / size_of(parameter.dtype()));
    }
  }

  /// On the communication stream. m, e, p and q are M, E, P and Q of power_sgd.h.
  void run(Collectives& ranks) {
    for (Matrix& matrix : matrices) {
      auto& [m, e, p, q] = matrix;
      ops::axpby(m, {.alpha = 1.0, .beta = 1.0}, e);  // e is M + E until E := M - P Qᵀ
      ops::gemm(q, Trans::no, e, Trans::yes, {}, p);
    }
    for (const Exact& parameter : exact) {
      parameter.sum.copy_from(parameter.grad);
    }
    ranks.sum(first);
    for (const Exact& parameter : exact) {
      parameter.grad.copy_from(parameter.sum);
    }
    if (matrices.empty()) {
      return;
    }
    for (Matrix& matrix : matrices) {
      auto& [m, e, p, q] = matrix;
      orthonormalize(p, tiny, number);
      ops::gemm(p, Trans::no, e, Trans::no, {}, q);
      ops::gemm(p, Trans::yes, q, Trans::no, {.alpha = -1.0, .beta = 1.0}, e);
    }
    ranks.sum(second);
    for (Matrix& matrix : matrices) {
      ops::gemm(matrix.p, Trans::yes, matrix.q, Trans::no, {}, matrix.grad);
    }
  }

  Tensor number, tiny;  ///< of orthonormalize()
  Tensor first;         ///< the first sum: every P, and the parameters that are not compressed
  Tensor second;        ///< the second sum: every Q
  std::vector<Matrix> matrices;
  std::vector<Exact> exact;
  NamedTensors kept;  ///< from one step to the next
};

}  // namespace

PowerSgd::PowerSgd(std::int64_t rank) : rank_(rank) {
  BRIGADE_CHECK(rank > 0, "powersgd: expected a rank of at least 1, got {}", rank);
}

std::string PowerSgd::name() const {
  return fmt::format("powersgd:rank={}", rank_);
}

BucketHook::Reduction PowerSgd::make_reduction(std::span<const autograd::Variable> parameters,
                                               const Bucket& bucket, const Communicator& /*comm*/) {
  const auto state = std::make_shared<State>(parameters, bucket, rank_);
  return {.run = [state](Collectives& ranks) { state->run(ranks); }, .state = state->kept};
}

}  // namespace brigade::dist
