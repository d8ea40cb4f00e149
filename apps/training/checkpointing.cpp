#include "apps/training/checkpointing.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/io/checkpoint_store.h"

namespace brigade::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDirectory = "checkpoints";

/// What decides which samples are in which step, and what the optimizer keeps. The learning rate,
/// the number of steps, the mode and the number of ranks may change.
std::vector<std::string> identity_of(const Options& o, const data::DataSplits& data, int ranks) {
  return {fmt::format("data {}, {} training samples of checksum {}", o.data, data.train->size(),
                      data.train->checksum()),
          fmt::format("global batch {}", o.batch * o.accum * ranks),
          fmt::format("uneven {}{}", o.uneven, o.shuffle ? ", shuffled" : ", not shuffled"),
          fmt::format("seed {}", o.seed),
          fmt::format("loss {}", o.loss),
          fmt::format("optimizer {}{}", o.optimizer,
                      o.optimizer == "sgd" && o.momentum > 0.0 ? " with momentum" : "")};
}

/// --resume DIR: a run's directory, or one checkpoint.
void set_source(const std::string& place, dist::CheckpointOptions& result) {
  const fs::path path = fs::absolute(place) / "";  // "a/b" and "a/b/" alike
  const std::string name = path.parent_path().filename().string();
  constexpr std::string_view kStep = "step-";
  std::int64_t step = -1;
  const char* end = name.data() + name.size();
  if (!name.starts_with(kStep) ||
      std::from_chars(name.data() + kStep.size(), end, step).ptr != end || step < 0) {
    const bool inside = name == kDirectory && !CheckpointStore(path).steps().empty();
    result.resume_from = inside ? path : path / kDirectory;
    return;
  }
  result.resume_from = path.parent_path().parent_path();
  result.resume_step = step;
}

}  // namespace

std::unique_ptr<dist::Checkpoints> open_checkpoints(const Options& options, const Runtime& runtime,
                                                    const fs::path& directory,
                                                    const data::DataSplits& data,
                                                    dist::CheckpointParts parts,
                                                    std::int64_t steps_done) {
  if (!options.checkpoints()) {
    const CheckpointStore others(directory / kDirectory);
    if (runtime.comm->rank() == 0 && !others.steps().empty()) {
      throw UsageError(
          fmt::format("{}: expected no checkpoints where a run without any writes; continue that "
                      "run (--resume latest), or write to another directory",
                      others.path_of(others.steps().front()).string()));
    }
    return nullptr;
  }
  const int ranks_at_first = runtime.comm->size() + runtime.lost;
  dist::CheckpointOptions result{.every = options.checkpoint_steps,
                                 .minutes = options.checkpoint_minutes,
                                 .keep = static_cast<std::size_t>(options.keep),
                                 .resume = !options.resume.empty() && runtime.lost == 0,
                                 .steps_done = steps_done,
                                 .run = identity_of(options, data, ranks_at_first)};
  if (options.resume == "latest" && options.out.empty()) {
    throw UsageError(
        "--resume latest: expected --out DIR, the directory of the run to continue, got none");
  }
  if (result.resume && options.resume != "latest") {
    set_source(options.resume, result);
  }
  return std::make_unique<dist::Checkpoints>(directory / kDirectory, std::move(parts), result);
}

}  // namespace brigade::apps
