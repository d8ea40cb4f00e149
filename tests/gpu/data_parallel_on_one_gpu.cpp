// data_parallel_on_one_gpu nccl|mpi: under mpirun, N ranks that share a GPU (or have one each) must
// end with the weights of one process that trained on their batches together, in every mode. Exit
// 77, with the reason: no GPU, no NCCL.
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/variable.h"
#include "core/config.h"
#include "core/error.h"
#include "core/ops.h"
#include "core/random.h"
#include "dist/algorithms/ordered_all_reduce.h"
#include "dist/ddp/grad_averager.h"
#include "dist/hooks/half_hook.h"
#include "dist/hooks/power_sgd.h"
#include "dist/hooks/top_k.h"
#include "dist/launch/launch.h"
#include "dist/overlap/in_flight_updates.h"
#include "dist/sharding/sharded_updates.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/relu.h"
#include "nn/sequential.h"
#include "optim/sgd.h"

namespace brigade {
namespace {

using autograd::Variable;

constexpr int kSkipped = 77;
constexpr std::int64_t kBatch = 8;  // samples per rank and micro-batch
constexpr std::int64_t kIn = 64;
constexpr std::int64_t kOut = 10;
constexpr int kSteps = 10;
constexpr int kMicroBatches = 2;

nn::Sequential make_mlp(Device device, std::uint64_t seed = 3) {
  nn::Sequential model;
  std::int64_t in = kIn;
  manual_seed(seed);
  for (const std::int64_t out : {std::int64_t{128}, std::int64_t{100}, kOut}) {
    if (in != kIn) {
      model.append(nn::ReLU());
    }
    model.append(nn::Linear(in, out));
    in = out;
  }
  model.to(device);
  return model;
}

/// Numbers for all ranks and micro-batches of one step; each takes its rows.
Tensor global_batch(std::int64_t rows, std::int64_t columns, int step, std::uint32_t what) {
  Tensor x = Tensor::empty({rows, columns});
  ops::uniform({.stream = {.seed = 11, .sequence = what + 2 * static_cast<std::uint32_t>(step)},
                .low = -1.0,
                .high = 1.0},
               x);
  return x;
}

/// loss of `count` rows from `begin`
Variable loss_of(nn::Sequential& model, Device device, int step, std::int64_t total,
                 std::int64_t begin, std::int64_t count) {
  const Tensor x = global_batch(total, kIn, step, 0).rows(begin, count).to(device);
  const Tensor target = global_batch(total, kOut, step, 1).rows(begin, count).to(device);
  return nn::mse_loss(model.forward(Variable(x)), target);
}

std::vector<double> weights_of(const nn::Sequential& model) {
  std::vector<double> weights;
  for (const Variable& parameter : model.parameters()) {
    for (const float value : parameter.data().to_vector<float>()) {
      weights.push_back(static_cast<double>(value));
    }
  }
  return weights;
}

double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double distance = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    distance += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(distance / size);
}

/// What one process gets from the whole global batch at once.
std::vector<double> train_alone(Device device, int ranks) {
  nn::Sequential model = make_mlp(device);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  const std::int64_t total = kBatch * kMicroBatches * ranks;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    loss_of(model, device, step, total, 0, total).backward();
    optimizer.step();
  }
  return weights_of(model);
}

struct Together {
  dist::SyncMode mode = dist::SyncMode::overlap;
  bool no_sync = false;  ///< the first micro-batches of a step only accumulate
  std::shared_ptr<dist::CommHook> hook = std::make_shared<dist::PlainAllReduce>();
  std::optional<dist::UpdateDeadline> in_flight = {};  ///< nothing: step() after backward
  bool sharded = false;                                ///< the ranks share the optimizer
};

std::vector<double> train_together(dist::Communicator& comm, Device device, const Together& how) {
  // The others begin with other weights and must get rank 0's.
  nn::Sequential model = make_mlp(device, static_cast<std::uint64_t>(3 + comm.rank()));
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  dist::GradAverager parallel(model.parameters(), comm,
                              {.mode = how.mode,
                               .bucket_bytes = std::size_t{40} << 10U,
                               .init_sync = dist::InitSync::broadcast,
                               .hook = how.sharded ? dist::shard(optimizer) : how.hook});
  std::optional<dist::InFlightUpdates> in_flight;
  if (how.in_flight) {
    in_flight.emplace(parallel, dist::calls_of(optimizer), *how.in_flight);
  }
  const std::int64_t total = kBatch * kMicroBatches * comm.size();
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const int rounds = how.no_sync ? kMicroBatches : 1;
    const std::int64_t count = total / comm.size() / rounds;
    for (int round = 0; round < rounds; ++round) {
      const std::int64_t begin = (round * comm.size() + comm.rank()) * count;
      const auto backward = [&] {
        loss_of(model, device, step, total, begin, count).backward(1.0 / rounds);
      };
      if (round + 1 < rounds) {
        const auto scope = parallel.no_sync();
        backward();
      } else {
        backward();
      }
    }
    if (!how.in_flight) {
      optimizer.step();
    }
  }
  parallel.verify_parameters_equal();
  return weights_of(model);
}

/// Additions in the order of the ranks, by our own all-reduce on the communication stream: every
/// mode has the same bits.
void check_deterministic(dist::Communicator& comm, Device device) {
  comm.use(std::make_unique<dist::OrderedAllReduce>());
  const std::vector<double> naive = train_together(comm, device, {.mode = dist::SyncMode::naive});
  for (const dist::SyncMode mode :
       {dist::SyncMode::flat, dist::SyncMode::per_param, dist::SyncMode::overlap}) {
    if (train_together(comm, device, {.mode = mode}) != naive) {
      throw VerificationError(fmt::format("with {}, {} has other bits than naive",
                                          comm.description(), dist::to_string(mode)));
    }
  }
  if (train_together(comm, device, {.sharded = true}) != naive) {
    throw VerificationError("a sharded optimizer leads to other bits than naive");
  }
}

/// Hooks compute on the communication stream: during backward (overlap) they must see the same
/// gradients as after it (flat). train_together() checks that the ranks agree.
void check_hooks(dist::Communicator& comm, Device device, const std::vector<double>& expected) {
  const auto check = [&](auto make_hook, double bound) {
    const std::vector<double> flat =
        train_together(comm, device, {.mode = dist::SyncMode::flat, .hook = make_hook()});
    const std::vector<double> overlap = train_together(comm, device, {.hook = make_hook()});
    const double distance = relative_distance(overlap, expected);
    if (flat != overlap || !(distance <= bound)) {
      throw VerificationError(fmt::format(
          "{}: flat and overlap have {} bits, distance {} to one rank, at most {}",
          make_hook()->name(), flat == overlap ? "the same" : "other", distance, bound));
    }
  };
  check([] { return std::make_shared<dist::HalfHook>(DType::f16); }, 1e-3);
  check([] { return std::make_shared<dist::HalfHook>(DType::bf16); }, 1e-2);
  check([] { return std::make_shared<dist::PowerSgd>(4); }, 0.02);
  try {
    train_together(comm, device,
                   {.mode = dist::SyncMode::flat, .hook = std::make_shared<dist::TopK>(0.1)});
  } catch (const UsageError&) {
    return;
  }
  throw VerificationError("topk: expected to be refused on a GPU");
}

int check_all_modes(const std::string& kind, Device device) {
  constexpr double kBound = 1e-6;
  const std::unique_ptr<dist::Communicator> comm = dist::make_communicator(kind, device);
  const std::vector<double> expected = train_alone(device, comm->size());
  bool good = true;
  const auto check = [&](const Together& how, const char* what) {
    const double distance = relative_distance(train_together(*comm, device, how), expected);
    good = good && distance <= kBound;
    if (comm->rank() == 0) {
      std::printf("%-9s %-17s %s: relative L2 distance to one rank %.2g (at most %.2g)\n",
                  std::string(dist::to_string(how.mode)).c_str(), what, comm->description().c_str(),
                  distance, kBound);
    }
  };
  for (const dist::SyncMode mode : {dist::SyncMode::naive, dist::SyncMode::flat,
                                    dist::SyncMode::per_param, dist::SyncMode::overlap}) {
    check({.mode = mode}, "");
  }
  check({.no_sync = true}, "no_sync");
  check({.in_flight = dist::UpdateDeadline::end_of_backward}, "optimizer-overlap");
  check({.in_flight = dist::UpdateDeadline::next_read}, "cross-step");
  check({.sharded = true}, "shard-optimizer");
  if (!good) {
    throw VerificationError("data parallel training differs from one rank");
  }
  check_hooks(*comm, device, expected);
  check_deterministic(*comm, device);
  return 0;
}

int run(const std::string& kind, const dist::RankInfo& info) {
  const CudaInfo cuda = cuda_info();
  if (cuda.device_count == 0 || (kind == "nccl" && !kHasNccl)) {
    if (info.rank == 0) {
      std::printf("SKIPPED: %s\n", cuda.device_count == 0
                                       ? ("no usable GPU: " + cuda.why_not).c_str()
                                       : "this build has no NCCL");
    }
    return kSkipped;
  }
  return check_all_modes(kind, {DeviceType::cuda, info.local_rank % cuda.device_count});
}

}  // namespace
}  // namespace brigade

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "nccl";
  return brigade::dist::run_main(
      [&kind](brigade::dist::MpiSession& session) { return brigade::run(kind, session.info()); });
}
