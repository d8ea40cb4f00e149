#include "dist/checkpoint/checkpoints.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/ops.h"
#include "core/random.h"
#include "core/runtime/trace.h"
#include "dist/ddp/replica_check.h"
#include "dist/launch/agreement.h"

namespace brigade::dist {
namespace {

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kDropout = "dropout";
constexpr std::string_view kErrorFeedback = "error.";

std::string own_file(int rank) {
  return message_of("rank-", rank, ".safetensors");
}

/// On the host.
NamedTensors copy_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) {
    copies.emplace_back(name, tensor.to(kCpu).clone());
  }
  return copies;
}

/// From which flags the buckets come.
std::string layout_of(const DataParallelOptions& options) {
  return message_of(to_string(options.mode), ", buckets of ", options.capacity(), " bytes");
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
    throw UsageError(message_of(path.string(), ": expected the checkpoint of a run with '",
                                ours == now.end() ? "" : *ours, "', got one with '",
                                theirs == before.end() ? "" : *theirs,
                                "'; continue with the flags it was started with, or elsewhere"));
  }
}

}  // namespace

Checkpoints::Checkpoints(const std::filesystem::path& directory, CheckpointParts parts,
                         CheckpointOptions options)
    : parts_(std::move(parts)),
      options_(std::move(options)),
      comm_(parts_.averager.communicator()),
      store_(directory),
      source_(options_.resume_from.empty() ? directory : options_.resume_from),
      exceptions_at_start_(std::uncaught_exceptions()),
      writer_(make_side_stream(kCpu, "brigade-saver")) {
  check_same_lines("checkpoints",
                   {message_of("every ", options_.every, " steps"),
                    message_of(options_.resume ? "continued" : "from the beginning")},
                   comm_);
  if (comm_.rank() == 0) {
    store_.remove_unfinished();
  }
  if (options_.resume) {
    resume();
  }
  signals_.emplace();
}

Checkpoints::~Checkpoints() {
  abandoned_ = std::uncaught_exceptions() > exceptions_at_start_;
  finish_writing();
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
  load_shared(info);
  take_plan(info);
  load_own(info);
  say(message_of("continues after step ", step_, " (", source_.path_of(step_).string(), ")"));
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
      say(message_of("WARNING: that of step ", step,
                     " is refused, and the one before it used: ", error.what()));
      continue;
    }
    check_same_run(info.run, options_.run, source_.path_of(step));
    return info.to_json();
  }
  if (options_.resume_step) {
    throw UsageError(message_of("checkpoint: expected ",
                                source_.path_of(*options_.resume_step).string(),
                                ", got none that is whole"));
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
  }
}

/// Rank 0 reads, so the file need not be where other hosts can see it.
void Checkpoints::load_shared(const CheckpointInfo& info) {
  const NamedTensors state = copy_of(parts_.optimizer_state());
  if (comm_.rank() == 0) {
    const std::string place = source_.path_of(info.step).string();
    copy_by_name(source_.read(info.step, kModel), autograd::named_data(parts_.parameters), place);
    copy_by_name(source_.read(info.step, kOptimizer), state, place);
  }
  broadcast_parameters(parts_.parameters, comm_);
  for (const auto& [name, tensor] : state) {
    comm_.broadcast({tensor.bytes(), tensor.nbytes()}, 0);
  }
  parts_.load_optimizer(state);
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
        const std::vector<std::int64_t> position = saved.to_vector<std::int64_t>();
        set_dropout_position({.seed = static_cast<std::uint64_t>(position.at(0)),
                              .sequence = static_cast<std::uint32_t>(position.at(1))});
      } else if (const auto found = kept.find(name); found != kept.end()) {
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
    save();
  }
  if (request == SignalRequest::stop) {
    const bool written = finish_writing();
    throw Interrupted(message_of("a signal has ended the training after step ", step_,
                                 written ? "; start it again to continue from " : "; not written: ",
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
void Checkpoints::save() {
  const TraceScope trace("checkpoint", Lane::host);
  finish_writing();
  last_ = std::chrono::steady_clock::now();
  CheckpointInfo info{.step = step_,
                      .ranks = comm_.size(),
                      .run = options_.run,
                      .layout = layout_of(parts_.averager.options()),
                      .buckets = names_of(parts_.averager),
                      .files = {}};
  std::vector<std::string> files{kModel, kOptimizer};
  const NamedTensors shared = autograd::named_data(parts_.parameters);
  if (comm_.rank() == 0) {
    copy(kModel, shared);
    copy(kOptimizer, parts_.optimizer_state());
  }
  const NamedTensors own = own_state();
  const std::vector<char> has_own = all_gather_values<char>(comm_, own.empty() ? 0 : 1);
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (has_own[static_cast<std::size_t>(rank)] != 0) {
      files.push_back(own_file(rank));
    }
  }
  if (!own.empty()) {
    copy(own_file(comm_.rank()), own);
  }
  writer_->run([this, info = std::move(info), files = std::move(files)] { write(info, files); });
}

void Checkpoints::copy(const std::string& file, const NamedTensors& now) {
  NamedTensors& copies = copies_[file];
  if (copies.size() != now.size()) {
    copies = copy_of(now);  // the first time; later checkpoints use the same memory
    return;
  }
  for (std::size_t i = 0; i < now.size(); ++i) {
    copies[i].second.copy_from(now[i].second);
  }
}

/// On the writer's thread.
void Checkpoints::write(const CheckpointInfo& info, const std::vector<std::string>& files) {
  constexpr std::chrono::seconds kPatience{60};  // for the files of other ranks
  constexpr std::chrono::milliseconds kPause{5};
  try {
    for (const auto& [file, tensors] : copies_) {
      store_.write(info.step, file, tensors);
    }
    if (comm_.rank() != 0) {
      return;
    }
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (const std::string& file : files) {
      while (!store_.written(info.step, file)) {
        BRIGADE_CHECK(!abandoned_ && std::chrono::steady_clock::now() < deadline, file,
                      " has not been written within ", kPatience.count(),
                      " s: expected a directory that all hosts share");
        std::this_thread::sleep_for(kPause);
      }
    }
    store_.publish(info, files, options_.keep);
  } catch (const std::exception& error) {
    failure_ = message_of("WARNING: the checkpoint of step ", info.step,
                          " is not written, the one before it remains: ", error.what());
  }
}

bool Checkpoints::finish_writing() {
  writer_->synchronize();  // write() lets nothing out
  const std::string failure = std::exchange(failure_, {});
  if (!failure.empty()) {
    std::fputs(message_of("[rank ", comm_.rank(), "] ", failure, "\n").c_str(), stderr);
  }
  return failure.empty();
}

void Checkpoints::say(const std::string& text) const {
  if (comm_.rank() == 0) {
    std::fputs(message_of("[rank 0] checkpoint: ", text, "\n").c_str(), stderr);
  }
}

}  // namespace brigade::dist
