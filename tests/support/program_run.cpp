#include "tests/support/program_run.h"

#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace brigade::test {
namespace {

constexpr const char* kMpirun =
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "OMPI_MCA_rmaps_base_oversubscribe=1 " BRIGADE_MPIEXEC " --bind-to none -np ";

}  // namespace

Outcome run_program(const std::string& program, const std::string& flags, int ranks,
                    const std::filesystem::path& directory) {
  const std::string launcher = ranks == 0 ? "" : kMpirun + std::to_string(ranks) + " ";
  const std::string command = "cd " + directory.string() + " && OPENBLAS_NUM_THREADS=1 " +
                              launcher + program + " " + flags + " >out 2>err";
  const auto begin = std::chrono::steady_clock::now();
  const int status = std::system(command.c_str());
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return {WEXITSTATUS(status), read(directory / "out"), read(directory / "err"), taken.count()};
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) {
    ++found;
  }
  return found;
}

int count_reports(const std::string& err) {
  return count(err, "[rank ") - count(err, ", usable cores ") - count(err, "/dev/shm has ");
}

}  // namespace brigade::test
