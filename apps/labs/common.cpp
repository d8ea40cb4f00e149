#include "apps/labs/common.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/training/program.h"
#include "autograd/engine.h"
#include "core/cpu/threads.h"
#include "core/error.h"
#include "core/ops.h"
#include "core/random.h"
#include "dist/comm/emulated_link_communicator.h"
#include "dist/launch/launch.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/relu.h"
#include "nn/sequential.h"
#include "optim/sgd.h"

namespace brigade::labs {
namespace {

constexpr std::uint64_t kDataSeed = 2;
/// Ranks add in another order than one process. Real mistakes are a thousand times larger.
constexpr double kRounding = 1e-5;

Tensor uniform(std::uint32_t sequence, const Shape& shape) {
  Tensor values = Tensor::empty(shape);
  ops::uniform(
      {.seed = kDataSeed, .sequence = sequences::kSynthetic + sequence, .low = -1.0, .high = 1.0},
      values);
  return values;
}

/// max |a - b|; infinite if a number is NaN, so that NaN never counts as equal.
double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = std::max(largest, std::isnan(difference) ? INFINITY : difference);
  }
  return largest;
}

/// Trains `model` on the global batch. The gradient of its mean loss is the sum of the pieces'
/// gradients, each weighted by its share of the samples.
void train_alone(nn::Module& model, const std::vector<std::int64_t>& rows_of_pieces) {
  const auto all_rows = static_cast<double>(
      std::accumulate(rows_of_pieces.begin(), rows_of_pieces.end(), std::int64_t{0}));
  optim::SGD optimizer(model.parameters(), {.lr = kLearningRate});
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    for (std::size_t piece = 0; piece < rows_of_pieces.size(); ++piece) {
      const std::int64_t rows = rows_of_pieces[piece];
      const Variable loss = loss_of(model, make_batch(step, static_cast<int>(piece), rows));
      autograd::backward(loss, {.grad_scale = static_cast<double>(rows) / all_rows});
    }
    optimizer.step();
  }
}

/// Runs `body`; the line of a check that fails begins with `name` and ends in `hint`.
void with_name(const std::string& name, const std::string& hint,
               const std::function<void()>& body) {
  try {
    body();
  } catch (const VerificationError& error) {
    throw VerificationError(message_of(name, ": ", error.what(), hint));
  }
}

}  // namespace

std::unique_ptr<nn::Module> make_model(std::uint64_t seed) {
  const std::vector<std::int64_t> widths{kIn, 128, 128, kOut};
  manual_seed(seed);
  auto model = std::make_unique<nn::Sequential>();
  for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
    if (layer > 0) {
      model->append(nn::ReLU());
    }
    model->append(nn::Linear(widths[layer], widths[layer + 1]));
  }
  return model;
}

Batch make_batch(int step, int piece, std::int64_t rows) {
  constexpr std::uint32_t kPiecesPerStep = 1U << 16U;
  const auto sequence = static_cast<std::uint32_t>(step) * kPiecesPerStep;
  const Tensor x = uniform(1 + sequence + static_cast<std::uint32_t>(piece), {rows, kIn});
  // The function to learn is linear, and the same in every step and on every rank.
  const Tensor weights = uniform(0, {kOut, kIn});
  Tensor target = Tensor::empty({rows, kOut});
  ops::linear(x, weights, Tensor(), target);
  return {Variable(x), target};
}

Variable loss_of(nn::Module& model, const Batch& batch) {
  return nn::mse_loss(model.forward(batch.x), batch.target);
}

double mean_over_ranks(const Variable& loss, dist::Communicator& comm) {
  const std::vector<double> losses = dist::all_gather_values(comm, loss.data().item());
  return std::accumulate(losses.begin(), losses.end(), 0.0) / comm.size();
}

double difference_between_ranks(const std::vector<Variable>& parameters, dist::Communicator& comm) {
  const std::vector<float> mine = autograd::values_of(parameters);
  const std::vector<std::byte> bytes = comm.all_gather(std::as_bytes(std::span(mine)));
  std::vector<float> all(bytes.size() / sizeof(float));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  double largest = 0.0;
  for (std::size_t a = 0; a < all.size(); a += mine.size()) {
    for (std::size_t b = 0; b < a; b += mine.size()) {
      const std::span<const float> values(all);
      largest = std::max(largest, largest_difference(values.subspan(a, mine.size()),
                                                     values.subspan(b, mine.size())));
    }
  }
  return largest;
}

void check_weights(const std::vector<Variable>& parameters, dist::Communicator& comm,
                   nn::Module& fresh, const std::vector<std::int64_t>& rows_of_pieces) {
  const double between = difference_between_ranks(parameters, comm);
  expect(between == 0.0,
         message_of("expected equal weights on all ranks, but they differ, by up to ", between));
  say(comm, "weights equal on all ranks");
  train_alone(fresh, rows_of_pieces);
  const double from_one =
      largest_difference(autograd::values_of(parameters), autograd::values_of(fresh.parameters()));
  expect(from_one <= kRounding,
         message_of(
             "expected the weights of one process on the whole batch, but they differ, by up to ",
             from_one));
  say(comm, "weights equal to one process on the whole batch (largest difference {:.0e})",
      from_one);
}

void check_weights(const std::vector<Variable>& parameters, dist::Communicator& comm, int pieces) {
  check_weights(parameters, comm, *make_model(),
                std::vector<std::int64_t>(static_cast<std::size_t>(pieces), kRows));
}

bool on_all_ranks(bool holds, dist::Communicator& comm) {
  const std::vector<int> all = dist::all_gather_values(comm, holds ? 1 : 0);
  return std::count(all.begin(), all.end(), 1) == comm.size();
}

void expect(bool holds, const std::string& message) {
  if (!holds) {
    throw VerificationError(message);
  }
}

int run_lab(const std::string& name, const char* quiz, int argc, char** argv,
            const std::function<void(dist::Communicator&, Recorder&)>& body) {
  if (const std::optional<int> exit_code = run_quiz(name, argc, argv, quiz)) {
    return *exit_code;
  }
  return apps::run_program(argc, argv, apps::Program::lab,
                           [&](const apps::Options& options, const dist::RankInfo& ranks) {
                             set_cpu_threads(1);
                             std::unique_ptr<dist::Communicator> comm =
                                 dist::make_communicator("auto", kCpu);
                             if (options.emulated_link) {
                               comm = std::make_unique<dist::EmulatedLinkCommunicator>(
                                   std::move(comm), *options.emulated_link);
                             }
                             Recorder recorder(options, *comm, kSteps);
                             with_name(name, "", [&] { body(*comm, recorder); });
                             recorder.write(name, ranks.host);
                             return 0;
                           });
}

int run_exercise(const std::string& name, int argc, char** argv,
                 const std::function<void(dist::Communicator&)>& body,
                 const std::string& still_to_do) {
  if (argc > 1 && argv[1] == std::string("--help")) {
    return apps::leave_early(message_of("mpirun -np 2 ", argv[0], ": ", name,
                                        ", without flags; its lab's README.md says what to do\n"),
                             0);
  }
  if (argc > 1) {
    return apps::leave_early(
        message_of(name, ": expected no flags, got ", argv[1], " (see --help)\n"), 2);
  }
  return dist::run_main([&](const dist::MpiSession&) {
    set_cpu_threads(1);
    std::unique_ptr<dist::Communicator> comm = dist::make_communicator("auto", kCpu);
    if (comm->size() == 1) {
      throw UsageError(message_of(name, ": needs at least two ranks: mpirun -np 2 ..."));
    }
    with_name(name, "; still to do: " + still_to_do, [&] { body(*comm); });
    return 0;
  });
}

}  // namespace brigade::labs
