#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dist/ddp/bucket_completion.h"
#include "dist/ddp/launch_order.h"

namespace brigade::dist {

/// Watches the first synchronised backwards and then replaces the order in which pieces leave by
/// the order of need (send_order.h), once. Everything it is told it passes on.
///
/// Two backwards go by unwatched: the first, which is cold and may end with a rebuild of the
/// buckets, and the first after a rebuild. The medians of the next three are planned with. Ranks
/// measure differently and must send alike: rank 0's plan counts. A later rebuild makes it begin
/// anew.
class NeedOrder final : public BucketSink {
 public:
  /// `order` is what this replaces, between two backwards. The references must outlive this.
  NeedOrder(std::unique_ptr<BucketSink> next, const std::vector<Bucket>& buckets,
            Communicator& comm, std::vector<Send>& order)
      : next_(std::move(next)), buckets_(buckets), comm_(comm), order_(order) {}

  ~NeedOrder() override { comm_.set_event_times(false); }
  NeedOrder(const NeedOrder&) = delete;
  NeedOrder& operator=(const NeedOrder&) = delete;

  /// Collective when the time has come to plan.
  void backward_begins() override;
  void launched(std::size_t index, const Bucket& bucket, const Work& work) override;
  void node_ended() override { next_->node_ended(); }
  void backward_ended() override;
  void reset() noexcept override;
  void buckets_changed() override;

 private:
  /// One backward as it was seen.
  struct Seen {
    Event begin;
    std::vector<Event> ready;    // per bucket
    std::vector<Event> reduced;  // likewise
  };
  Stream& compute() const;
  std::vector<Send> plan() const;

  std::unique_ptr<BucketSink> next_;
  const std::vector<Bucket>& buckets_;
  Communicator& comm_;
  std::vector<Send>& order_;
  int backwards_ = 0;  // that have ended
  bool planned_ = false;
  bool watching_ = false;  // the backward that is running
  std::vector<Seen> seen_;
};

}  // namespace brigade::dist
