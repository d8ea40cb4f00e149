#include "core/cpu/onednn_private.h"
#include "core/error.h"

// A build without oneDNN: OpenBLAS computes everything.
namespace brigade::onednn {

bool available() {
  return false;
}

bool has_avx512() {
  return false;
}

std::string_view bf16_unit() {
  return {};
}

bool gemm_bf16(const GemmArgs<float, BFloat16>& /*args*/) {
  return false;
}

std::string description() {
  return {};
}

void gemm(const GemmArgs<float>& /*args*/) {
  throw Error("gemm: built without oneDNN");
}

void linear(std::int64_t /*batch*/, std::int64_t /*in*/, std::int64_t /*out*/, const float* /*x*/,
            const float* /*w*/, const float* /*b*/, float* /*y*/) {
  throw Error("linear: built without oneDNN");
}

}  // namespace brigade::onednn
