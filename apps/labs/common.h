#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/labs/quiz.h"
#include "apps/labs/recorder.h"
#include "autograd/variable.h"
#include "dist/comm/communicator.h"
#include "nn/module.h"

/// What the labs share: the network, the data and the final check. What a lab teaches is in its own
/// file.
namespace brigade::labs {

using autograd::Variable;

inline constexpr int kSteps = 10;
inline constexpr double kLearningRate = 0.2;
/// Samples per piece of data. Large enough that communication can overlap with backward.
inline constexpr std::int64_t kRows = 4096;
inline constexpr std::int64_t kIn = 8;
inline constexpr std::int64_t kOut = 4;

/// An MLP 8-128-128-4 with ReLU. Its six parameters are 0.weight, 0.bias, 2.weight, 2.bias,
/// 4.weight and 4.bias. The initial weights depend on the seed alone: all ranks start alike.
std::unique_ptr<nn::Module> make_model(std::uint64_t seed = 1);

/// One piece of a step's global batch: the shard of a rank, or one micro-batch of it. No two pieces
/// share a sample.   x: [rows, kIn]   target: [rows, kOut]
struct Batch {
  Variable x;
  Tensor target;
};
Batch make_batch(int step, int piece, std::int64_t rows = kRows);

/// The mean squared error of the model on `batch`.
Variable loss_of(nn::Module& model, const Batch& batch);

/// The average of the ranks' losses. Collective.
double mean_over_ranks(const Variable& loss, dist::Communicator& comm);

/// The largest difference between two ranks in any weight; 0 if all are equal. Collective.
double difference_between_ranks(const std::vector<Variable>& parameters, dist::Communicator& comm);

/// Checks that the weights are bit-equal on all ranks, and equal up to rounding to those that one
/// process learns. That process trains a `fresh` copy of the model for kSteps steps on the global
/// batch, made of pieces with `rows_of_pieces` samples. Prints two lines, or throws
/// VerificationError on every rank. Collective.
void check_weights(const std::vector<Variable>& parameters, dist::Communicator& comm,
                   nn::Module& fresh, const std::vector<std::int64_t>& rows_of_pieces);
/// The same for make_model() and `pieces` pieces of kRows samples.
void check_weights(const std::vector<Variable>& parameters, dist::Communicator& comm, int pieces);

/// True if `holds` is true on every rank. Collective.
bool on_all_ranks(bool holds, dist::Communicator& comm);

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
class Narrator {
 public:
  explicit Narrator(const dist::Communicator& comm) : comm_(comm) {}
  void fall_silent() { silent_ = true; }
  bool silent() const { return silent_; }

  template <class... Parts>
  void operator()(fmt::format_string<Parts...> format, Parts&&... parts) const {
    if (!silent_) {
      say(comm_, format, std::forward<Parts>(parts)...);
    }
  }

 private:
  const dist::Communicator& comm_;
  bool silent_ = false;
};

/// The main() of a lab. Parses the flags, starts MPI, runs `body`, writes the files of --trace and
/// returns the exit code; with --quiz it runs the `quiz` instead. The line of a check that fails
/// begins with `name`.
int run_lab(const std::string& name, const char* quiz, int argc, char** argv,
            const std::function<void(dist::Communicator&, Recorder&)>& body);

/// The main() of an exercise or its solution. The only flag is --help; at least two ranks are
/// needed. The line of a check that fails ends in `still_to_do`.
int run_exercise(const std::string& name, int argc, char** argv,
                 const std::function<void(dist::Communicator&)>& body,
                 const std::string& still_to_do);

}  // namespace brigade::labs
