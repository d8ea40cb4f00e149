#include "dist/launch/clock_alignment.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "tests/support/idle_communicator.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

TEST(ClockOffset, LiesWithinItsErrorAndTheErrorIsSmall) {
  test::thread_world(3, [](Communicator& comm) {
    const ClockOffset offset = measure_clock_offset(comm, 30);
    EXPECT_LE(std::abs(offset.ms), offset.error_ms) << "threads of a process share one clock";
    EXPECT_LT(offset.error_ms, 50.0);
  });
}

/// The second of two ranks; the clock of the first is an hour behind.
class AnHourAhead final : public test::IdleCommunicator {
 public:
  static constexpr double kHour = 3.6e6;  // ms

  AnHourAhead() : IdleCommunicator(1, 2) {}
  std::vector<std::byte> all_gather_bytes(std::span<const std::byte> mine) override {
    double now = 0.0;
    std::memcpy(&now, mine.data(), sizeof now);
    const std::array both{now - kHour, now};
    const auto bytes = std::as_bytes(std::span(both));
    return {bytes.begin(), bytes.end()};
  }
};

TEST(ClockOffset, IsPositiveWhereThisClockIsAhead) {
  AnHourAhead comm;
  const ClockOffset offset = measure_clock_offset(comm, 3);
  EXPECT_NEAR(offset.ms, AnHourAhead::kHour, offset.error_ms);
  EXPECT_LT(offset.error_ms, AnHourAhead::kHour / 2);
}

TEST(ClockOffset, DriftsEvenlyBetweenTwoMeasurements) {
  using std::chrono::milliseconds;
  const std::chrono::steady_clock::time_point start;
  const ClockOffset before{start, 10.0, 0.1};
  const ClockOffset after{start + milliseconds(100), 20.0, 0.1};
  EXPECT_DOUBLE_EQ(interpolate_ms(before, after, start + milliseconds(25)), 12.5);
  EXPECT_DOUBLE_EQ(interpolate_ms(before, after, start + milliseconds(900)), 20.0);
}

}  // namespace
}  // namespace brigade::dist
