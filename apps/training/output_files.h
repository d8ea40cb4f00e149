#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/flags/options.h"
#include "dist/comm/communicator.h"

/// The directory of a run and the files in it.
namespace brigade::apps {

/// Makes the directory for a run's files on rank 0 and tells the others its name. Collective.
std::filesystem::path agree_on_directory(const Options& options, dist::Communicator& comm);

/// Writes config.toml, with which --config repeats the run. Call it after all checks: it overwrites
/// that of an earlier run.
void write_config(const Options& options, const std::filesystem::path& directory);
inline constexpr const char* kConfig = "config.toml";

/// UsageError if one of the files cannot be created, or two have the same path: now, and not after
/// hours of training.
void check_output_files(const std::vector<std::filesystem::path>& files);

/// Writes the files at the end of a run. If one cannot be written, the others still are, and
/// check() throws.
class OutputFiles {
 public:
  void write(const std::filesystem::path& file, const std::function<void()>& how);
  void write(const std::filesystem::path& file, const std::string& content);
  /// Another function has written `file`.
  void note(const std::filesystem::path& file) { written_.push_back(file); }
  const std::vector<std::string>& written() const { return written_; }
  /// Throws the first Error of any.
  void check() const;

 private:
  std::vector<std::string> written_;
  std::exception_ptr failure_;
};

}  // namespace brigade::apps
