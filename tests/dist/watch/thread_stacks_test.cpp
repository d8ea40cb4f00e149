// With gdb: FailureLab.TheReportOfAStallSaysWhatTheThreadsDo.
#include "dist/watch/thread_stacks.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/support/environment.h"

namespace brigade::dist {
namespace {

TEST(ThreadStacks, SayThatThereIsNoGdb) {
  const test::EnvironmentVariable path("PATH", "/nowhere");
  const ThreadStacks stacks(getpid());
  std::vector<std::string> lines;
  for (int i = 0; i < 1000 && (lines.empty() || lines[0] != "gdb is not installed"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    lines = stacks.lines();
  }
  EXPECT_THAT(lines, testing::ElementsAre("gdb is not installed"));
}

}  // namespace
}  // namespace brigade::dist
