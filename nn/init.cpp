#include "nn/init.h"

#include <cmath>
#include <numbers>

#include "core/dtype.h"
#include "core/random.h"

namespace brigade::nn {

// Two words give two independent normal numbers: √(-2 ln u) times cosine and sine of 2π v, u in
// (0, 1] (Box & Muller 1958). From two words of one block, so that number i depends on i alone.
void init_normal(const autograd::Variable& parameter, double std) {
  const RandomStream stream = next_parameter_stream();
  const Tensor& data = parameter.data();
  dispatch_float(data.dtype(), [&]<class T>() {
    T* values = data.data<T>();
    for (std::int64_t i = 0; i < data.numel(); ++i) {
      const auto words = random_block(stream, static_cast<std::uint64_t>(i) / 4);
      const auto pair = static_cast<std::size_t>(i % 4 / 2 * 2);
      const double radius =
          std::sqrt(-2.0 * std::log(1.0 - static_cast<double>(unit_float(words[pair]))));
      const double angle =
          2.0 * std::numbers::pi * static_cast<double>(unit_float(words[pair + 1]));
      values[i] = static_cast<T>(std * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
    }
  });
}

}  // namespace brigade::nn
