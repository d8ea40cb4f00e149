#include <dlfcn.h>

#include <array>
#include <dnnl.hpp>
#include <map>
#include <unordered_map>

#include "core/cpu/onednn_private.h"
#include "core/error.h"

namespace brigade::onednn {
namespace {

using dnnl::memory;

/// One layer's product, compiled for its shape.
struct LinearKernel {
  dnnl::matmul product;
  memory x, w, b, y;
  std::unordered_map<int, memory> arguments;  // handles of the same four
};

/// The kernels of one thread. oneDNN's own scratch memory belongs to the thread that made a kernel,
/// so threads cannot share them.
class LinearKernels {
 public:
  LinearKernel& get(std::int64_t batch, std::int64_t in, std::int64_t out, bool bias) {
    const std::array<std::int64_t, 4> key = {batch, in, out, bias ? 1 : 0};
    auto found = kernels_.find(key);
    if (found == kernels_.end()) {
      found = kernels_.emplace(key, make(batch, in, out, bias)).first;
    }
    return found->second;
  }
  dnnl::stream& stream() { return stream_; }

 private:
  LinearKernel make(std::int64_t batch, std::int64_t in, std::int64_t out, bool bias) {
    const auto desc = [](const memory::dims& extents, const memory::dims& strides) {
      return memory::desc(extents, memory::data_type::f32, strides);
    };
    const memory::desc x = desc({batch, in}, {in, 1});
    const memory::desc w = desc({in, out}, {1, in});  // stored [out, in]
    const memory::desc b = desc({1, out}, {out, 1});
    const memory::desc y = desc({batch, out}, {out, 1});
    const dnnl::matmul::primitive_desc product(
        bias ? dnnl::matmul::desc(x, w, b, y) : dnnl::matmul::desc(x, w, y), engine_);
    const auto place = [this](const memory::desc& of) { return memory(of, engine_, nullptr); };
    LinearKernel kernel = {dnnl::matmul(product),      place(x), place(w),
                           bias ? place(b) : memory(), place(y), {}};
    kernel.arguments = {
        {DNNL_ARG_SRC, kernel.x}, {DNNL_ARG_WEIGHTS, kernel.w}, {DNNL_ARG_DST, kernel.y}};
    if (bias) {
      kernel.arguments.emplace(DNNL_ARG_BIAS, kernel.b);
    }
    return kernel;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<std::array<std::int64_t, 4>, LinearKernel> kernels_;
};

/// oneDNN asks OpenMP how many threads it may use, and OpenMP keeps that number per thread.
void compute_on_this_thread() {
  thread_local const bool done = [] {
    if (void* set = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) {
      reinterpret_cast<void (*)(int)>(set)(1);
    }
    return true;
  }();
  static_cast<void>(done);
}

void* handle(const float* values) {  // oneDNN has one type of handle for what it reads and writes
  return const_cast<float*>(values);
}

void multiply(std::int64_t batch, std::int64_t in, std::int64_t out, const float* x, const float* w,
              const float* b, float* y) try {
  compute_on_this_thread();
  thread_local LinearKernels kernels;
  LinearKernel& kernel = kernels.get(batch, in, out, b != nullptr);
  kernel.x.set_data_handle(handle(x));
  kernel.w.set_data_handle(handle(w));
  kernel.y.set_data_handle(y);
  if (b != nullptr) {
    kernel.b.set_data_handle(handle(b));
  }
  kernel.product.execute(kernels.stream(), kernel.arguments);
} catch (const dnnl::error& error) {
  throw Error(concat("matrix product: oneDNN refuses x [", batch, ", ", in, "], w [", out, ", ", in,
                     "]: ", error.what()));
}

}  // namespace

bool available() {
  static const bool avx512 = [] {
    constexpr auto kWanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kWanted) == kWanted;
  }();
  return avx512;
}

std::string description() {
  const dnnl_version_t* version = dnnl_version();
  return available() ? concat("oneDNN ", version->major, '.', version->minor, '.', version->patch)
                     : std::string();
}

// Two functions, by measurement (tests/bench/GEMMS.md): the primitive is ahead of dnnl_sgemm by
// 1.5 times at 8x1024x32 for x wᵀ, behind it for the other two products of a layer.
void gemm(const GemmArgs<float>& args) {
  const auto& [transpose_a, transpose_b, m, n, k, a, b, c, scale] = args;
  if (!transpose_a && transpose_b && scale.alpha == 1.0 && scale.beta == 0.0) {
    multiply(m, k, n, a, b, nullptr, c);
    return;
  }
  compute_on_this_thread();
  const dnnl_status_t status = dnnl_sgemm(
      transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, static_cast<float>(scale.alpha), a,
      transpose_a ? m : k, b, transpose_b ? k : n, static_cast<float>(scale.beta), c, n);
  BRIGADE_CHECK(status == dnnl_success, "gemm: dnnl_sgemm failed with status ", status);
}

void linear(std::int64_t batch, std::int64_t in, std::int64_t out, const float* x, const float* w,
            const float* b, float* y) {
  multiply(batch, in, out, x, w, b, y);
}

}  // namespace brigade::onednn
