#include "apps/training/checkpointing.h"

#include <charconv>
#include <string>

#include "core/error.h"

namespace brigade::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDirectory = "checkpoints";

/// What decides which samples are in which step, and what the optimizer keeps. The learning rate,
/// the number of steps, the mode and the number of ranks may change.
std::vector<std::string> identity_of(const Options& o, const data::DataSplits& data, int ranks) {
  return {message_of("data ", o.data, ", ", data.train->size(), " training samples"),
          message_of("global batch ", o.batch * o.accum * ranks),
          message_of("uneven ", o.uneven, o.shuffle ? ", shuffled" : ", not shuffled"),
          message_of("seed ", o.seed),
          message_of("loss ", o.loss),
          message_of("optimizer ", o.optimizer)};
}

/// --resume DIR: a run's directory, or one checkpoint.
void set_source(const std::string& place, dist::CheckpointOptions& result) {
  const fs::path path = fs::absolute(place) / "";  // "a/b" and "a/b/" alike
  const std::string name = path.parent_path().filename().string();
  constexpr std::string_view kStep = "step-";
  if (!name.starts_with(kStep)) {
    result.resume_from = path / kDirectory;
    return;
  }
  std::int64_t step = -1;
  std::from_chars(name.data() + kStep.size(), name.data() + name.size(), step);
  result.resume_from = path.parent_path().parent_path();
  result.resume_step = step;
}

}  // namespace

std::unique_ptr<dist::Checkpoints> open_checkpoints(
    const Options& options, const fs::path& directory, const data::DataSplits& data,
    const nn::Module& model, dist::GradAverager& averager, optim::Optimizer& optimizer) {
  if (!options.checkpoints()) {
    return nullptr;
  }
  dist::CheckpointOptions result{.every = options.checkpoint_steps,
                                 .minutes = options.checkpoint_minutes,
                                 .keep = static_cast<std::size_t>(options.keep),
                                 .resume = !options.resume.empty(),
                                 .run = identity_of(options, data, averager.communicator().size())};
  if (options.resume == "latest") {
    if (options.out.empty()) {
      throw UsageError(
          "--resume latest: expected --out DIR, the directory of the run to continue, got none");
    }
  } else if (result.resume) {
    set_source(options.resume, result);
  }
  return std::make_unique<dist::Checkpoints>(
      directory / kDirectory, dist::parts_of(model.parameters(), averager, optimizer), result);
}

dist::WatchOptions watch_options(const Options& options, const fs::path& directory) {
  return {.warn_after = options.stall_warn,
          .end_after = options.timeout,
          .report = directory / "stall.json",
          .end = {}};
}

}  // namespace brigade::apps
