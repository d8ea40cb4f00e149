#include <cmath>
#include <compare>
#include <cstdint>
#include <dnnl.hpp>
#include <map>
#include <optional>
#include <string_view>

#include "core/cpu/features_private.h"
#include "core/cpu/onednn_private.h"
#include "core/error.h"

namespace brigade::onednn {
namespace {

using dnnl::memory;

struct ProductShape {
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
  float alpha, beta;
  auto operator<=>(const ProductShape&) const = default;
};

struct Product {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul code;
};

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

/// Returns nullopt if oneDNN has no fast code for this shape; for AVX2 it has none at all.
std::optional<Product> make_product(const ProductShape& shape, const dnnl::engine& engine) try {
  using Type = memory::data_type;
  const auto& [transpose_a, transpose_b, m, n, k, alpha, beta] = shape;
  const auto strides = [](std::int64_t rows, std::int64_t cols, bool transposed) {
    return transposed ? memory::dims{1, rows} : memory::dims{cols, 1};
  };
  dnnl::primitive_attr attributes;
  if (alpha != 1.0F) {
    attributes.set_output_scales(0, {alpha});
  }
  if (beta != 0.0F) {
    dnnl::post_ops sum;
    sum.append_sum(beta);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::primitive_desc description({{{m, k}, Type::bf16, strides(m, k, transpose_a)},
                                                  {{k, n}, Type::bf16, strides(k, n, transpose_b)},
                                                  {{m, n}, Type::f32, strides(m, n, false)}},
                                                 attributes, engine);
  return unit_of(description.impl_info_str()).empty()
             ? std::nullopt
             : std::optional<Product>({description, dnnl::matmul(description)});
} catch (const dnnl::error&) {  // it has no code for this CPU
  return std::nullopt;
}

/// Those of one thread, as LinearKernels of onednn.cpp.
struct Products {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<ProductShape, std::optional<Product>> made;

  const std::optional<Product>& get(const ProductShape& shape) {
    const auto found = made.find(shape);
    return found != made.end() ? found->second
                               : made.emplace(shape, make_product(shape, engine)).first->second;
  }
};

}  // namespace

std::string_view bf16_unit() {
  static const std::string_view result = [] {
    const ProductShape usual{false, true, 64, 64, 64, 1.0F, 0.0F};
    const auto product = make_product(usual, dnnl::engine(dnnl::engine::kind::cpu, 0));
    return product ? unit_of(product->description.impl_info_str()) : "";
  }();
  return result;
}

bool gemm_bf16(const GemmArgs<float, BFloat16>& args) try {
  const auto& [transpose_a, transpose_b, m, n, k, a, b, c, scale] = args;
  const bool finite = std::isfinite(scale.alpha) && std::isfinite(scale.beta);  // as part of a key
  if (bf16_unit().empty() || m == 0 || n == 0 || k == 0 || !finite) {
    return false;
  }
  limit_openmp_to_one_thread();
  thread_local Products products;
  const std::optional<Product>& product =
      products.get({transpose_a, transpose_b, m, n, k, static_cast<float>(scale.alpha),
                    static_cast<float>(scale.beta)});
  if (!product) {
    return false;
  }
  const auto& [description, code] = *product;
  const dnnl::engine& engine = products.engine;
  code.execute(products.stream,
               {{DNNL_ARG_SRC, memory(description.src_desc(), engine, handle(a))},
                {DNNL_ARG_WEIGHTS, memory(description.weights_desc(), engine, handle(b))},
                {DNNL_ARG_DST, memory(description.dst_desc(), engine, handle(c))}});
  return true;
} catch (const dnnl::error& error) {
  throw Error(message_of("gemm: oneDNN refuses bf16 factors of ", args.m, " x ", args.k, " and ",
                         args.k, " x ", args.n, ": ", error.what()));
}

}  // namespace brigade::onednn
