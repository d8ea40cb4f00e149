#pragma once

#include "dist/ddp/reducer.h"

namespace brigade::dist {

/// A Reducer that launches its buckets after backward: what bucketing alone buys. No overlap.
class FlatSync final : public Reducer {
 public:
  using Reducer::Reducer;

  /// Launches all buckets.
  void on_backward_end() override;

 private:
  void launch_full_buckets() override {}
};

}  // namespace brigade::dist
