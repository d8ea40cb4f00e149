// With gdb: FailureLab.TheReportOfAStallSaysWhatTheThreadsDo.
#include "dist/watch/thread_stacks.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/support/environment.h"
#include "tests/support/fake_gdb.h"

namespace brigade::dist {
namespace {

void wait_for(ThreadStacks& stacks) {
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    stacks.seconds_of_pause();
  } while (!stacks.done());
}

TEST(ThreadStacks, SayThatThereIsNoGdb) {
  const test::EnvironmentVariable path("PATH", "/nowhere");
  ThreadStacks stacks(getpid());
  wait_for(stacks);
  EXPECT_THAT(stacks.lines(), testing::ElementsAre("gdb is not installed"));
}

TEST(ThreadStacks, AreTheFramesOrWhatGdbComplainsOf) {
  const test::FakeGdb frames("echo noise; echo 'Thread 1 (LWP 7)'; echo '#0 f ()'; echo more");
  ThreadStacks stacks(getpid());
  wait_for(stacks);
  EXPECT_THAT(stacks.lines(), testing::ElementsAre("Thread 1 (LWP 7)", "#0 f ()"));
  const test::FakeGdb refused("echo first; echo 'Operation not permitted.' >&2; echo");
  ThreadStacks none(getpid());
  wait_for(none);
  EXPECT_THAT(none.lines(), testing::ElementsAre("Operation not permitted."));
}

TEST(ThreadStacks, LetGdbFinishSoThatTheProcessGoesOn) {
  const test::FakeGdb gdb("sleep 0.3; echo done >>$0.log");
  {
    ThreadStacks stacks(getpid());
    EXPECT_GT(stacks.seconds_of_pause(), 0.0);
  }
  EXPECT_EQ(gdb.log(), "done\n");
}

// A process that has just been let go has not had time to speak: whoever counts how long it has
// been silent must still know the pause.
TEST(ThreadStacks, RememberTheirPause) {
  const test::FakeGdb gdb("sleep 0.2");
  ThreadStacks stacks(getpid());
  wait_for(stacks);
  const double pause = stacks.seconds_of_pause();
  EXPECT_GE(pause, 0.2);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(stacks.seconds_of_pause(), pause);
}

}  // namespace
}  // namespace brigade::dist
