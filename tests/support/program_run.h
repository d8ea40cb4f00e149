#pragma once

#include <filesystem>
#include <string>

namespace brigade::test {

/// How a program ended and what it printed.
struct Outcome {
  int exit_code = 0;
  std::string out;
  std::string err;
  double seconds = 0.0;
};

/// Runs `program flags` in `directory`, under mpirun with `ranks` ranks; 0 ranks: without mpirun.
Outcome run_program(const std::string& program, const std::string& flags, int ranks,
                    const std::filesystem::path& directory);

/// Flags with which train_mlp trains in next to no time.
inline constexpr const char* kTiny = "--hidden 8,8 --steps 6 --batch 4 --train-samples 64 ";

/// The whole file.
std::string read(const std::filesystem::path& path);

/// How often `word` occurs.
int count(const std::string& text, const std::string& word);

/// Lines of ranks on stderr, but for warnings that depend on the host of the test: more threads
/// than cores, and little shared memory.
int count_reports(const std::string& err);

}  // namespace brigade::test
