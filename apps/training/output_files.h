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

/// Writes config.toml, with which --config repeats the run. To be called when nothing can be wrong
/// any more but the run itself: an earlier run's is lost.
void write_config(const Options& options, const std::filesystem::path& directory);
inline constexpr const char* kConfig = "config.toml";

/// Refuses places that would only turn out to be no files after hours of work, and two files in
/// one place.
void check_output_files(const std::vector<std::filesystem::path>& files);

/// The files that a run ends with. One that cannot be written keeps none of the others from it.
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
