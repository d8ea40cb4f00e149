#include "dist/overlap/order_of_need.h"

#include <gmock/gmock.h>

namespace brigade::dist {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::size_t> buckets_of(const std::vector<LaunchItem>& order) {
  std::vector<std::size_t> result;
  for (const LaunchItem& send : order) {
    result.push_back(send.bucket);
  }
  return result;
}

TEST(SendOrder, WithinOneStepIsBucketAfterBucketPieceAfterPiece) {
  EXPECT_THAT(in_bucket_order(std::vector<std::size_t>{1, 3, 1}),
              ElementsAre(LaunchItem{0, 0}, LaunchItem{1, 0}, LaunchItem{1, 1}, LaunchItem{1, 2},
                          LaunchItem{2, 0}));
}

// Three layers of one bucket each; bucket 0 belongs to the last layer, parameter 2.
std::vector<BucketTimes> three_layers(double piece_ms, std::size_t pieces) {
  return {{.ready_ms = 1, .first_parameter = 2, .piece_ms = std::vector(pieces, piece_ms)},
          {.ready_ms = 2, .first_parameter = 1, .piece_ms = std::vector(pieces, piece_ms)},
          {.ready_ms = 3, .first_parameter = 0, .piece_ms = std::vector(pieces, piece_ms)}};
}

TEST(SendOrder, OnAFastNetworkIsTheOrderOfReadiness) {
  EXPECT_THAT(buckets_of(in_order_of_need(three_layers(0.5, 1))), ElementsAre(0, 1, 2));
}

TEST(SendOrder, OnASlowNetworkTheFirstLayerOvertakesWhatIsStillWaiting) {
  // Bucket 0 travels from 1 to 5; by then all are ready.
  EXPECT_THAT(buckets_of(in_order_of_need(three_layers(4, 1))), ElementsAre(0, 2, 1));
}

TEST(SendOrder, AnUrgentBucketInterruptsALargeOneBetweenTwoPieces) {
  // From 1 to 2 bucket 0 is alone and sends one piece; then 1 is ready, at 3 bucket 2. What is left
  // goes in the order in which forward needs it.
  EXPECT_THAT(in_order_of_need(three_layers(1, 3)),
              ElementsAre(LaunchItem{0, 0}, LaunchItem{1, 0}, LaunchItem{2, 0}, LaunchItem{2, 1},
                          LaunchItem{2, 2}, LaunchItem{1, 1}, LaunchItem{1, 2}, LaunchItem{0, 1},
                          LaunchItem{0, 2}));
}

TEST(SendOrder, SendsEveryPieceOfEveryBucketOnce) {
  const std::vector<BucketTimes> buckets{
      {.ready_ms = 0.3, .first_parameter = 5, .piece_ms = {0.2, 0.2, 0.1}},
      {.ready_ms = 0.1, .first_parameter = 3, .piece_ms = {2.0}},
      {.ready_ms = 9.0, .first_parameter = 0, .piece_ms = {0.1, 0.1}}};
  EXPECT_THAT(in_order_of_need(buckets),
              testing::UnorderedElementsAre(LaunchItem{0, 0}, LaunchItem{0, 1}, LaunchItem{0, 2},
                                            LaunchItem{1, 0}, LaunchItem{2, 0}, LaunchItem{2, 1}));
}

TEST(SendOrder, OfNothingIsNothing) {
  EXPECT_THAT(in_order_of_need({}), IsEmpty());
}

}  // namespace
}  // namespace brigade::dist
