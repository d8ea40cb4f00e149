#pragma once

#include <compare>
#include <cstdint>
#include <dnnl.hpp>
#include <map>
#include <optional>
#include <unordered_map>

namespace brigade::onednn {

/// Shape and scale of one product c = alpha a b + beta c, as in GemmArgs, or c = a b + bias.
struct ProductShape {
  dnnl::memory::data_type factors;  // f32 or bf16; c [m, n] and the bias [n] are f32
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
  bool bias = false;
  float alpha = 1.0F, beta = 0.0F;
  auto operator<=>(const ProductShape&) const = default;
};

/// The products that one thread has computed so far, compiled for their shapes. oneDNN's own
/// scratch memory belongs to the thread that made a product, so threads cannot share them.
class Products {
 public:
  /// The first call on a thread limits oneDNN's OpenMP to that thread, because oneDNN is used only
  /// with one thread (use_onednn()).
  static Products& of_this_thread();

  /// `bias` is null unless the shape has one. Returns false and does nothing if oneDNN has no code
  /// for bf16 factors that beats its code for floats. Throws Error if oneDNN fails.
  bool multiply(const ProductShape& shape, const void* a, const void* b, const float* bias,
                float* c);

 private:
  struct Product {
    dnnl::matmul code;
    std::unordered_map<int, dnnl::memory> arguments;  // handles of a, b, c and the bias
  };
  Products();
  std::optional<Product> make(const ProductShape& shape) const;

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<ProductShape, std::optional<Product>> products_;
};

}  // namespace brigade::onednn
