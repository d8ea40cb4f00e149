#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "autograd/variable.h"

/// Other shapes of the same numbers, as in PyTorch. reshape is a view, which shares the memory of
/// x; the others copy. Dimensions are counted from 0; negative ones count from the end, -1 is the
/// last. All throw Error for a dimension or an extent that does not fit.
namespace brigade::autograd {

/// The elements of x in the same row-major order. One extent may be -1: it follows from the others.
///
///   reshape(x, {2, -1})   x: [4, 3]   result: [2, 6]
Variable reshape(const Variable& x, std::span<const std::int64_t> shape);
inline Variable reshape(const Variable& x, std::initializer_list<std::int64_t> shape) {
  return reshape(x, std::span(shape.begin(), shape.size()));
}

/// Exchanges two dimensions.   transpose(x, 0, 1)   x: [4, 3]   result: [3, 4]
Variable transpose(const Variable& x, int dim0, int dim1);

/// Reorders the dimensions: dimension d of the result is dims[d] of x.
///
///   permute(x, {2, 0, 1})   x: [4, 3, 2]   result: [2, 4, 3]
Variable permute(const Variable& x, const std::vector<int>& dims);

/// x[begin:end] in dimension `dim`, by Python's rules: negative numbers count from the end, and
/// what exceeds the dimension is cut off.
///
///   slice(x, 1, 1, 3)   x: [4, 3]   result: [4, 2]
Variable slice(const Variable& x, int dim, std::int64_t begin, std::int64_t end);

/// Joins tensors along dimension `dim`, as torch.cat; their other extents are equal.
///
///   concat({a, b}, 0)   a: [4, 3]   b: [2, 3]   result: [6, 3]
Variable concat(const std::vector<Variable>& tensors, int dim = 0);

}  // namespace brigade::autograd
