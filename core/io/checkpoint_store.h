#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/io/checksum.h"
#include "core/io/safetensors.h"

namespace brigade {

/// checkpoint.json: what a checkpoint is of, and a checksum of each of its files and of the text.
struct CheckpointInfo {
  std::int64_t step = 0;              ///< optimizer steps done
  std::int64_t batches = 0;           ///< of training data used
  int ranks = 1;                      ///< that have written it
  std::vector<std::string> run = {};  ///< what a run that continues it must have alike
  std::string layout = {};            ///< from which flags the buckets come
  /// Names of parameters, in the order of launch.
  std::vector<std::vector<std::string>> buckets = {};
  std::map<std::string, Checksum> files = {};

  std::string to_json() const;
  /// UsageError, beginning with `subject`, for a text without these values. Ignores its checksum.
  static CheckpointInfo parse(const std::string& json, const std::string& subject);
};

/// The checkpoints of a run, each a directory `step-000000500` of .safetensors files and
/// checkpoint.json.
///
/// A checkpoint is written to `step-000000500.tmp`, every file is fsynced, and the directory gets
/// its name last. So whatever has a name is complete, unless the disk has lost or changed bytes:
/// the checksums tell. Several ranks may write files of one checkpoint; one publishes it.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::filesystem::path directory) : directory_(std::move(directory)) {}

  /// Steps of the checkpoints there are, newest first.
  std::vector<std::int64_t> steps() const;
  std::filesystem::path path_of(std::int64_t step) const;

  /// Reads checkpoint.json and compares all checksums. UsageError with the reason for a checkpoint
  /// that is truncated, changed or something else.
  CheckpointInfo check(std::int64_t step) const;
  /// UsageError: see load_safetensors.
  NamedTensors read(std::int64_t step, const std::string& file) const;

  /// Writes one file of a checkpoint that is not published yet. Returns and throws what
  /// save_safetensors does.
  Checksum write(std::int64_t step, const std::string& file, const NamedTensors& tensors) const;
  /// Whether write() has ended for that file, on any rank.
  bool written(std::int64_t step, const std::string& file) const;
  /// Forgets what write() has written of that step.
  void discard(std::int64_t step) const;
  /// Adds the checksums of those `files` that `info` lacks, because other ranks wrote them, and
  /// gives the checkpoint its name, in place of those of this step and of later ones: they are of a
  /// past that this run does not continue. Then removes all but the newest `keep` (0: none). Error:
  /// cannot write.
  void publish(CheckpointInfo info, const std::vector<std::string>& files, std::size_t keep) const;
  /// Removes what has been begun and not published. Nobody may be writing.
  void remove_unfinished() const;

 private:
  std::filesystem::path temporary(std::int64_t step) const;
  void remove(std::int64_t step) const;

  std::filesystem::path directory_;
};

}  // namespace brigade
