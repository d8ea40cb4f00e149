#include "nn/module.h"

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "core/error.h"

namespace brigade::nn {

/// What the copies of a module share.
struct Module::Shared {
  struct Child {
    std::string name;
    std::string description;
    std::shared_ptr<Shared> module;
  };

  std::vector<std::pair<std::string, Variable>> parameters;
  std::vector<Child> children;
  bool training = true;

  void check_name(const std::string& name) const {
    BRIGADE_CHECK(!name.empty() && name.find('.') == std::string::npos,
                  "module: expected a name without dots, got '{}'", name);
    const auto is_name = [&name](const auto& taken) { return taken == name; };
    const bool taken =
        std::ranges::any_of(parameters, is_name, &std::pair<std::string, Variable>::first) ||
        std::ranges::any_of(children, is_name, &Child::name);
    BRIGADE_CHECK(!taken, "module: expected a new name, but '{}' is registered already", name);
  }

  /// Calls fn(prefix, module) for this and everything below, parents first.
  void visit(const std::string& prefix,
             const std::function<void(const std::string&, Shared&)>& fn) {
    fn(prefix, *this);
    for (const Child& child : children) {
      child.module->visit(prefix + child.name + ".", fn);
    }
  }
};

Module::Module() : shared_(std::make_shared<Shared>()) {}

Variable Module::register_parameter(const std::string& name, Variable parameter) {
  shared_->check_name(name);
  BRIGADE_CHECK(parameter.defined() && parameter.is_leaf(),
                "module: expected '{}' to be a leaf, got {}", name,
                parameter.defined() ? "a computed variable" : "an undefined variable");
  parameter.set_requires_grad(true);
  return shared_->parameters.emplace_back(name, std::move(parameter)).second;
}

void Module::register_module(const std::string& name, const Module& module) {
  shared_->check_name(name);
  module.shared_->visit("", [&](const std::string&, const Shared& part) {
    BRIGADE_CHECK(&part != shared_.get(),
                  "module: '{}' is or contains the module it is registered with", name);
  });
  shared_->children.push_back({name, module.description(), module.shared_});
}

std::string Module::description() const {
  std::string text;
  for (const Shared::Child& child : shared_->children) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", child.name, child.description);
  }
  return fmt::format("Module({})", text);
}

std::vector<std::pair<std::string, Variable>> Module::named_parameters() const {
  std::vector<std::pair<std::string, Variable>> result;
  std::unordered_set<const void*> seen;
  shared_->visit("", [&](const std::string& prefix, const Shared& module) {
    for (const auto& [name, parameter] : module.parameters) {
      if (seen.insert(parameter.identity()).second) {
        result.emplace_back(prefix + name, parameter);
      }
    }
  });
  return result;
}

std::vector<Variable> Module::parameters() const {
  std::vector<Variable> result;
  for (const auto& [name, parameter] : named_parameters()) {
    // Checkpoints and optimizer states use the name from the outermost module down. Asking a part
    // for its parameters must not shorten it.
    if (!parameter.name().ends_with("." + name)) {
      parameter.set_name(name);
    }
    result.push_back(parameter);
  }
  return result;
}

void Module::to(Device device) const {
  for (const Variable& parameter : parameters()) {
    parameter.move_to(device);
  }
}

void Module::train(bool mode) const {
  shared_->visit("", [mode](const std::string&, Shared& module) { module.training = mode; });
}

bool Module::is_training() const {
  return shared_->training;
}

}  // namespace brigade::nn
