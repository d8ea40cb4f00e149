// scripts/cluster/hostfile.sh, as it is, on two pretend hosts: the second is reached by ssh alone.
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>

#include "tests/support/environment.h"
#include "tests/support/pretend_hosts.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using test::Outcome;
using testing::ContainsRegex;
using testing::HasSubstr;

class HostfileRecipe : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = test::obstacle_to_pretend_hosts(); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
    if (::access("/usr/sbin/sshd", X_OK) != 0) {
      GTEST_SKIP() << "no sshd: apt-get install openssh-server";
    }
    write_keys();
    write_hostfile("h1 slots=2\nh2 slots=2\n");
    ASSERT_EQ(netlab("up --hosts 2 --rate none").exit_code, 0);
    is_up_ = true;
    // Debian's sshd wants this directory. It is made in a file system that only this host sees.
    const std::string key = (dir_ / "key").string();
    const Outcome sshd = on_host(
        2, "mount -t tmpfs none /run && mkdir /run/sshd && /usr/sbin/sshd -f /dev/null -h " + key +
               " -o AuthorizedKeysFile=" + key +
               ".pub -o PermitRootLogin=yes -o StrictModes=no -o PidFile=none");
    ASSERT_EQ(sshd.exit_code, 0) << sshd.err;
    if (const Outcome ssh = on_first("ssh -o BatchMode=yes h2 true"); ssh.exit_code != 0) {
      GTEST_SKIP() << "root cannot log in by ssh: " << ssh.err;
    }
  }
  void TearDown() override {
    if (is_up_) {
      EXPECT_EQ(netlab("down").exit_code, 0);
    }
  }

  void write_keys() const {
    const std::string key = (dir_ / "key").string();
    ASSERT_EQ(std::system(("ssh-keygen -q -t ed25519 -N '' -f " + key).c_str()), 0);
    std::filesystem::create_directory(dir_ / "ssh");
    std::ofstream(dir_ / "ssh" / "lab.conf") << "IdentitiesOnly yes\nIdentityFile " << key
                                             << "\nStrictHostKeyChecking no\n"
                                                "UserKnownHostsFile /dev/null\nLogLevel ERROR\n";
  }
  void write_hostfile(const std::string& hosts) const { std::ofstream(dir_ / "hosts") << hosts; }

  Outcome netlab(const std::string& arguments) const {
    return test::run_program(test::netlab(), arguments, 0, dir_.path());
  }
  Outcome on_host(int host, const std::string& commands) const {
    return netlab("exec " + std::to_string(host) + " -- sh -c '" + commands + "'");
  }
  /// On the first host, by somebody whose ssh knows the key.
  Outcome on_first(const std::string& command) const {
    return on_host(1, "mount --bind ssh /etc/ssh/ssh_config.d && exec timeout -k 5 90 " + command);
  }
  /// The recipe.
  Outcome train(const std::string& flags) const {
    return on_first(
        "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " BRIGADE_SOURCE_DIR
        "/scripts/cluster/hostfile.sh hosts --hidden 8,8 --eval-every 0 " +
        flags);
  }

  TemporaryDirectory dir_;

 private:
  test::EnvironmentVariable program_{"BRIGADE_TRAIN", BRIGADE_TRAIN_MLP};
  bool is_up_ = false;
};

TEST_F(HostfileRecipe, TrainsOnAllHosts) {
  const Outcome outcome = train("--steps 6");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("4 on 2 hosts"));
  EXPECT_THAT(outcome.out, HasSubstr("hierarchical 2 x 2"));
  EXPECT_THAT(outcome.out, HasSubstr("parameters equal on all ranks"));
}

TEST_F(HostfileRecipe, AddsInARingWhereHostsHaveDifferentNumbersOfRanks) {
  write_hostfile("h1 slots=2\nh2 slots=1\n");
  const Outcome outcome = train("--steps 6");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("comm  .*, ring\n"));
}

// Its link is cut: after 30 s mpirun takes it for lost. Then its line is taken out of HOSTFILE.
TEST_F(HostfileRecipe, ContinuesOnOneHostAfterTheOtherWasLost) {
  std::future<Outcome> training = std::async(std::launch::async, [this] {
    return train(
        "--steps 5000 --global-batch 16 --checkpoint-every 5 --keep 0 --inject slow:ms=20");
  });
  constexpr std::chrono::milliseconds kPause{100};
  while (!std::filesystem::exists(dir_ / "runs/hostfile/checkpoints/step-000000005") &&
         training.wait_for(kPause) == std::future_status::timeout) {
  }
  TemporaryDirectory elsewhere;  // each program's output goes to its directory
  const Outcome cut =
      test::run_program(test::netlab(), "exec 2 -- ip link set eth0 down", 0, elsewhere.path());
  EXPECT_EQ(cut.exit_code, 0) << cut.err;
  const Outcome lost = training.get();
  EXPECT_NE(lost.exit_code, 0);
  EXPECT_THAT(lost.err, HasSubstr("[rank 0] watch: ranks 2 and 3 do not answer"));
  EXPECT_LT(lost.seconds, 60.0);
  write_hostfile("h1 slots=2\n");
  const Outcome outcome = train("--steps 2000 --global-batch 16");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 on 1 host"));
  EXPECT_THAT(outcome.err, ContainsRegex("checkpoint: continues after step [1-9]"));
}

TEST_F(HostfileRecipe, TellsOfAWrongFlagOnceAndSoon) {
  const Outcome outcome = train("--stepz 6");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(test::count(outcome.err, "unknown flag --stepz"), 1) << outcome.err;
  EXPECT_LT(outcome.seconds, 40.0);
}

TEST_F(HostfileRecipe, EndsWhereAHostCannotBeReached) {
  write_hostfile("h1 slots=2\nh3 slots=2\n");
  const Outcome outcome = train("--steps 6");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("h3"));
  EXPECT_EQ(outcome.out, "");
}

TEST_F(HostfileRecipe, NeedsAHostfile) {
  std::filesystem::remove(dir_ / "hosts");
  const Outcome outcome = train("");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "hostfile: expected a hostfile that can be read, got 'hosts'\n");
}

}  // namespace
}  // namespace brigade
