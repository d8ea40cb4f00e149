#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/dispatch.h"
#include "core/runtime/context.h"
#include "core/runtime/pinned.h"
#include "core/runtime/stream.h"
#include "tests/gpu/gpu_test.h"

namespace brigade {
namespace {

using StreamOnGpu = GpuTest;

constexpr std::int64_t kCount = std::int64_t{1} << 24U;

/// Keeps the compute stream busy for milliseconds and leaves `value` in x at the very end.
void fill_slowly(double value, Tensor& x) {
  for (int repetition = 0; repetition < 200; ++repetition) {
    ops::fill(-1.0, x);
  }
  ops::fill(value, x);
}

bool all_equal(const Tensor& x, float value) {
  const std::vector<float> values = x.to_vector<float>();
  return std::ranges::all_of(values, [value](float v) { return v == value; });
}

TEST_F(StreamOnGpu, WorkAfterAnEventSeesWhatWasBeforeIt) {
  const std::unique_ptr<Stream> comm = make_comm_stream(kGpu);
  Tensor x = Tensor::empty({kCount}, DType::f32, kGpu);
  const Tensor y = Tensor::empty({kCount}, DType::f32, kGpu);
  for (int round = 1; round <= 5; ++round) {
    fill_slowly(round, x);
    comm->wait(compute_stream(kGpu).record());
    CudaKernels::copy(*comm, y.bytes(), x.bytes(), x.nbytes());
    compute_stream(kGpu).wait(comm->record());
    EXPECT_TRUE(all_equal(y, static_cast<float>(round)));
  }
}

TEST_F(StreamOnGpu, EventIsDoneOnlyWhenTheWorkBeforeItIs) {
  Tensor x = Tensor::empty({kCount}, DType::f32, kGpu);
  fill_slowly(1.0, x);
  const Event event = compute_stream(kGpu).record();
  EXPECT_FALSE(event.done()) << "200 fills of 64 MiB take milliseconds";
  EXPECT_NO_THROW(ops::fill(2.0, x)) << "that it was not done is no error";
  event.synchronize();
  EXPECT_TRUE(event.done());
  EXPECT_TRUE(Event().done());
}

TEST_F(StreamOnGpu, ACopyFromPinnedMemoryIsNotWaitedFor) {
  const Tensor host = empty_pinned({1000}, DType::f32);
  const Tensor copy = Tensor::empty({1000}, DType::f32, kGpu);
  Tensor x = Tensor::empty({kCount}, DType::f32, kGpu);
  fill_slowly(1.0, x);
  copy.copy_from(host);
  const Event event = compute_stream(kGpu).record();
  EXPECT_FALSE(event.done());
  event.synchronize();
}

TEST_F(StreamOnGpu, EventsMeasureTheTimeBetweenThem) {
  Stream& stream = compute_stream(kGpu);
  Tensor x = Tensor::empty({kCount}, DType::f32, kGpu);
  const Event begin = stream.record(Timing::on);
  fill_slowly(1.0, x);
  const Event end = stream.record(Timing::on);
  end.synchronize();
  EXPECT_GT(elapsed_ms(begin, end), 0.0);
  EXPECT_LT(elapsed_ms(end, begin), 0.0);
}

TEST_F(StreamOnGpu, EventsWithoutTimingRefuseToMeasure) {
  const Event begin = compute_stream(kGpu).record();
  const Event end = compute_stream(kGpu).record();
  end.synchronize();
  EXPECT_THROW(elapsed_ms(begin, end), Error);
}

TEST_F(StreamOnGpu, EventsAreReused) {
  Stream& stream = compute_stream(kGpu);
  const void* first = stream.record().native_handle();
  const void* second = stream.record().native_handle();
  EXPECT_EQ(first, second) << "recording must not create a cudaEvent_t each time";
}

TEST_F(StreamOnGpu, EventOutlivesItsStream) {
  std::unique_ptr<Stream> stream = make_comm_stream(kGpu);
  const Event event = stream->record();
  stream.reset();
  event.synchronize();
  EXPECT_TRUE(event.done());
}

TEST_F(StreamOnGpu, WaitsOnTheHostForAnEventOfACpuStream) {
  WorkerStream worker("test");
  bool finished = false;
  worker.run([&finished] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    finished = true;
  });
  compute_stream(kGpu).wait(worker.record());
  EXPECT_TRUE(finished);
}

TEST_F(StreamOnGpu, WorkerStreamWaitsForAnEventOfTheGpu) {
  WorkerStream worker("test");
  Tensor x = Tensor::empty({kCount}, DType::f32, kGpu);
  fill_slowly(1.0, x);
  const Event event = compute_stream(kGpu).record();
  const bool done_at_once = event.done();
  worker.wait(event);
  bool done_before = false;
  worker.run([&] { done_before = event.done(); });
  worker.synchronize();
  EXPECT_FALSE(done_at_once) << "there was nothing to wait for";
  EXPECT_TRUE(done_before);
}

TEST_F(StreamOnGpu, StreamsAreNonBlockingAndCommunicationGoesFirst) {
  const std::unique_ptr<Stream> comm = make_comm_stream(kGpu);
  int comm_priority = 0;
  int compute_priority = 0;
  for (const auto& [stream, priority] : {std::pair{comm.get(), &comm_priority},
                                         std::pair{&compute_stream(kGpu), &compute_priority}}) {
    auto* handle = static_cast<cudaStream_t>(stream->native_handle());
    unsigned flags = 0;
    ASSERT_EQ(cudaStreamGetFlags(handle, &flags), cudaSuccess);
    EXPECT_EQ(flags, static_cast<unsigned>(cudaStreamNonBlocking));
    ASSERT_EQ(cudaStreamGetPriority(handle, priority), cudaSuccess);
  }
  EXPECT_LT(comm_priority, compute_priority) << "lower numbers go first";
}

}  // namespace
}  // namespace brigade
