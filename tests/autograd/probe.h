#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "autograd/hooks.h"
#include "autograd/variable.h"

namespace brigade::autograd {

/// What happened, in order.
using EventLog = std::vector<std::string>;

/// y = Σ inputs, of equal shapes. Its backward treats the inputs in the order given and logs each
/// gradient kernel as "name:0", "name:1", …
Variable probe(EventLog& log, const std::string& name, std::initializer_list<Variable> inputs);

/// A leaf holding `value` in one element, without dimensions.
Variable scalar_leaf(float value, std::string name = {});

/// The value of a scalar's gradient.
double grad_of(const Variable& variable);

/// Logs "begin", "ready 3", "end" and "abort".
class LoggingListener : public GradListener {
 public:
  explicit LoggingListener(EventLog& log) : log_(log) {}
  void on_backward_begin() override { log_.emplace_back("begin"); }
  void on_grad_ready(std::size_t index) override {
    log_.push_back("ready " + std::to_string(index));
  }
  void on_backward_end() override { log_.emplace_back("end"); }
  void on_backward_abort() noexcept override { log_.emplace_back("abort"); }

 private:
  EventLog& log_;
};

}  // namespace brigade::autograd
