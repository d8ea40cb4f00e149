// What follows a backward and is recorded with it (autograd/replay.h).
#include <gmock/gmock.h>

#include "autograd/functions/mse_loss.h"
#include "autograd/replay.h"
#include "tests/autograd/probe.h"
#include "tests/support/expect_error.h"
#include "tests/support/small_model.h"

namespace brigade::autograd {
namespace {

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kIn = 4;
constexpr std::int64_t kOut = 3;

TEST(ReplayedUpdate, IsAnnouncedByTheKey) {
  const auto model = test::make_mlp({kIn, kOut});
  Replay replay(model->parameters(), kCpu);
  const Tensor x = test::data_rows(0, kRows, kIn, 3);
  replay.forward({.inputs = x.bytes(), .samples = kRows}, [&] {
    return mse_loss(model->forward(Variable(x)), Tensor::zeros({kRows, kOut}));
  });
  EXPECT_ERROR(replay.backward([] {}),
               "replay: expected an update behind backward exactly if the key says so");
}

TEST(ReplayedUpdate, ToldToListenersIfItFailsWhileItIsRecorded) {
  EventLog log;
  LoggingListener listener(log);
  const auto model = test::make_mlp({kIn, kOut});
  std::vector<HookHandle> handles;
  for (const Variable& parameter : model->parameters()) {
    handles.push_back(parameter.attach_listener(listener, handles.size()));
  }
  Replay replay(model->parameters(), kCpu);
  const Tensor x = test::data_rows(0, kRows, kIn, 3);
  const Tensor target = test::data_rows(0, kRows, kOut, 4);
  int updates = 0;
  const auto step = [&] {
    for (const Variable& parameter : model->parameters()) {
      parameter.zero_grad();
    }
    replay.forward(
        {.inputs = x.bytes(), .targets = target.bytes(), .samples = kRows, .updates = true},
        [&] { return mse_loss(model->forward(Variable(x)), target); });
    return replay.backward([&] {
      if (++updates == 2) {
        throw Error("no update");
      }
    });
  };
  EXPECT_FALSE(step());
  EXPECT_THAT(log, testing::Not(testing::Contains("abort")));
  EXPECT_THROW(step(), Error);
  EXPECT_THAT(log, testing::Contains("abort"));
  EXPECT_FALSE(step());
  EXPECT_FALSE(step());
  EXPECT_TRUE(step());
  EXPECT_EQ(updates, 4);
}

}  // namespace
}  // namespace brigade::autograd
