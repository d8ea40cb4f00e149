#pragma once

#include <cstdint>

#include "apps/training/model.h"

/// How much of what this machine can compute a step uses.
namespace brigade::apps {

/// GFLOP/s of a matrix product so large that memory does not limit it, best of several, on `device`
/// and this thread's number of CPU threads. `factors`: the dtype of its factors. Takes some
/// hundredths of a second.
double measure_gemm_gflops(Device device, DType factors = DType::f32);

/// The sizes that decide how much work a step is.
struct StepShape {
  MlpShape network;
  std::int64_t batch = 0;  ///< samples of a micro-batch
  std::int64_t accum = 1;  ///< micro-batches of a step
};

/// 2 m n k of each matrix product of forward and backward: what "model FLOP" counts (Chowdhery et
/// al. 2022, "PaLM", section 4.1), without anything that is computed twice.
double model_flop(const StepShape& shape);

/// Share of `gemm_gflops` that a step of `ms` reaches: model FLOP utilisation, MFU.
double model_flop_utilisation(const StepShape& shape, double gemm_gflops, double ms);

}  // namespace brigade::apps
