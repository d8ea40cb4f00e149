#pragma once

#include "autograd/functions/dropout.h"
#include "core/error.h"
#include "nn/module.h"

namespace brigade::nn {

/// In training sets each element to 0 with probability p and divides the others by 1 - p
/// (autograd/functions/dropout.h); otherwise nothing. Ranks that are to drop different elements set
/// different dropout positions (core/random.h).
class Dropout final : public Module {
 public:
  explicit Dropout(double p = 0.5) : p_(p) {
    BRIGADE_CHECK(p >= 0.0 && p < 1.0, "Dropout: expected p in [0, 1), got {}", p);
  }

  Variable forward(const Variable& x) override {
    return autograd::dropout(x, p_, is_training() && p_ > 0.0);
  }
  std::string description() const override { return fmt::format("Dropout({})", p_); }

 private:
  double p_;
};

}  // namespace brigade::nn
