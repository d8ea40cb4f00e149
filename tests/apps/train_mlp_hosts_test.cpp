// Ranks on several pretend hosts, whose links have a rate, end with the weights of one rank.
#include <gmock/gmock.h>

#include <string>

#include "tests/support/compare_weights.h"
#include "tests/support/pretend_hosts.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using test::Outcome;
using testing::HasSubstr;

class TrainMlpHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = test::obstacle_to_pretend_hosts(); !reason.empty()) {
      GTEST_SKIP() << "no shaped links: " << reason;
    }
  }

  /// A training of 60 samples per step, over `comm`; returns where its weights are.
  std::filesystem::path train(const std::string& launcher, const std::string& comm,
                              const std::string& expected) const {
    const std::string file = comm + ".safetensors";
    const Outcome outcome = test::run_program(
        launcher + BRIGADE_TRAIN_MLP,
        "--hidden 64,48 --global-batch 60 --steps 10 --threads 1 --seed 3 --optimizer adam --lr "
        "0.01 --comm " +
            comm + " --save " + file,
        0, dir_.path());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(expected));
    return dir_.path() / file;
  }

  TemporaryDirectory dir_;
};

TEST_F(TrainMlpHosts, SixEndLikeOneRank) {
  const std::filesystem::path alone = train("", "mpi", "1 on 1 host");
  const std::string six = test::netlab() + " run --hosts 6 --rate 300mbit -- ";
  for (const char* comm : {"ring", "hierarchical"}) {
    EXPECT_LT(relative_l2(train(six, comm, "6 on 6 hosts"), alone), 1e-6) << comm;
  }
  const std::string pairs = test::netlab() + " run --hosts 3 -np 6 --pin none --rate 300mbit -- ";
  EXPECT_LT(relative_l2(train(pairs, "auto", "ring between nodes, shared memory"), alone), 1e-6);
}

}  // namespace
}  // namespace brigade
