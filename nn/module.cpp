#include "nn/module.h"

namespace brigade::nn {

std::vector<Variable> Module::parameters() const {
  std::vector<Variable> result;
  collect_parameters("", result);
  return result;
}

}  // namespace brigade::nn
