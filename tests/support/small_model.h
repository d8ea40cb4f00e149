#pragma once

#include <memory>
#include <vector>

#include "autograd/functions/fused_linear.h"
#include "nn/sequential.h"

namespace brigade::test {

/// An MLP with ReLU between its layers: widths {4, 8, 3} gives Linear(4, 8), ReLU, Linear(8, 3).
std::unique_ptr<nn::Sequential> make_mlp(const std::vector<std::int64_t>& widths,
                                         std::uint64_t seed = 1, Device device = kCpu,
                                         autograd::Precision precision = autograd::Precision::full);

/// Uniform numbers in ±1: rows [first_row, first_row + rows) of an endless matrix with `cols`
/// columns, so that ranks can take disjoint rows of one data set.
Tensor data_rows(std::int64_t first_row, std::int64_t rows, std::int64_t cols, std::uint64_t seed,
                 Device device = kCpu);

/// One forward and backward of a mean squared error on fixed data, four rows.
void backward_once(nn::Module& model, std::int64_t in, std::int64_t out);

}  // namespace brigade::test
