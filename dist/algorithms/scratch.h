#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace brigade::dist {

/// Memory for received data, reused by later collectives. Nothing is freed before the Scratch is
/// destroyed, because on a GPU the communication stream may still use a block when the host has
/// gone on. Each new block is at least twice the largest one before, so the total is less than four
/// times the largest request.
class Scratch {
 public:
  /// `numel` uninitialised elements. They may alias the result of the previous call.
  Tensor take(std::int64_t numel, const Tensor& like);

 private:
  std::vector<Tensor> blocks_;
};

}  // namespace brigade::dist
