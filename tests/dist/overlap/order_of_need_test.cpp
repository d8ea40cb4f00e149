#include "dist/overlap/order_of_need.h"

#include <gmock/gmock.h>

namespace brigade::dist {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::size_t> buckets_of(const std::vector<LaunchItem>& order) {
  std::vector<std::size_t> result;
  for (const LaunchItem& item : order) {
    result.push_back(item.bucket);
  }
  return result;
}

// Three layers of one bucket each; bucket 0 belongs to the last layer, parameter 2.
std::vector<BucketTimes> three_layers(double chunk_ms, std::size_t chunks) {
  return {{.ready_ms = 1, .first_parameter = 2, .chunk_ms = std::vector(chunks, chunk_ms)},
          {.ready_ms = 2, .first_parameter = 1, .chunk_ms = std::vector(chunks, chunk_ms)},
          {.ready_ms = 3, .first_parameter = 0, .chunk_ms = std::vector(chunks, chunk_ms)}};
}

TEST(OrderOfNeed, OnAFastNetworkIsTheOrderOfReadiness) {
  EXPECT_THAT(buckets_of(in_order_of_need(three_layers(0.5, 1))), ElementsAre(0, 1, 2));
}

TEST(OrderOfNeed, OnASlowNetworkTheFirstLayerOvertakesWhatIsStillWaiting) {
  // Bucket 0 travels from 1 to 5; by then all are ready.
  EXPECT_THAT(buckets_of(in_order_of_need(three_layers(4, 1))), ElementsAre(0, 2, 1));
}

TEST(OrderOfNeed, AnUrgentBucketInterruptsALargeOneBetweenTwoChunks) {
  // From 1 to 2 bucket 0 is alone and sends one chunk; then 1 is ready, at 3 bucket 2. What is left
  // goes in the order in which forward needs it.
  EXPECT_THAT(in_order_of_need(three_layers(1, 3)),
              ElementsAre(LaunchItem{0, 0}, LaunchItem{1, 0}, LaunchItem{2, 0}, LaunchItem{2, 1},
                          LaunchItem{2, 2}, LaunchItem{1, 1}, LaunchItem{1, 2}, LaunchItem{0, 1},
                          LaunchItem{0, 2}));
}

TEST(OrderOfNeed, SendsEveryChunkOfEveryBucketOnce) {
  const std::vector<BucketTimes> buckets{
      {.ready_ms = 0.3, .first_parameter = 5, .chunk_ms = {0.2, 0.2, 0.1}},
      {.ready_ms = 0.1, .first_parameter = 3, .chunk_ms = {2.0}},
      {.ready_ms = 9.0, .first_parameter = 0, .chunk_ms = {0.1, 0.1}}};
  EXPECT_THAT(in_order_of_need(buckets),
              testing::UnorderedElementsAre(LaunchItem{0, 0}, LaunchItem{0, 1}, LaunchItem{0, 2},
                                            LaunchItem{1, 0}, LaunchItem{2, 0}, LaunchItem{2, 1}));
}

TEST(OrderOfNeed, OfNothingIsNothing) {
  EXPECT_THAT(in_order_of_need({}), IsEmpty());
}

}  // namespace
}  // namespace brigade::dist
