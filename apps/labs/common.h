#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/labs/recorder.h"
#include "autograd/variable.h"
#include "dist/comm/communicator.h"
#include "nn/module.h"

/// What the labs share: the network, the data and the verdict. Everything a lab is about stands in
/// its own file.
namespace brigade::labs {

using autograd::Variable;

inline constexpr int kSteps = 10;
inline constexpr double kLearningRate = 0.2;
/// Samples in a piece. So many that backward takes long enough for something to happen beside it.
inline constexpr std::int64_t kRows = 4096;
inline constexpr std::int64_t kIn = 8;
inline constexpr std::int64_t kOut = 4;

/// An MLP 8-128-128-4 with ReLU: the six parameters 0.weight, 0.bias, 2.weight, 2.bias, 4.weight
/// and 4.bias. All ranks begin with the same weights, which are a function of the seed alone.
std::unique_ptr<nn::Module> make_model(std::uint64_t seed = 1);

/// One piece of a step's global batch. A rank takes a piece for itself (its shard), or one per
/// micro-batch; no two pieces share a sample.   x: [rows, kIn]   target: [rows, kOut]
struct Batch {
  Variable x;
  Tensor target;
};
Batch make_batch(int step, int piece, std::int64_t rows = kRows);

/// Mean squared error of the model on `batch`: what backward starts from.
Variable loss_of(nn::Module& model, const Batch& batch);

/// Collective.
double mean_over_ranks(const Variable& loss, dist::Communicator& comm);

/// Largest difference between any two ranks in any weight; 0 when all have the same. Collective.
double difference_between_ranks(const std::vector<Variable>& parameters, dist::Communicator& comm);

/// The verdict. Collective. Says so when the weights are the same bits on all ranks and, up to
/// rounding, those that one process learns: from a `fresh` copy of the model, in kSteps steps on
/// the whole global batch, which consists of pieces with `rows_of_pieces` samples. Otherwise throws
/// VerificationError, on every rank.
void check_weights(const std::vector<Variable>& parameters, dist::Communicator& comm,
                   nn::Module& fresh, const std::vector<std::int64_t>& rows_of_pieces);
/// For make_model() and `pieces` pieces of kRows samples.
void check_weights(const std::vector<Variable>& parameters, dist::Communicator& comm, int pieces);

/// Whether it holds on every rank. Collective.
bool on_all_ranks(bool holds, dist::Communicator& comm);

/// Throws VerificationError{message} unless `holds`. The condition must be the same on all ranks.
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

/// say() for what happens within a step: after the first one there is nothing new to tell.
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

/// The whole of a lab's main: reads the flags, starts MPI, runs `body`, writes what --trace asks
/// for and returns the exit code. When a check fails, its line begins with `name`.
int run_lab(const std::string& name, int argc, char** argv,
            const std::function<void(dist::Communicator&, Recorder&)>& body);

/// The same for an exercise or its solution, which know no flag but --help. What a starter says
/// when its check fails ends in `still_to_do`. Both need two ranks, because one has nobody to
/// disagree with.
int run_exercise(const std::string& name, int argc, char** argv,
                 const std::function<void(dist::Communicator&)>& body,
                 const std::string& still_to_do = {});

}  // namespace brigade::labs
