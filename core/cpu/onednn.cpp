#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <dnnl.hpp>
#include <map>
#include <unordered_map>
#include <vector>

#include "core/cpu/onednn_private.h"
#include "core/cpu/vectorized_private.h"
#include "core/error.h"

namespace brigade::onednn {
namespace {

using dnnl::memory;

/// One layer's product, compiled for its shape.
struct LinearKernel {
  dnnl::matmul product;
  memory left, right, bias, result;
  std::unordered_map<int, memory> arguments;  // handles of the same four
};

struct LinearShape {
  std::int64_t batch, in, out;
  bool bias;
  auto operator<=>(const LinearShape&) const = default;

  /// Whether yᵀ = W xᵀ is computed instead of y = x Wᵀ, and transposed afterwards. Before it
  /// multiplies, the library copies the right factor into the order in which it reads it. A small
  /// batch hardly uses a copy of all of W, while transposing y is next to nothing; for which
  /// batches, is measured (tests/bench/GEMMS.md).
  bool transposed() const {
    return out >= 16 * batch && (has_avx512() ? batch >= 32 : batch >= 8 && batch <= 32);
  }
};

/// The kernels of one thread. oneDNN's own scratch memory belongs to the thread that made a kernel,
/// so threads cannot share them.
class LinearKernels {
 public:
  LinearKernel& get(const LinearShape& shape) {
    auto found = kernels_.find(shape);
    if (found == kernels_.end()) {
      found = kernels_.emplace(shape, make(shape)).first;
    }
    return found->second;
  }
  dnnl::stream& stream() { return stream_; }
  /// For a result that is to be transposed; as large as the largest so far.
  std::vector<float>& scratch() { return scratch_; }

 private:
  static memory::desc desc(const memory::dims& extents, const memory::dims& strides) {
    return {extents, memory::data_type::f32, strides};
  }

  /// [rows, in] [in, cols]: x Wᵀ, or W xᵀ, to which the bias is added when it is transposed. Both
  /// right factors are stored transposed.
  LinearKernel make(const LinearShape& shape) {
    const auto& [batch, in, out, bias] = shape;
    const bool transposed = shape.transposed();
    const bool biased = bias && !transposed;
    const std::int64_t rows = transposed ? out : batch;
    const std::int64_t cols = transposed ? batch : out;
    const memory::desc left = desc({rows, in}, {in, 1});
    const memory::desc right = desc({in, cols}, {1, in});
    const memory::desc addend = biased ? desc({1, cols}, {cols, 1}) : memory::desc();
    const memory::desc result = desc({rows, cols}, {cols, 1});
    const dnnl::matmul::primitive_desc product({left, right, addend, result}, engine_);
    const auto place = [this](const memory::desc& of) { return memory(of, engine_, nullptr); };
    LinearKernel kernel = {dnnl::matmul(product), place(left),
                           place(right),          biased ? place(addend) : memory(),
                           place(result),         {}};
    kernel.arguments = {{DNNL_ARG_SRC, kernel.left},
                        {DNNL_ARG_WEIGHTS, kernel.right},
                        {DNNL_ARG_DST, kernel.result}};
    if (biased) {
      kernel.arguments.emplace(DNNL_ARG_BIAS, kernel.bias);
    }
    return kernel;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<LinearShape, LinearKernel> kernels_;
  std::vector<float> scratch_;
};

/// y[r, c] = transposed[c, r] + b[c], in squares that fit into the first-level cache.
void transpose_and_add_bias(std::int64_t batch, std::int64_t out, const float* transposed,
                            const float* b, float* y) {
  constexpr std::int64_t kSide = 16;
  vectorized([=] {
    for (std::int64_t col0 = 0; col0 < out; col0 += kSide) {
      const std::int64_t col1 = std::min(out, col0 + kSide);
      for (std::int64_t row0 = 0; row0 < batch; row0 += kSide) {
        const std::int64_t row1 = std::min(batch, row0 + kSide);
        for (std::int64_t row = row0; row < row1; ++row) {
          for (std::int64_t col = col0; col < col1; ++col) {
            y[row * out + col] = transposed[col * batch + row] + (b != nullptr ? b[col] : 0.0F);
          }
        }
      }
    }
  });
}

/// Reads W, a number of every cache line, if the second-level cache has room for it beside the
/// library's copy. In order memory is read ahead of the program; the library, which copies W with
/// its rows as columns, reads it in strides and waits for every line (tests/bench/GEMMS.md).
void fetch(const float* w, std::int64_t numel) {
  static const auto second_level_cache = static_cast<std::int64_t>(sysconf(_SC_LEVEL2_CACHE_SIZE));
  constexpr std::int64_t kLine = 64 / sizeof(float);
  if (numel * static_cast<std::int64_t>(sizeof(float)) > second_level_cache / 2) {
    return;
  }
  for (std::int64_t i = 0; i < numel; i += kLine) {
    static_cast<void>(*static_cast<const volatile float*>(w + i));  // volatile: is not left out
  }
}

/// yᵀ = W xᵀ, then y from that.
void multiply_transposed(LinearKernels& kernels, const LinearShape& shape, const float* x,
                         const float* w, const float* b, float* y) {
  std::vector<float>& transposed = kernels.scratch();
  transposed.resize(std::max(transposed.size(), static_cast<std::size_t>(shape.batch * shape.out)));
  LinearKernel& kernel = kernels.get(shape);
  kernel.left.set_data_handle(handle(w));
  kernel.right.set_data_handle(handle(x));
  kernel.result.set_data_handle(transposed.data());
  kernel.product.execute(kernels.stream(), kernel.arguments);
  transpose_and_add_bias(shape.batch, shape.out, transposed.data(), b, y);
}

/// Whether the library generates code for that instruction set: AVX-512's bits include AVX2's.
bool has(dnnl::cpu_isa wanted) {
  static const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto bits = static_cast<unsigned>(wanted);
  return (isa & bits) == bits;
}

}  // namespace

/// By dlsym: this does not link OpenMP, oneDNN may.
void limit_openmp_to_one_thread() {
  thread_local const bool done = [] {
    if (void* set = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) {
      reinterpret_cast<void (*)(int)>(set)(1);
    }
    return true;
  }();
  static_cast<void>(done);
}

void linear(std::int64_t batch, std::int64_t in, std::int64_t out, const float* x, const float* w,
            const float* b, float* y) try {
  limit_openmp_to_one_thread();
  thread_local LinearKernels kernels;
  const LinearShape shape{batch, in, out, b != nullptr};
  if (shape.transposed()) {
    multiply_transposed(kernels, shape, x, w, b, y);
    return;
  }
  LinearKernel& kernel = kernels.get(shape);
  fetch(w, in * out);
  kernel.left.set_data_handle(handle(x));
  kernel.right.set_data_handle(handle(w));
  kernel.result.set_data_handle(y);
  if (b != nullptr) {
    kernel.bias.set_data_handle(handle(b));
  }
  kernel.product.execute(kernels.stream(), kernel.arguments);
} catch (const dnnl::error& error) {
  throw Error(message_of("matrix product: oneDNN refuses x [", batch, ", ", in, "], w [", out, ", ",
                         in, "]: ", error.what()));
}

bool available() {
  return has(dnnl::cpu_isa::avx2);
}

bool has_avx512() {
  return has(dnnl::cpu_isa::avx512_core);
}

std::string description() {
  const dnnl_version_t* version = dnnl_version();
  return available()
             ? message_of("oneDNN ", version->major, '.', version->minor, '.', version->patch)
             : std::string();
}

// Two functions, by measurement (tests/bench/GEMMS.md): with AVX-512 the primitive is ahead of
// dnnl_sgemm by 1.5 times at 8x1024x32 for x wᵀ, behind it for the other two products of a layer.
// With AVX2 it calls the same kernels.
void gemm(const GemmArgs<float>& args) {
  const auto& [transpose_a, transpose_b, m, n, k, a, b, c, scale] = args;
  if (!transpose_a && transpose_b && scale.alpha == 1.0 && scale.beta == 0.0) {
    linear(m, k, n, a, b, nullptr, c);
    return;
  }
  limit_openmp_to_one_thread();
  const dnnl_status_t status = dnnl_sgemm(
      transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, static_cast<float>(scale.alpha), a,
      transpose_a ? m : k, b, transpose_b ? k : n, static_cast<float>(scale.beta), c, n);
  BRIGADE_CHECK(status == dnnl_success, "gemm: dnnl_sgemm failed with status ", status);
}

}  // namespace brigade::onednn
