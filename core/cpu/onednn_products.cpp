#include <dlfcn.h>

#include <string_view>

#include "core/cpu/features_private.h"
#include "core/cpu/onednn_private.h"
#include "core/cpu/onednn_products_private.h"
#include "core/error.h"

namespace brigade::onednn {
namespace {

using dnnl::memory;
using Type = memory::data_type;

/// oneDNN has one type of handle for what it reads and writes.
void* handle(const void* values) {
  return const_cast<void*>(values);
}

/// The unit that code of this name multiplies bf16 factors with: AMX, or AVX512_BF16 on AMD's CPUs.
/// "" for the rest of oneDNN 2.6.3's code for bf16, AVX512_BF16 on a Xeon included: products of
/// floats take less time than it does (tests/bench/GEMMS.md).
std::string_view unit_of(std::string_view name) {
  if (name.find("amx_bf16") != std::string_view::npos) {
    return "AMX";
  }
  const bool fast = name.find("avx512_core_bf16") != std::string_view::npos;
  return fast && cpu_is_amd_with_avx512() ? "AVX512_BF16" : "";
}

dnnl::matmul::desc description_of(const ProductShape& shape) {
  const std::int64_t m = shape.m;
  const std::int64_t n = shape.n;
  const std::int64_t k = shape.k;
  const auto strides = [](std::int64_t rows, std::int64_t cols, bool transposed) {
    return transposed ? memory::dims{1, rows} : memory::dims{cols, 1};
  };
  return {{{m, k}, shape.factors, strides(m, k, shape.transpose_a)},
          {{k, n}, shape.factors, strides(k, n, shape.transpose_b)},
          shape.bias ? memory::desc({1, n}, Type::f32, memory::dims{n, 1}) : memory::desc(),
          {{m, n}, Type::f32, memory::dims{n, 1}}};
}

dnnl::primitive_attr attributes_of(const ProductShape& shape) {
  dnnl::primitive_attr attributes;
  if (shape.alpha != 1.0F) {
    attributes.set_output_scales(0, {shape.alpha});
  }
  if (shape.beta != 0.0F) {
    dnnl::post_ops sum;
    sum.append_sum(shape.beta);
    attributes.set_post_ops(sum);
  }
  return attributes;
}

using Code = dnnl::matmul::primitive_desc;

/// Returns nullopt if oneDNN has no code for bf16 factors, as with AVX2, or none that beats its
/// code for floats.
std::optional<Code> choose_code(const ProductShape& shape, const dnnl::engine& engine) try {
  const dnnl::matmul::desc description = description_of(shape);
  const Code first(description, attributes_of(shape), engine);
  const std::string_view unit = unit_of(first.impl_info_str());  // "" for f32
  // oneDNN's second implementation computes wide dW and dx in 0.75 to 1 of the first one's time;
  // narrow ones gain nothing (tests/bench/GEMMS.md). Only AVX512_BF16 was measured. next_impl()
  // still reads `description`. The first implementation must not be compiled for these shapes:
  // from then on oneDNN's cache would return it instead of the second.
  if (unit == "AVX512_BF16" && shape.n >= 384 && !shape.transpose_b) {
    Code next = first;
    if (next.next_impl() && next.impl_info_str() == std::string_view("gemm:jit")) {
      return next;
    }
  }
  return shape.factors == Type::bf16 && unit.empty() ? std::nullopt : std::optional(first);
} catch (const dnnl::error& error) {
  if (error.status != dnnl_unimplemented) {
    throw;
  }
  return std::nullopt;
}

}  // namespace

// oneDNN asks OpenMP how many threads it may use, a number that OpenMP keeps per calling thread. By
// dlsym: this does not link OpenMP, oneDNN may.
Products::Products() {
  if (void* set = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) {
    reinterpret_cast<void (*)(int)>(set)(1);
  }
}

Products& Products::of_this_thread() {
  thread_local Products products;
  return products;
}

std::optional<Products::Product> Products::make(const ProductShape& shape) const {
  const std::optional<Code> code = choose_code(shape, engine_);
  if (!code) {
    return std::nullopt;
  }
  const auto place = [this](const memory::desc& of) { return memory(of, engine_, nullptr); };
  Product product = {dnnl::matmul(*code),
                     {{DNNL_ARG_SRC, place(code->src_desc())},
                      {DNNL_ARG_WEIGHTS, place(code->weights_desc())},
                      {DNNL_ARG_DST, place(code->dst_desc())}}};
  if (shape.bias) {
    product.arguments.emplace(DNNL_ARG_BIAS, place(code->bias_desc()));
  }
  return product;
}

bool Products::multiply(const ProductShape& shape, const void* a, const void* b, const float* bias,
                        float* c) try {
  auto found = products_.find(shape);
  if (found == products_.end()) {
    found = products_.emplace(shape, make(shape)).first;
  }
  if (!found->second) {
    return false;
  }
  auto& [code, arguments] = *found->second;
  arguments.at(DNNL_ARG_SRC).set_data_handle(handle(a));
  arguments.at(DNNL_ARG_WEIGHTS).set_data_handle(handle(b));
  arguments.at(DNNL_ARG_DST).set_data_handle(c);
  if (shape.bias) {
    arguments.at(DNNL_ARG_BIAS).set_data_handle(handle(bias));
  }
  code.execute(stream_, arguments);
  return true;
} catch (const dnnl::error& error) {
  throw Error(fmt::format("matrix product: oneDNN refuses {} x {} times {} x {}: {}", shape.m,
                          shape.k, shape.k, shape.n, error.what()));
}

std::string_view bf16_unit() {
  static const std::string_view result = [] {
    const ProductShape usual{Type::bf16, false, true, 64, 64, 64};
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const auto code = choose_code(usual, engine);
    return code ? unit_of(code->impl_info_str()) : "";
  }();
  return result;
}

}  // namespace brigade::onednn
