// Each warning, from invented facts.
#include <gmock/gmock.h>

#include "apps/doctor/doctor.h"

namespace brigade::apps {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Ranks = std::vector<RankFacts>;

RankFacts fine(int rank, int node) {
  RankFacts facts;
  facts.rank = rank;
  facts.node = node;
  facts.host = "h" + std::to_string(node);
  facts.device = "cpu";
  facts.cpu = "EPYC";
  facts.libraries = "MPI 4";
  facts.program = "program 17";
  facts.cores = {std::to_string(rank)};
  facts.transport = "eth0";
  facts.interfaces = {"eth0"};
  facts.shared_mib = 64.0;
  facts.locked_mib = 8.0;
  return facts;
}

/// With a GPU of its own.
RankFacts fine_on_gpu(int rank, int node) {
  RankFacts facts = fine(rank, node);
  facts.device = "cuda:0";
  facts.gpu = "uuid" + std::to_string(rank);
  facts.transport = "NCCL 2.28.9";
  facts.locked_mib = 64.0;
  facts.shared_mib = 128.0;
  return facts;
}

const Ranks kOneHost{fine(0, 0), fine(1, 0)};
const Ranks kTwoHosts{fine(0, 0), fine(1, 1)};
const Ranks kGpus{fine_on_gpu(0, 0), fine_on_gpu(1, 0)};
const Ranks kGpuHosts{fine_on_gpu(0, 0), fine_on_gpu(1, 1)};

/// The warnings after `change` was made to the last rank.
template <class Change>
std::vector<std::string> after(Ranks ranks, Change change) {
  change(ranks.back());
  return warnings_of(ranks, /*with_gpus=*/true);
}

/// As if there were one rank and one host.
template <class Change>
std::vector<std::string> alone_after(const Ranks& ranks, Change change) {
  return after(Ranks{ranks[0]}, change);
}

TEST(Warnings, AreNoneWhereAllIsWell) {
  for (const Ranks& ranks : {Ranks{fine(0, 0)}, kOneHost, kTwoHosts, kGpus, kGpuHosts}) {
    EXPECT_THAT(warnings_of(ranks, /*with_gpus=*/true), IsEmpty());
  }
}

TEST(Warnings, OfRanksThatDifferFromRankZero) {
  EXPECT_THAT(after(kTwoHosts, [](RankFacts& facts) { facts.program = "program 18"; }),
              ElementsAre("rank 1 (h1) has program 18, rank 0 (h0) has program 17: copy one build "
                          "to all hosts"));
  EXPECT_THAT(after(kTwoHosts, [](RankFacts& facts) { facts.libraries = "MPI 5"; }),
              ElementsAre("rank 1 (h1) has MPI 5, rank 0 (h0) has MPI 4: use equal versions, CPUs "
                          "and --threads on all ranks"));
  EXPECT_THAT(after(kTwoHosts, [](RankFacts& facts) { facts.cpu = "Xeon"; }),
              ElementsAre("rank 1 (h1) has Xeon, rank 0 (h0) has EPYC: choose hosts of one kind, "
                          "the slowest sets the pace"));
}

TEST(Warnings, NameTheFirstOfSeveralThatNeedTheSame) {
  Ranks ranks{fine(0, 0), fine(1, 1), fine(2, 2)};
  ranks[1].cpu = "Xeon";
  ranks[2].cpu = "Xeon";
  EXPECT_THAT(warnings_of(ranks, true),
              ElementsAre("rank 1 (h1) has Xeon, rank 0 (h0) has EPYC: choose hosts of one kind, "
                          "the slowest sets the pace"));
}

TEST(Warnings, OfMoreThreadsThanCores) {
  EXPECT_THAT(after(kOneHost, [](RankFacts& facts) { facts.cores = {"0"}; }),
              ElementsAre("h0: 2 ranks compute with 2 threads, usable cores 1: start only 1 "
                          "(mpirun --map-by ppr:1:node), or use more cores"));
  EXPECT_THAT(after(kOneHost, [](RankFacts& facts) { facts.threads = 2; }),
              ElementsAre("h0: 2 ranks compute with 3 threads, usable cores 2: train with "
                          "--threads 1"));
  EXPECT_THAT(after(kTwoHosts, [](RankFacts& facts) { facts.cores = {"0"}; }), IsEmpty())
      << "core 0 of another host";
}

TEST(Warnings, OfACpuQuota) {
  Ranks ranks = kOneHost;
  ranks[0].cpu_quota = ranks[1].cpu_quota = 1.5;
  EXPECT_THAT(warnings_of(ranks, true),
              ElementsAre("h0: 2 ranks compute with 2 threads, usable cores 1: start only 1 "
                          "(mpirun --map-by ppr:1:node), or use more cores"));
  ranks[0].cpu_quota = ranks[1].cpu_quota = 2.0;
  EXPECT_THAT(warnings_of(ranks, true), IsEmpty());
  ranks.pop_back();
  ranks[0].cpu_quota = 0.5;
  EXPECT_THAT(warnings_of(ranks, true), IsEmpty()) << "no fewer ranks would help";
}

TEST(Warnings, OfRanksOnOneGpu) {
  const auto share = [](RankFacts& facts) { facts.gpu = "uuid0"; };
  EXPECT_THAT(
      after(kGpus, share),
      ElementsAre("h0: 2 ranks on 1 GPU, timings mean nothing: start one rank per GPU (mpirun "
                  "--map-by ppr:1:node)"));
  Ranks ranks = kGpus;
  share(ranks[1]);
  EXPECT_THAT(warnings_of(ranks, /*with_gpus=*/false), IsEmpty());
}

TEST(Warnings, OfLittleSharedMemory) {
  Ranks ranks = kOneHost;
  ranks[0].shared_mib = 15.0;
  EXPECT_THAT(warnings_of(ranks, true),
              ElementsAre("h0: /dev/shm has 15 MiB free, 2 ranks may need 16: mount -o "
                          "remount,size=1G /dev/shm (docker run --shm-size=1g)"));
  ranks = kGpus;
  ranks[0].shared_mib = 64.0;
  EXPECT_THAT(warnings_of(ranks, true),
              ElementsAre("h0: /dev/shm has 64 MiB free, 2 ranks may need 128: mount -o "
                          "remount,size=1G /dev/shm (docker run --shm-size=1g)"));
}

TEST(Warnings, OfLittleLockedMemoryWhereItMatters) {
  constexpr const char* kLine =
      "h0: a rank can lock 8 MiB, RDMA needs more: ulimit -l unlimited (docker run --ulimit "
      "memlock=-1)";
  Ranks ranks = kGpus;
  ranks[0].locked_mib = 8.0;
  EXPECT_THAT(warnings_of(ranks, true), ElementsAre(kLine));
  ranks = kOneHost;
  ranks[0].has_infiniband = true;
  EXPECT_THAT(warnings_of(ranks, true), ElementsAre(kLine));
}

TEST(Warnings, OfInfiniBandThatIsNotUsed) {
  const auto has_it = [](RankFacts& facts) {
    facts.has_infiniband = true;
    facts.locked_mib = 64.0;
  };
  EXPECT_THAT(after(kTwoHosts, has_it),
              ElementsAre("h1 has InfiniBand, but gradients travel over TCP: use --comm mpi and "
                          "mpirun --mca pml ucx"));
  EXPECT_THAT(alone_after(kOneHost, has_it), IsEmpty()) << "nothing leaves the host";
  EXPECT_THAT(after(kGpuHosts, has_it), IsEmpty()) << "NCCL uses it";
}

TEST(Warnings, OfInterfacesAmongWhichNcclMayChooseWrongly) {
  const auto with_docker = [](RankFacts& facts) { facts.interfaces = {"eno1", "docker0"}; };
  EXPECT_THAT(after(kGpuHosts, with_docker),
              ElementsAre("h1: NCCL has to guess among eno1, docker0: mpirun -x "
                          "NCCL_SOCKET_IFNAME=eno1"));
  EXPECT_THAT(after(kTwoHosts, with_docker), IsEmpty()) << "no NCCL";
  EXPECT_THAT(alone_after(kGpus, with_docker), IsEmpty()) << "one host";
  EXPECT_THAT(after(kGpuHosts,
                    [&](RankFacts& facts) {
                      with_docker(facts);
                      facts.nccl_interfaces = "eno1";
                    }),
              IsEmpty());
}

TEST(Warnings, OfAHostWhoseNameIsALoopbackAddress) {
  const auto name = [](RankFacts& facts) { facts.loopback_name = "127.0.1.1"; };
  EXPECT_THAT(after(kTwoHosts, name),
              ElementsAre("h1 is 127.0.1.1 in its /etc/hosts: write the address there that other "
                          "hosts reach"));
  EXPECT_THAT(alone_after(kOneHost, name), IsEmpty());
}

TEST(Warnings, OfAClockThatIsOff) {
  EXPECT_THAT(after(kTwoHosts, [](RankFacts& facts) { facts.clock_ms = -2500.0; }),
              ElementsAre("h1: clock -2500 ms off rank 0's: start chrony there"));
  EXPECT_THAT(after(kTwoHosts, [](RankFacts& facts) { facts.clock_ms = 50.0; }), IsEmpty());
}

}  // namespace
}  // namespace brigade::apps
