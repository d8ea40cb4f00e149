// Ranks on several pretend hosts, whose links have a rate, end with the weights of one rank.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/compare_weights.h"
#include "tests/support/pretend_hosts.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using test::Outcome;
using testing::HasSubstr;
using testing::Not;

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

TEST_F(TrainMlpHosts, OneWithASlowLinkIsNamed) {
  const auto warning = [this](const std::string& out) {
    const Outcome outcome = test::run_program(
        test::netlab() + " run -- " + BRIGADE_TRAIN_MLP,
        "--depth 4 --width 256 --steps 8 --threads 1 --eval-every 0 --out " + out, 0, dir_.path());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.err;
  };
  const auto lab = [this](const std::string& command) {
    EXPECT_EQ(test::run_program(test::netlab(), command, 0, dir_.path()).exit_code, 0) << command;
  };
  lab("up --hosts 4 --rate 100mbit");
  EXPECT_THAT(warning("alike"), Not(HasSubstr("slow links")));
  lab("exec 3 -- tc qdisc replace dev eth0 root handle 1: tbf rate 25mbit burst 128kb limit 4mb");
  EXPECT_THAT(warning("slow"), HasSubstr("warning: the host of rank 2 has slow links: a message"));
  std::ifstream summary(dir_.path() / "slow" / "summary.json");
  const auto straggler = nlohmann::json::parse(summary)["straggler"];
  EXPECT_EQ(straggler["rank"], 2);
  EXPECT_EQ(straggler["reason"], "network");
  EXPECT_NEAR(straggler["ms"].get<double>(), 512 * 1024 * 8 / 25e3, 40.0);
  lab("down");
}

}  // namespace
}  // namespace brigade
