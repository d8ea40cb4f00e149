// With gdb: FailureLab.TheReportOfAStallSaysWhatTheThreadsDo.
#include "dist/watch/thread_stacks.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/support/environment.h"

namespace brigade::dist {
namespace {

TEST(ThreadStacks, SayThatThereIsNoGdb) {
  const test::EnvironmentVariable path("PATH", "/nowhere");
  EXPECT_THAT(ThreadStacks(getpid()).lines(), testing::ElementsAre("gdb is not installed"));
}

}  // namespace
}  // namespace brigade::dist
