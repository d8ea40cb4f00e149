// DataParallel::update_in_flight from its beginning to its end.
#include "dist/overlap/in_flight_updates.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "dist/comm/emulated_link_communicator.h"
#include "dist/ddp/grad_averager.h"
#include "optim/clip_grad.h"
#include "optim/sgd.h"
#include "tests/support/expect_error.h"
#include "tests/support/small_model.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

constexpr const char* kRefusal =
    "data parallel: updates in flight have failed or were dropped, so the ranks no longer hold the "
    "same weights; end the job";

/// Two ranks over a slow link, and an optimizer that counts its updates, or fails.
class SlowUpdates {
 public:
  explicit SlowUpdates(Communicator& comm)
      : link_(comm.split(0, comm.rank()),
              {.alpha_us = 10'000, .gigabytes_per_s = 1}),  // a collective takes 20 ms
        data_parallel(model_->parameters(), link_,
                      {.plan = plan_buckets(model_->parameters(), 600)}) {}

  InFlightUpdates in_flight() {
    return InFlightUpdates(
        data_parallel,
        {.begin_step = [] {}, .update = [this](const Bucket&) { return [this] { update(); }; }},
        UpdateDeadline::next_read);
  }

  void backward() { test::backward_once(*model_, 6, 4); }

 private:
  void update() {
    if (fails) {
      throw Error("the update fails");
    }
    ++updates;
  }

  std::unique_ptr<nn::Sequential> model_ = test::make_mlp({6, 16, 16, 4});

  EmulatedLinkCommunicator link_;

 public:
  GradAverager data_parallel;
  std::atomic<std::size_t> updates = 0;
  std::atomic<bool> fails = false;
};

TEST(InFlightScope, IsTheOnlyOne) {
  test::thread_world(2, [](Communicator& comm) {
    SlowUpdates training(comm);
    const auto scope = training.in_flight();
    EXPECT_ERROR(static_cast<void>(training.in_flight()),
                 "data parallel: updates are in flight already");
  });
}

TEST(InFlightScope, RefusesRanksWithOtherChunks) {
  test::thread_world(2, [](Communicator& comm) {
    const auto model = test::make_mlp({6, 4});
    GradAverager data_parallel(model->parameters(), comm, {});
    optim::SGD optimizer(model->parameters(), {.lr = 0.1});
    const std::size_t chunk_bytes = comm.rank() == 0 ? 512 : 1024;
    EXPECT_ERROR_OF(VerificationError,
                    static_cast<void>(InFlightUpdates(data_parallel, calls_of(optimizer),
                                                      UpdateDeadline::next_read, chunk_bytes)),
                    "updates in flight: the ranks disagree: rank 0 has 'until the next read, "
                    "chunks of 512 bytes', rank 1 has 'until the next read, chunks of 1024 "
                    "bytes'; start every rank with the same program and flags");
  });
}

TEST(InFlightScope, EndsWhenAllUpdatesAreMade) {
  test::thread_world(2, [](Communicator& comm) {
    SlowUpdates training(comm);
    {
      const auto scope = training.in_flight();
      training.backward();
      EXPECT_LT(training.updates, training.data_parallel.buckets().size()) << "still on their way";
    }
    EXPECT_EQ(training.updates, training.data_parallel.buckets().size());
    training.backward();
    EXPECT_EQ(training.updates, training.data_parallel.buckets().size()) << "the caller's again";
  });
}

TEST(InFlightScope, HasNoStepAndNoClippingBesideIt) {
  constexpr const char* kTwice =
      "optimizer: expected neither step() nor clipping nor GradMemory::discard while buckets are "
      "updated in flight: the gradients may have been used already";
  test::thread_world(2, [&](Communicator& comm) {
    const auto model = test::make_mlp({6, 4});
    GradAverager data_parallel(model->parameters(), comm, {});
    optim::SGD optimizer(model->parameters(), {.lr = 0.1});
    {
      const InFlightUpdates scope(data_parallel, calls_of(optimizer),
                                  UpdateDeadline::end_of_backward);
      test::backward_once(*model, 6, 4);
      EXPECT_ERROR(optimizer.step(), kTwice);
      EXPECT_ERROR(static_cast<void>(optim::clip_grad_norm(optimizer, 1.0)), kTwice);
      EXPECT_ERROR(optimizer.zero_grad(optim::GradMemory::discard), kTwice);
    }
    optimizer.zero_grad();
    test::backward_once(*model, 6, 4);
    optim::clip_grad_norm(optimizer, 1.0);
    EXPECT_NO_THROW(optimizer.step());
  });
}

TEST(InFlightScope, DropsUpdatesThatHaveNotBegunWhenAnExceptionEndsIt) {
  test::thread_world(2, [](Communicator& comm) {
    SlowUpdates training(comm);
    std::size_t updates = 0;
    try {
      const auto scope = training.in_flight();
      training.backward();
      throw Error("what the caller does next fails");
    } catch (const Error&) {
      updates = training.updates;
    }
    EXPECT_LT(updates, training.data_parallel.buckets().size());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(training.updates, updates) << "the optimizer may be gone";
    EXPECT_ERROR(training.backward(), kRefusal);
    EXPECT_ERROR(static_cast<void>(training.in_flight()), kRefusal);
  });
}

TEST(InFlightScope, WithAFailedUpdateIsTheLastOfItsJob) {
  test::thread_world(2, [](Communicator& comm) {
    SlowUpdates training(comm);
    {
      const auto scope = training.in_flight();
      training.fails = true;
      training.backward();
    }
    EXPECT_ERROR(training.backward(), kRefusal);
  });
}

TEST(InFlightScope, WithAFailedUpdateThatSomebodyHasHeardOfIsTheLastOfItsJobAsWell) {
  test::thread_world(2, [](Communicator& comm) {
    SlowUpdates training(comm);
    {
      const auto scope = training.in_flight();
      training.fails = true;
      training.backward();
      for (const autograd::Variable& parameter : training.data_parallel.parameters()) {
        EXPECT_ERROR(static_cast<void>(parameter.data()), "the update fails");
      }
      EXPECT_ERROR(training.backward(), kRefusal);
    }
    EXPECT_ERROR(training.backward(), kRefusal);
  });
}

TEST(InFlightScope, CanFollowAnother) {
  test::thread_world(2, [](Communicator& comm) {
    SlowUpdates training(comm);
    for (std::size_t scopes = 1; scopes <= 2; ++scopes) {
      const auto scope = training.in_flight();
      training.backward();
      static_cast<void>(autograd::values_of(training.data_parallel.parameters()));
      EXPECT_EQ(training.updates, scopes * training.data_parallel.buckets().size());
    }
  });
}

TEST(InFlightScope, MakesWhoReadsAGradientWaitForItsSum) {
  test::thread_world(2, [](Communicator& comm) {
    SlowUpdates training(comm);
    const auto scope = training.in_flight();
    training.backward();
    for (const autograd::Variable& parameter : training.data_parallel.parameters()) {
      static_cast<void>(parameter.grad());
    }
    EXPECT_EQ(training.updates, training.data_parallel.buckets().size());
  });
}

}  // namespace
}  // namespace brigade::dist
