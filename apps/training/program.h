#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/flags/options.h"
#include "dist/comm/communicator.h"
#include "dist/launch/launch.h"

/// What all programs do before and after their own work.
namespace brigade::apps {

/// The whole of main(): parses the flags before MPI starts, runs `body` on every rank, and turns
/// whatever goes wrong into one line and an exit code (dist::run_main).
int run_program(int argc, char** argv, Program program,
                const std::function<int(const Options&, const dist::RankInfo&)>& body);

/// For programs with flags of their own: what main() returns when it is over before MPI starts.
/// Rank 0 prints and leaves, which makes mpirun end the others before they print the same.
int leave_early(const std::string& text, int exit_code);

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
  const std::vector<std::string>& written() const { return written_; }
  /// Throws the first Error of any.
  void check() const;

 private:
  std::vector<std::string> written_;
  std::exception_ptr failure_;
};

}  // namespace brigade::apps
