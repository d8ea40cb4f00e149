#include <cblas.h>

#include <climits>
#include <cmath>
#include <cstring>

#include "tests/cuda_emulator/emulator_private.h"
#include "tests/cuda_emulator/products_private.h"

namespace emulator {
namespace {

std::size_t size_of(cudaDataType_t type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

std::size_t numbers(const Factor& factor) {
  return static_cast<std::size_t>(factor.leading * (factor.cols - 1) + factor.rows);
}

CBLAS_TRANSPOSE transposed(const Factor& factor) {
  return factor.op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans;
}

blasint to_int(std::int64_t extent) {
  return static_cast<blasint>(extent);
}

}  // namespace

std::vector<float> widened(const Factor& factor, cublasComputeType_t precision) {
  std::vector<float> result(numbers(factor));
  if (factor.type == CUDA_R_32F) {
    std::memcpy(result.data(), factor.values, result.size() * sizeof(float));
  }
  const std::uint32_t lost = precision == CUBLAS_COMPUTE_32F_FAST_TF32   ? 23 - 10  // bits
                             : precision == CUBLAS_COMPUTE_32F_FAST_16BF ? 23 - 7
                                                                         : 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    std::uint32_t bits = 0;
    if (factor.type == CUDA_R_16BF) {
      bits = std::uint32_t{static_cast<const std::uint16_t*>(factor.values)[i]} << 16U;
    } else if (lost > 0 && !std::isnan(result[i])) {
      std::memcpy(&bits, &result[i], sizeof bits);
      const std::uint32_t half = std::uint32_t{1} << (lost - 1);
      bits = (bits + half) & ~(2 * half - 1);
    } else {
      continue;
    }
    std::memcpy(&result[i], &bits, sizeof bits);
  }
  return result;
}

bool Product::valid() const {
  const auto reads = [](const Factor& factor) {
    return factor.leading >= factor.rows &&
           on_gpu(factor.values, numbers(factor) * size_of(factor.type));
  };
  const std::size_t result = a.type == CUDA_R_64F ? 8 : 4;
  const auto written = static_cast<std::size_t>(leading * (n - 1) + m);
  return m > 0 && n > 0 && k > 0 && reads(a) && reads(b) && leading >= m &&
         on_gpu(d, written * result);
}

void Product::compute() const {
  const auto flop = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  static const double most = 1e9 * setting("EMULATOR_MOST_GFLOP", INT_MAX);
  if (flop > most) {
    return;
  }
  if (a.type == CUDA_R_64F) {
    cblas_dgemm(CblasColMajor, transposed(a), transposed(b), to_int(m), to_int(n), to_int(k), alpha,
                static_cast<const double*>(a.values), to_int(a.leading),
                static_cast<const double*>(b.values), to_int(b.leading), beta,
                static_cast<double*>(d), to_int(leading));
    return;
  }
  const std::vector<float> left = widened(a, precision);
  const std::vector<float> right = widened(b, precision);
  cblas_sgemm(CblasColMajor, transposed(a), transposed(b), to_int(m), to_int(n), to_int(k),
              static_cast<float>(alpha), left.data(), to_int(a.leading), right.data(),
              to_int(b.leading), static_cast<float>(beta), static_cast<float*>(d), to_int(leading));
}

}  // namespace emulator
