#include "autograd/grad_mode.h"

namespace brigade::autograd {
namespace {
thread_local bool enabled = true;
}  // namespace

bool grad_enabled() {
  return enabled;
}

NoGradGuard::NoGradGuard() : previous_(enabled) {
  enabled = false;
}
NoGradGuard::~NoGradGuard() {
  enabled = previous_;
}

}  // namespace brigade::autograd
