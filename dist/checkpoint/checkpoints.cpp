#include "dist/checkpoint/checkpoints.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/ops.h"
#include "core/random.h"
#include "core/runtime/trace.h"
#include "dist/comm/agreement.h"
#include "dist/comm/gather.h"
#include "dist/ddp/replica_check.h"

namespace brigade::dist {
namespace {

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kDropout = "dropout";
constexpr std::string_view kErrorFeedback = "error.";

std::string own_file(int rank) {
  return fmt::format("rank-{}.safetensors", rank);
}

/// From which flags the buckets come.
std::string layout_of(const DataParallelOptions& options) {
  return fmt::format("{}, buckets of {} bytes", to_string(options.mode), options.capacity());
}

std::vector<std::vector<std::string>> names_of(const GradAverager& averager) {
  std::vector<std::vector<std::string>> names;
  for (const Bucket& bucket : averager.buckets()) {
    names.emplace_back();
    for (const std::size_t member : bucket.members) {
      names.back().push_back(averager.parameters()[member].name());
    }
  }
  return names;
}

/// UsageError that shows the first line that differs.
void check_same_run(const std::vector<std::string>& before, const std::vector<std::string>& now,
                    const std::filesystem::path& path) {
  const auto [theirs, ours] = std::ranges::mismatch(before, now);
  if (theirs != before.end() || ours != now.end()) {
    throw UsageError(fmt::format(
        "{}: expected the checkpoint of a run with '{}', got one with '{}'; continue with the "
        "flags it was started with, or elsewhere",
        path.string(), ours == now.end() ? "" : *ours, theirs == before.end() ? "" : *theirs));
  }
}

/// Overwrites everybody's state with these copies of rank `root`.
void take_over(const TrainingState& state, const NamedTensors& weights,
               const NamedTensors& optimizer, Communicator& comm, int root) {
  for (const NamedTensors* tensors : {&weights, &optimizer}) {
    for (const auto& [name, tensor] : *tensors) {
      comm.broadcast({tensor.bytes(), tensor.nbytes()}, root);
    }
  }
  copy_by_name(weights, autograd::named_data(state.parameters), "broadcast");
  state.load_optimizer(optimizer);
}

}  // namespace

void broadcast_state(const TrainingState& state, Communicator& comm, int root) {
  take_over(state, copy_of(autograd::named_data(state.parameters)),
            copy_of(state.optimizer_state()), comm, root);
}

Checkpoints::Checkpoints(const std::filesystem::path& directory, CheckpointParts parts,
                         CheckpointOptions options)
    : parts_(std::move(parts)),
      options_(std::move(options)),
      comm_(parts_.averager.communicator()),
      store_(directory),
      source_(options_.resume_from.empty() ? directory : options_.resume_from),
      step_(options_.steps_done),
      writer_(store_, comm_.rank(), options_.keep) {
  const ScopeName scope(kWritesFiles);
  check_same_lines("checkpoints",
                   {fmt::format("every {} steps", options_.every),
                    options_.resume ? "continued" : "from the beginning"},
                   comm_);
  if (comm_.rank() == 0) {
    store_.remove_unfinished();
  }
  if (options_.resume) {
    resume();
  }
  check_none_newer();
  signals_.emplace();
}

CheckpointOptions Checkpoints::with_batch(CheckpointOptions options, std::int64_t global_batch) {
  options.run.push_back(fmt::format("global batch {}", global_batch));
  return options;
}

void Checkpoints::resume() {
  // Of the JSON text only rank 0's counts; an error there ends the job.
  const std::string mine = comm_.rank() == 0 ? newest_good() : std::string();
  const std::string text = all_gather_sequences(comm_, mine).front();
  if (text.empty()) {
    say("no checkpoint to continue from, so training begins with step 1");
    return;
  }
  const CheckpointInfo info = CheckpointInfo::parse(text, "checkpoint");
  step_ = info.step;
  batches_ = info.batches;
  load_shared(info);
  take_plan(info);
  load_own(info);
  say(fmt::format("continues after step {} ({})", step_, source_.path_of(step_).string()));
}

/// They would be taken for this run's newest when it fails. Where the newest good one was
/// continued, those above it are damaged, and publish() removes them.
void Checkpoints::check_none_newer() const {
  const bool newest = options_.resume && !options_.resume_step && options_.resume_from.empty();
  const std::vector<std::int64_t> steps = store_.steps();
  if (comm_.rank() == 0 && !newest && !steps.empty() && steps.front() > step_) {
    throw UsageError(
        fmt::format("{}: expected no checkpoint beyond step {}, where this run begins; continue "
                    "from the newest (--resume latest), or write to another directory",
                    store_.path_of(steps.front()).string(), step_));
  }
}

/// Its JSON text; empty if there is none.
std::string Checkpoints::newest_good() const {
  for (const std::int64_t step : source_.steps()) {
    if (options_.resume_step.value_or(step) != step) {
      continue;
    }
    CheckpointInfo info;
    try {
      info = source_.check(step);
    } catch (const UsageError& error) {
      say(fmt::format("WARNING: that of step {} is refused, and the one before it used: {}", step,
                      error.what()));
      continue;
    }
    check_same_run(info.run, options_.run, source_.path_of(step));
    return info.to_json();
  }
  if (options_.resume_step || !options_.resume_from.empty()) {
    throw UsageError(fmt::format("checkpoint: expected {}{}, got none that is whole",
                                 source_.path_of(options_.resume_step.value_or(0)).string(),
                                 options_.resume_step ? "" : " or a later one"));
  }
  return {};
}

/// The same buckets give the same bits, and the hook's state belongs to them. With other flags, or
/// another number of ranks, the buckets are those that a new run would have.
void Checkpoints::take_plan(const CheckpointInfo& info) {
  const std::vector<autograd::Variable>& parameters = parts_.averager.parameters();
  if (info.ranks != comm_.size() || info.layout != layout_of(parts_.averager.options())) {
    return;
  }
  std::map<std::string, std::size_t> index_of;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    index_of[parameters[i].name()] = i;
  }
  BucketPlan plan;
  std::size_t placed = 0;
  for (const std::vector<std::string>& names : info.buckets) {
    placed += names.size();
    plan.emplace_back();
    for (const std::string& name : names) {
      const auto found = index_of.find(name);
      if (found == index_of.end()) {
        return;  // some are frozen now
      }
      plan.back().push_back(found->second);
    }
  }
  if (index_of.size() == placed) {
    parts_.averager.use_plan(plan);
    took_plan_ = true;
  }
}

/// Rank 0 reads, so the file need not be where other hosts can see it.
void Checkpoints::load_shared(const CheckpointInfo& info) {
  const NamedTensors weights = copy_of(autograd::named_data(parts_.state.parameters));
  const NamedTensors optimizer = copy_of(parts_.state.optimizer_state());
  if (comm_.rank() == 0) {
    const std::string place = source_.path_of(info.step).string();
    copy_by_name(source_.read(info.step, kModel), weights, place);
    copy_by_name(source_.read(info.step, kOptimizer), optimizer, place);
  }
  take_over(parts_.state, weights, optimizer, comm_, 0);
}

/// As many ranks as before: each its own. Otherwise every rank takes an equal share of the error
/// feedback, because the sum over the ranks is what is still to be sent.
void Checkpoints::load_own(const CheckpointInfo& info) {
  const bool same_ranks = info.ranks == comm_.size();
  const NamedTensors mine = parts_.averager.options().hook->state();
  const int first = same_ranks ? comm_.rank() : 0;
  const int last = same_ranks ? comm_.rank() : info.ranks - 1;
  std::map<std::string, Tensor> kept(mine.begin(), mine.end());
  for (int rank = first; rank <= last && info.files.contains(own_file(rank)); ++rank) {
    for (const auto& [name, saved] : source_.read(info.step, own_file(rank))) {
      if (name == kDropout) {
        check_same_tensors({{name, saved}}, {{name, Tensor::empty({2}, DType::i64)}},
                           own_file(rank));
        const std::vector<std::int64_t> position = saved.to_vector<std::int64_t>();
        // Other ranks than before have each its own seed already.
        set_dropout_position({.seed = same_ranks ? static_cast<std::uint64_t>(position.at(0))
                                                 : dropout_position().seed,
                              .sequence = static_cast<std::uint32_t>(position.at(1))});
      } else if (const auto found = kept.find(name);
                 found != kept.end() && found->second.shape() == saved.shape()) {
        const bool shared_out = !same_ranks && name.starts_with(kErrorFeedback);
        ops::axpby(saved.to(found->second.device()),
                   {.alpha = shared_out ? 1.0 / comm_.size() : 1.0,
                    .beta = shared_out && rank > first ? 1.0 : 0.0},
                   found->second);
      }
    }
  }
}

NamedTensors Checkpoints::own_state() const {
  NamedTensors own = parts_.averager.options().hook->state();
  const RandomStream dropout = dropout_position();
  if (dropout.sequence != sequences::kDropout) {
    const std::vector<std::int64_t> position{static_cast<std::int64_t>(dropout.seed),
                                             dropout.sequence};
    own.emplace_back(kDropout, Tensor::from(position, {std::ssize(position)}));
  }
  return own;
}

void Checkpoints::after_step() {
  ++step_;
  const SignalRequest request = agreed_request();
  if (request != SignalRequest::none || (options_.every > 0 && step_ % options_.every == 0)) {
    save(request == SignalRequest::stop);
  }
  if (request == SignalRequest::stop) {
    // All ranks leave together: the first that ends the job must not end a rank that still writes.
    const bool written =
        std::ranges::min(all_gather_values<char>(comm_, writer_.finish() ? 1 : 0)) != 0;
    throw Interrupted(fmt::format("a signal has ended the training after step {}{}{}", step_,
                                  written ? "; resume from its checkpoint: " : "; not written: ",
                                  store_.path_of(step_).string()));
  }
}

/// A signal may reach one rank only, and ranks at different steps; the largest request counts, now.
SignalRequest Checkpoints::agreed_request() {
  SignalRequest mine = StopSignals::take();
  const std::chrono::duration<double, std::ratio<60>> passed =
      std::chrono::steady_clock::now() - last_;
  if (comm_.rank() == 0 && options_.minutes > 0.0 && passed.count() >= options_.minutes) {
    mine = std::max(mine, SignalRequest::save);
  }
  return comm_.size() == 1 ? mine : std::ranges::max(all_gather_values(comm_, mine));
}

// The tensors are read on this thread, behind everything that the step has enqueued or left in
// flight: Variable::data() waits for the update of that parameter and of its optimizer state.
void Checkpoints::save(bool last) {
  const TraceScope trace(kWritesFiles, Lane::host);
  writer_.finish();
  last_ = std::chrono::steady_clock::now();
  const CheckpointInfo info{.step = step_,
                            .batches = parts_.batches ? parts_.batches() : step_,
                            .ranks = comm_.size(),
                            .run = options_.run,
                            .layout = layout_of(parts_.averager.options()),
                            .buckets = names_of(parts_.averager),
                            .files = {}};
  std::vector<std::string> files{kModel, kOptimizer};
  const NamedTensors shared = autograd::named_data(parts_.state.parameters);
  for (const auto& [name, tensor] : shared) {
    // A run that continues from NaN never recovers, and --keep would delete the last good one.
    BRIGADE_CHECK(ops::all_finite(tensor),
                  "checkpoint: expected finite weights after step {}, got NaN or inf in '{}': "
                  "training has diverged, or a rank's data has NaN (--check-finite tells); not "
                  "written, earlier checkpoints remain",
                  step_, name);
  }
  const NamedTensors optimizer = parts_.state.optimizer_state();  // ranks may have to gather it
  if (comm_.rank() == 0) {
    writer_.copy(kModel, shared);
    writer_.copy(kOptimizer, optimizer);
  }
  const NamedTensors own = own_state();
  const std::vector<char> has_own = all_gather_values<char>(comm_, own.empty() ? 0 : 1);
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (has_own[static_cast<std::size_t>(rank)] != 0) {
      files.push_back(own_file(rank));
    }
  }
  if (!own.empty()) {
    writer_.copy(own_file(comm_.rank()), own);
  }
  last ? writer_.write(info, files) : writer_.start(info, files);
}

void Checkpoints::say(const std::string& text) const {
  if (comm_.rank() == 0) {
    report_line(fmt::format("[rank 0] checkpoint: {}", text));
  }
}

}  // namespace brigade::dist
