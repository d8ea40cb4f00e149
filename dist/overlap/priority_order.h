#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dist/ddp/bucket_completion.h"
#include "dist/overlap/order_of_need.h"

namespace brigade::dist {

/// Watches the first synchronised backwards and then replaces the order in which pieces leave by
/// the order of need (order_of_need.h), once. Everything it is told it passes on.
///
/// Two backwards go by unwatched: the first, which is cold and may end with a rebuild of the
/// buckets, and the first after a rebuild. The medians of the next three are planned with. Ranks
/// measure differently and must send alike: rank 0's plan counts. A later rebuild makes it begin
/// anew.
class PriorityOrder final : public BucketCompletion {
 public:
  /// `order` is what this replaces, between two backwards. The references must outlive this.
  PriorityOrder(std::unique_ptr<BucketCompletion> next, const std::vector<Bucket>& buckets,
                Communicator& comm, std::vector<LaunchItem>& order)
      : next_(std::move(next)), buckets_(buckets), comm_(comm), order_(order) {}

  ~PriorityOrder() override { comm_.set_event_times(false); }
  PriorityOrder(const PriorityOrder&) = delete;
  PriorityOrder& operator=(const PriorityOrder&) = delete;

  /// Collective when the time has come to plan.
  void backward_begins() override;
  void launched(std::size_t index, const Bucket& bucket, const Work& work) override;
  void backward_ended() override;
  void reset() noexcept override;
  const char* failure() const override { return next_->failure(); }
  void buckets_changed() override;

 private:
  /// One backward as it was seen.
  struct Seen {
    Event begin;
    std::vector<Event> ready;    // per bucket
    std::vector<Event> reduced;  // likewise
  };
  Stream& compute() const;
  std::vector<LaunchItem> plan() const;

  std::unique_ptr<BucketCompletion> next_;
  const std::vector<Bucket>& buckets_;
  Communicator& comm_;
  std::vector<LaunchItem>& order_;
  int backwards_ = 0;  // that have ended
  bool planned_ = false;
  bool watching_ = false;  // the backward that is running
  std::vector<Seen> seen_;
};

}  // namespace brigade::dist
