#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/kernels.h"

namespace brigade::onednn {

/// Whether float products belong to oneDNN: this build has it and the CPU has AVX2, for which it
/// generates code. Most products of a layer then take 0.7 to 1.0 of OpenBLAS's time, the small ones
/// gaining most (tests/bench/GEMMS.md).
bool available();

/// Whether its code is for AVX-512. For AVX2 it has other kernels, which win elsewhere.
bool has_avx512();

/// "oneDNN 2.6.3"; empty when not available.
std::string description();

/// m, n, k > 0. Always on the calling thread: the library's own threads are OpenMP's, which ignore
/// the core binding that mpirun sets.
void gemm(const GemmArgs<float>& args);

/// What oneDNN multiplies bf16 factors with: "AMX" or "AVX512_BF16"; empty if this CPU has neither
/// or floats are faster. Both add in another order than other units, and take numbers below 2⁻¹²⁶
/// for 0.
std::string_view bf16_unit();

/// False, and nothing is done, if an extent is 0, the scale is not finite, or oneDNN would not use
/// that unit. On the calling thread. Throws Error if oneDNN fails.
bool gemm_bf16(const GemmArgs<float, BFloat16>& args);

/// y = x wᵀ + b, the bias added while a tile of y is in registers or turned round; for AVX2 oneDNN
/// would add it in a pass of its own. As CpuProducts<float>::linear, but no extent may be 0.
/// (oneDNN would apply the ReLU there too, but turns NaN into 0.)
void linear(std::int64_t batch, std::int64_t in, std::int64_t out, const float* x, const float* w,
            const float* b, float* y);

}  // namespace brigade::onednn
