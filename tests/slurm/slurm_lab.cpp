#include "tests/slurm/slurm_lab.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/pretend_hosts.h"

namespace brigade::test {
namespace {

constexpr const char* kLab = BRIGADE_SOURCE_DIR "/scripts/slurmlab.sh";

/// The rest of the line behind `key`.
std::string behind(const std::string& key, const std::string& text) {
  const std::size_t at = text.rfind(key);
  if (at == std::string::npos) {
    return "";
  }
  const std::size_t begin = at + key.size();
  return text.substr(begin, text.find_first_of(" \n", begin) - begin);
}

}  // namespace

SlurmLab::SlurmLab()
    : name_("SLURMLAB", "test" + std::to_string(::getpid())),
      program_("BRIGADE_TRAIN", (dir_ / "train").string()) {
  std::ofstream(dir_ / "train") << "#!/bin/sh\nexec " BRIGADE_TRAIN_MLP " \"$@\" $(cat "
                                << (dir_ / "more").string() << ")\n";
  std::filesystem::permissions(dir_ / "train", std::filesystem::perms::all);
  set_more_flags("");
}

void SlurmLab::SetUp() {
  const std::string remove = command_to_remove_old_labs("slurmlab.sh", "SLURMLAB", "test",
                                                        "${TMPDIR:-/tmp}/slurmlab.test");
  if (std::system(remove.c_str()) != 0) {
    GTEST_SKIP() << "the lab of a test that was killed needs root to be removed";
  }
  const Outcome up = lab("up --nodes 3");
  for (const char* reason : {"needs root", "is not installed", "no network namespaces"}) {
    if (up.exit_code != 0 && count(up.err, reason) != 0) {
      GTEST_SKIP() << up.err;
    }
  }
  ASSERT_EQ(up.exit_code, 0) << up.err;
  is_up_ = true;
}

void SlurmLab::TearDown() {
  if (is_up_) {
    EXPECT_EQ(lab("down").exit_code, 0);
  }
}

Outcome SlurmLab::lab(const std::string& arguments) const {
  return run_program(kLab, arguments, 0, dir_.path());
}

Outcome SlurmLab::srun(const std::string& flags_of_srun, const std::string& flags) const {
  return lab("run srun --nodes=3 --ntasks-per-node=2 " + flags_of_srun +
             " " BRIGADE_TRAIN_MLP " --threads 1 " + flags);
}

std::string SlurmLab::submit(const std::string& flags_of_sbatch, const std::string& flags) const {
  const Outcome outcome =
      lab("run sbatch --parsable --nodes=3 --ntasks-per-node=2 " + flags_of_sbatch +
          " " BRIGADE_SOURCE_DIR "/scripts/cluster/train.sbatch " + flags);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.out.substr(0, outcome.out.find('\n'));
}

std::string SlurmLab::field(const std::string& job, const std::string& name) const {
  return behind(name + "=", lab("run scontrol show job " + job).out);
}

std::string SlurmLab::log(const std::string& job) const {
  return read(dir_ / ("slurm-" + job + ".log"));
}

bool SlurmLab::await(const std::string& job, const std::function<bool()>& what) const {
  constexpr std::chrono::milliseconds kPause{300};
  while (!what()) {
    const std::string state = field(job, "JobState");
    if (state == "COMPLETED" || state == "FAILED" || state == "TIMEOUT" || state == "CANCELLED") {
      return what();
    }
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

std::string SlurmLab::end_of(const std::string& job) const {
  await(job, [] { return false; });
  return field(job, "JobState");
}

void SlurmLab::set_more_flags(const std::string& flags) const {
  std::ofstream(dir_ / "more") << flags;
}

std::string hash_in(const std::string& text) {
  return behind("parameters equal on all ranks: ", text);
}

}  // namespace brigade::test
