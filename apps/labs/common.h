#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/brigade.h"
#include "apps/labs/recorder.h"
#include "autograd/hooks.h"
#include "dist/comm/communicator.h"

/// What the labs share: the network, the data, the training loop and the final check. What a lab
/// teaches is in its own file.
namespace brigade::labs {

inline constexpr int kSteps = 10;
inline constexpr double kLearningRate = 0.2;
/// Samples per piece of data. Large enough that communication can overlap with backward.
inline constexpr std::int64_t kRows = 4096;

/// An MLP 8-128-128-4 with ReLU. Its six parameters are 0.weight, 0.bias, 2.weight, 2.bias,
/// 4.weight and 4.bias. The initial weights depend on the seed alone: all ranks start alike.
std::unique_ptr<nn::Module> make_model(std::uint64_t seed = 1);

/// One piece of a step's global batch: the shard of a rank, or one micro-batch of it. No two pieces
/// share a sample.   x: [rows, 8]   target: [rows, 4]
struct Batch {
  Variable x;
  Tensor target;
};
Batch make_batch(int step, int piece, std::int64_t rows = kRows);

/// The mean squared error of the model on `batch`.
Variable loss_of(nn::Module& model, const Batch& batch);

/// The training loop of lab 1: kSteps steps, in which rank r takes piece r of `rows` samples.
/// `backward` is what a rank does between forward and the optimizer.
void train(nn::Module& model, dist::Communicator& comm, Recorder& trace,
           const std::function<void(const Variable& loss)>& backward, std::int64_t rows = kRows);

/// Prints the mean loss and the largest weight difference of all ranks after a step. Collective.
void say_step(int step, const Variable& loss, const std::vector<Variable>& parameters,
              dist::Communicator& comm);

/// The largest difference of any rank from rank 0 in any weight; 0 if all are equal. Collective.
double difference_between_ranks(const std::vector<Variable>& parameters, dist::Communicator& comm);

/// Checks that the weights are bit-equal on all ranks, and equal up to rounding to those that one
/// process learns. That process trains a `fresh` copy of the model for kSteps steps on the global
/// batch, made of pieces with `rows_of_pieces` samples. Prints two lines, or throws
/// VerificationError on every rank. Collective.
void check_weights(const std::vector<Variable>& parameters, dist::Communicator& comm,
                   const std::vector<std::int64_t>& rows_of_pieces, nn::Module& fresh);
/// The same for `pieces` pieces of kRows samples.
void check_weights(const std::vector<Variable>& parameters, dist::Communicator& comm, int pieces);

/// Throws VerificationError{message} unless `holds`, which must be the same on all ranks.
void expect(bool holds, const std::string& message);

/// Prints a line on rank 0.
template <class... Parts>
void say(const dist::Communicator& comm, fmt::format_string<Parts...> format, Parts&&... parts) {
  if (comm.rank() == 0) {
    fmt::print(format, std::forward<Parts>(parts)...);
    std::putchar('\n');
    std::fflush(stdout);
  }
}

/// say() for the first step only: later steps would print the same lines again.
struct Narrator {
  const dist::Communicator& comm;
  bool silent = false;

  template <class... Parts>
  void operator()(fmt::format_string<Parts...> format, Parts&&... parts) const {
    if (!silent) {
      say(comm, format, std::forward<Parts>(parts)...);
    }
  }
};

/// The part of lab 3's listener that later labs reuse. It attaches itself to the parameters, and
/// waits for all all-reduces in flight when backward ends. A subclass launches them.
class AllReduceListener : public autograd::GradListener {
 public:
  AllReduceListener(std::vector<Variable> parameters, dist::Communicator& comm);
  void on_backward_end() override;

 protected:
  std::vector<Variable> parameters_;
  dist::Communicator& comm_;
  std::vector<dist::Work> works_;  // in flight, in order of launch

 private:
  std::vector<autograd::ListenerHandle> handles_;
};

/// Each lab and each exercise defines this function. main.cpp calls it on every rank.
void run(dist::Communicator& comm, Recorder& trace);

}  // namespace brigade::labs
