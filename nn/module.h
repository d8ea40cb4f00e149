#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/variable.h"

namespace brigade::nn {

using autograd::Variable;

/// A layer or a composition of layers: a function with parameters.
///
/// A class of one's own overrides forward() and registers, in its constructor, its parameters and
/// the modules it is made of. What it does not register never trains and has no mode:
///
///   struct Residual : nn::Module {
///     nn::Linear a{64, 64}, b{64, 64};
///     Residual() { register_module("a", a); register_module("b", b); }
///     Variable forward(const Variable& x) override { return x + b(relu(a(x))); }
///   };
///
/// A module is a handle, as a Variable is: its copies share the parameters, what is registered, and
/// the mode (train() or eval()). So modules are passed by value, and a registered module may be
/// copied, moved or destroyed: what is kept of it is that shared part, never an address. Two layers
/// with parameters of their own come from two constructor calls. A member that is assigned another
/// module after it was registered is not followed.
class Module {
 public:
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;
  virtual ~Module() = default;

  virtual Variable forward(const Variable& x) = 0;
  Variable operator()(const Variable& x) { return forward(x); }
  /// The same for data that requires no gradient.
  Variable operator()(const Tensor& x) { return forward(Variable(x)); }

  /// "Linear(784, 512)". The default lists the registered modules.
  virtual std::string description() const;

  /// Own parameters, then those of the registered modules, in the order of registration, each
  /// once. They are named as PyTorch names them, "0.weight", from this module down.
  std::vector<std::pair<std::string, Variable>> named_parameters() const;
  /// The same without the names. Each Variable is given its name, unless its present name ends in
  /// that name: a module that contains this one has given it. Messages, checkpoints and optimizer
  /// states use these names.
  std::vector<Variable> parameters() const;

  /// Moves all parameters to `device`, for all copies of this module. Call it before optimizers and
  /// DataParallel are made; the latter's parameters no longer move (Error).
  void to(Device device) const;

  /// Sets the mode of this module and of all below it. Layers that differ between training and
  /// evaluation, such as dropout, ask is_training(); it is true at first.
  void train(bool mode = true) const;
  void eval() const { train(false); }
  bool is_training() const;

 protected:
  Module();

  /// Returns the parameter, which trains from now on: freeze it afterwards (set_requires_grad).
  /// Errors: it is undefined or no leaf; the name is empty, contains a dot or is taken.
  Variable register_parameter(const std::string& name, Variable parameter);
  /// Makes what is registered with `module`, now or later, a part of this one under "name.".
  /// Errors as above for the name; `module` is or contains this one.
  void register_module(const std::string& name, const Module& module);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace brigade::nn
