#include "apps/training/output_files.h"

#include <fmt/format.h>

#include <set>
#include <system_error>

#include "core/error.h"
#include "core/io/atomic_file.h"
#include "dist/comm/gather.h"

namespace brigade::apps {
namespace {

/// Makes the directory for a run's files: `requested`, or the first free runs/<n>.
std::filesystem::path make_run_directory(const std::string& requested) {
  std::error_code error;
  if (!requested.empty()) {
    std::filesystem::create_directories(requested, error);
    if (error) {
      throw UsageError(
          fmt::format("--out {}: cannot make the directory: {}", requested, error.message()));
    }
    return requested;
  }
  std::filesystem::create_directories("runs", error);
  // create_directory is mkdir: of two runs that try the same number only one succeeds.
  for (int n = 1; !error; ++n) {
    std::filesystem::path candidate = std::filesystem::path("runs") / std::to_string(n);
    if (std::filesystem::create_directory(candidate, error)) {
      return candidate;
    }
  }
  throw UsageError(fmt::format(
      "runs: cannot make a directory for this run: {}; choose another place with --out DIR",
      error.message()));
}

}  // namespace

void check_output_files(const std::vector<std::filesystem::path>& files) {
  std::set<std::filesystem::path> places;
  for (const std::filesystem::path& file : files) {
    const AtomicFile attempt(file);
    const std::filesystem::path directory = file.has_parent_path() ? file.parent_path() : ".";
    if (!places.insert(canonical(directory) / file.filename()).second) {
      throw UsageError(fmt::format(
          "cannot write {}: expected a place of its own, but this run writes another file there",
          file.string()));
    }
  }
}

void OutputFiles::write(const std::filesystem::path& file, const std::function<void()>& how) {
  try {
    how();
    written_.push_back(file);
  } catch (const Error&) {
    failure_ = failure_ ? failure_ : std::current_exception();
  }
}

void OutputFiles::write(const std::filesystem::path& file, const std::string& content) {
  write(file, [&] { write_file_atomically(file, content); });
}

void OutputFiles::check() const {
  if (failure_) {
    std::rethrow_exception(failure_);
  }
}

std::filesystem::path agree_on_directory(const Options& options, dist::Communicator& comm) {
  std::string path;
  if (comm.rank() == 0) {
    path = make_run_directory(options.out).string();
  }
  return dist::all_gather_sequences(comm, path).front();
}

void write_config(const Options& options, const std::filesystem::path& directory) {
  write_file_atomically(directory / kConfig, fmt::format("{}\n", fmt::join(options.config, "\n")));
}

}  // namespace brigade::apps
