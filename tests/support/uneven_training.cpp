#include "tests/support/uneven_training.h"

#include <algorithm>
#include <cstring>

#include "autograd/engine.h"
#include "autograd/functions/mse_loss.h"
#include "dist/ddp/join.h"
#include "optim/sgd.h"
#include "tests/support/small_model.h"

namespace brigade::test {
namespace {

constexpr std::int64_t kSamples = 103;
constexpr std::int64_t kBatch = 8;
constexpr int kPasses = 3;
constexpr std::int64_t kIn = 6;
constexpr std::int64_t kOut = 3;

/// Rows [first, first + count) of the data set.
struct Rows {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Shard lengths in the proportion 1 : 2 : ... : ranks, the last with what is left over.
Rows shard(int ranks, int rank) {
  const auto begin = [ranks](int r) {
    return kSamples * (r * (r + 1) / 2) / (ranks * (ranks + 1) / 2);
  };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

/// Batch number `step` of a shard; empty when it is used up.
Rows batch(const Rows& shard, std::int64_t step) {
  const std::int64_t first = std::min(step * kBatch, shard.count);
  return {shard.first + first, std::min(kBatch, shard.count - first)};
}

Tensor inputs(const Rows& rows) {
  return data_rows(rows.first, rows.count, kIn, 3);
}
Tensor targets(const Rows& rows) {
  return data_rows(rows.first, rows.count, kOut, 4);
}

Tensor joined(const std::vector<Tensor>& parts) {
  std::vector<float> values;
  for (const Tensor& part : parts) {
    const std::vector<float> more = part.to_vector<float>();
    values.insert(values.end(), more.begin(), more.end());
  }
  const std::int64_t cols = parts.front().shape()[1];
  return Tensor::from(values, {static_cast<std::int64_t>(values.size()) / cols, cols});
}

std::unique_ptr<nn::Sequential> model_of_all() {
  return make_mlp({kIn, 16, 8, kOut});
}
constexpr optim::SGD::Options kSgd{.lr = 0.1, .momentum = 0.9};

void backward_on(nn::Module& model, const Tensor& x, const Tensor& y, double seed) {
  autograd::backward(autograd::mse_loss(model.forward(autograd::Variable(x)), y), {.seed = seed});
}

}  // namespace

std::int64_t steps_of_shard(int ranks, int rank) {
  return (shard(ranks, rank).count + kBatch - 1) / kBatch;
}

std::vector<float> train_on_uneven_shards(dist::Communicator& comm, const UnevenRun& run) {
  const auto model = model_of_all();
  dist::GradAverager parallel(model->parameters(), comm,
                              {.mode = run.mode, .bucket_bytes = 256, .unused = run.unused});
  optim::SGD optimizer(parallel.parameters(), kSgd);
  dist::Join join(comm);
  const Rows mine = shard(comm.size(), comm.rank());
  const auto backward = [&](const Rows& rows, const dist::JoinStep& step) {
    if (rows.count > 0) {
      backward_on(*model, inputs(rows), targets(rows), step.seed(rows.count));
    } else {
      parallel.shadow_backward();
    }
  };
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::int64_t number = 0;; ++number) {
      const Rows rows = batch(mine, number);
      const dist::JoinStep step = join.begin(rows.count);
      if (!step.active()) {
        break;
      }
      optimizer.zero_grad();
      if (run.accumulate) {
        const std::int64_t half = rows.count / 2;
        if (half > 0) {
          const auto scope = parallel.no_sync();
          backward({rows.first, half}, step);
        }
        backward({rows.first + half, rows.count - half}, step);
      } else {
        backward(rows, step);
      }
      optimizer.step();
    }
  }
  parallel.verify_parameters_equal();
  return autograd::values_of(model->parameters());
}

std::vector<float> train_on_their_union(int ranks) {
  const auto model = model_of_all();
  optim::SGD optimizer(model->parameters(), kSgd);
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::int64_t number = 0;; ++number) {
      std::vector<Tensor> x;
      std::vector<Tensor> y;
      for (int rank = 0; rank < ranks; ++rank) {
        const Rows rows = batch(shard(ranks, rank), number);
        if (rows.count > 0) {
          x.push_back(inputs(rows));
          y.push_back(targets(rows));
        }
      }
      if (x.empty()) {
        break;
      }
      optimizer.zero_grad();
      backward_on(*model, joined(x), joined(y), 1.0);
      optimizer.step();
    }
  }
  return autograd::values_of(model->parameters());
}

}  // namespace brigade::test
