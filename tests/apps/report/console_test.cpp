#include "apps/report/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <thread>

namespace brigade::apps {
namespace {

TEST(WriteAll, WaitsForAReaderOfAPipeThatDoesNotWait) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  ASSERT_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  std::string text(1'000'000, 'x');  // far more than a pipe holds
  text.back() = '\n';
  std::string got;
  std::thread reader([&got, end = ends[0]] {
    std::array<char, 4096> some{};
    for (ssize_t count = 1; count > 0;) {
      count = read(end, some.data(), some.size());
      got.append(some.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    }
  });
  EXPECT_EQ(write_all(ends[1], text), 0);
  close(ends[1]);
  reader.join();
  close(ends[0]);
  EXPECT_TRUE(got == text) << got.size() << " bytes";
}

TEST(WriteAll, SaysWhyNothingWasWrittenUnlessNobodyReads) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[0]);
  EXPECT_EQ(write_all(ends[0], "to what is closed"), EBADF);
  const auto before = std::signal(SIGPIPE, SIG_IGN);  // as in the program
  EXPECT_EQ(write_all(ends[1], "to nobody"), 0);
  std::signal(SIGPIPE, before);
  close(ends[1]);
}

}  // namespace
}  // namespace brigade::apps
