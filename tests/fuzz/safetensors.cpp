// Weights from a file, and their way into a model by name.
#include "core/io/safetensors.h"

#include "core/error.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  static const NamedTensors model{{"0.weight", Tensor::zeros({2, 3})},
                                  {"0.bias", Tensor::zeros({2})}};
  try {
    const NamedTensors tensors = load_safetensors(test::file_of({data, size}));
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : tensors) {
      bytes += tensor.nbytes();
    }
    test::require(bytes < size || size == 0, "tensors hold no more than the file");
    copy_by_name(tensors, model, "weights");
  } catch (const UsageError&) {
  }
  return 0;
}
