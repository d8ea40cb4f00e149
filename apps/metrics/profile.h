#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apps/metrics/figure.h"
#include "apps/metrics/step_recorder.h"
#include "apps/training/model.h"

/// --profile: what every operation of a step achieves, against what this machine can do.
namespace brigade::apps {

/// What the device reaches in this process: the roof under which Williams, Waterman & Patterson
/// ("Roofline", 2009, Comm. ACM 52) put every program.
struct MachineLimits {
  /// Matrix product, n x n x n, so large that memory does not matter; of f32, with --tf32 of TF32,
  /// with --dtype bf16 of bf16.
  double gflops = 0.0;
  /// w -= lr g over far more than the caches hold; three numbers per element. GB/s, 10⁹ bytes.
  double gigabytes_per_s = 0.0;
};

/// MachineLimits::gflops, best of several, on `device` and this thread's number of CPU threads;
/// takes some hundredths of a second, and memory that it gives back.
double measure_gemm_gflops(Device device, DType factors = DType::f32);

/// Likewise both limits, in some tenths of a second.
MachineLimits measure_limits(Device device, DType factors = DType::f32);

/// What an operation cannot avoid in a step.
struct OperationWork {
  double flop = 0.0;   ///< of its matrix products: 2 m n k each
  double bytes = 0.0;  ///< every input read once and every output written once, caches aside
};

/// The sizes that decide how much work a step is.
struct StepShape {
  MlpShape network;
  std::int64_t batch = 0;            ///< samples of a micro-batch
  std::int64_t accum = 1;            ///< micro-batches of a step
  std::int64_t optimizer_state = 0;  ///< numbers kept per weight: momentum 1, Adam 2
};

/// By the names that operation_times() gives; without those whose work does not depend on shapes
/// alone.
std::map<std::string, OperationWork> work_of_step(const StepShape& shape);

/// The products of forward and backward: what "model FLOP" counts (Chowdhery et al. 2022, "PaLM",
/// section 4.1), without anything that is computed twice.
double model_flop(const StepShape& shape);

/// Share of `gemm_gflops` that a step of `ms` reaches: model FLOP utilisation, MFU.
double model_flop_utilisation(const StepShape& shape, double gemm_gflops, double ms);

/// The least time for `work`, in ms: whichever of computing and moving takes longer.
double floor_ms(const OperationWork& work, const MachineLimits& limits);

/// A row per operation, for the screen and for summary.json: calls and ms per step, share of all
/// operations, FLOP, bytes, floor, and from these GFLOP/s, GB/s and the multiple of the floor.
std::vector<FigureRow> profile_rows(const std::vector<OperationTime>& operations,
                                    const StepShape& shape, const MachineLimits& limits);

}  // namespace brigade::apps
