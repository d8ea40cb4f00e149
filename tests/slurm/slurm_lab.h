#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/support/environment.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade::test {

/// Each test has a pretend Slurm cluster of three nodes (scripts/slurmlab.sh) and a directory that
/// all nodes see. Skipped, with the lab's own reason, where there can be none.
class SlurmLab : public testing::Test {
 protected:
  SlurmLab();
  void SetUp() override;
  void TearDown() override;

  Outcome lab(const std::string& arguments) const;
  /// train_mlp on three nodes with two ranks each.
  Outcome srun(const std::string& flags_of_srun, const std::string& flags) const;

  /// Submits scripts/cluster/train.sbatch, on three nodes with two ranks each; returns its number.
  std::string submit(const std::string& flags_of_sbatch, const std::string& flags) const;
  /// What `scontrol show job` says of one thing, such as JobState.
  std::string field(const std::string& job, const std::string& name) const;
  std::string log(const std::string& job) const;
  /// Looks until `what` is true or the job has ended; false if it has not become true.
  bool await(const std::string& job, const std::function<bool()>& what) const;
  /// The state in which the job ends.
  std::string end_of(const std::string& job) const;

  /// Flags for train_mlp that are not in the recipe's command: read again at each start of a job.
  void set_more_flags(const std::string& flags) const;

  TemporaryDirectory dir_;

 private:
  EnvironmentVariable name_;
  EnvironmentVariable program_;
  bool is_up_ = false;
};

/// What a run has ended with: the hash of all parameters that train_mlp prints.
std::string hash_in(const std::string& text);

}  // namespace brigade::test
