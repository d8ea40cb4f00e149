#include "nn/sequential.h"

#include <utility>

#include "core/error.h"
#include "core/runtime/trace.h"
#include "nn/linear.h"
#include "nn/relu.h"

namespace brigade::nn {

Sequential::Sequential(std::vector<std::unique_ptr<Module>> modules) {
  for (std::unique_ptr<Module>& module : modules) {
    append(std::move(module));
  }
}

void Sequential::append(std::unique_ptr<Module> module) {
  labels_.push_back(concat(modules_.size(), " ", module->description()));
  modules_.push_back(std::move(module));
}

Variable Sequential::forward(const Variable& x) {
  Variable y = x;
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    const TraceScope scope("layer ", [&]() -> const std::string& { return labels_[i]; });
    const auto* linear = dynamic_cast<const Linear*>(modules_[i].get());
    if (linear != nullptr && i + 1 < modules_.size() &&
        dynamic_cast<const ReLU*>(modules_[i + 1].get()) != nullptr) {
      y = linear->forward_relu(y);
      ++i;
    } else {
      y = modules_[i]->forward(y);
    }
  }
  return y;
}

void Sequential::collect_parameters(const std::string& prefix,
                                    std::vector<Variable>& parameters) const {
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    modules_[i]->collect_parameters(prefix + std::to_string(i) + ".", parameters);
  }
}

std::string Sequential::description() const {
  std::string text;
  for (const std::unique_ptr<Module>& module : modules_) {
    text += (text.empty() ? "" : " > ") + module->description();
  }
  return text;
}

}  // namespace brigade::nn
