#include "apps/flags/options.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "nn/data/sampler.h"

namespace brigade::apps {
namespace {

using ::testing::HasSubstr;

ParseResult parse(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "train_mlp");
  return parse_options(static_cast<int>(flags.size()), flags.data());
}

Options parsed(const std::vector<const char*>& flags) {
  const ParseResult result = parse(flags);
  EXPECT_TRUE(result.options.has_value()) << result.text;
  return result.options.value_or(Options{});
}

/// The one line that is printed for flags that are wrong.
std::string complaint(const std::vector<const char*>& flags) {
  const ParseResult result = parse(flags);
  EXPECT_FALSE(result.options.has_value());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(std::count(result.text.begin(), result.text.end(), '\n'), 1);
  return result.text;
}

TEST(Options, HelpFitsOnAScreen) {
  const ParseResult help = parse({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_LE(std::count(help.text.begin(), help.text.end(), '\n'), 83);
  EXPECT_THAT(help.text, HasSubstr("Examples:"));
}

TEST(Options, TheLearningRateDependsOnTheOptimizer) {
  EXPECT_DOUBLE_EQ(parsed({}).lr, 0.1);
  EXPECT_DOUBLE_EQ(parsed({"--optimizer", "adam"}).lr, 0.001);
  EXPECT_DOUBLE_EQ(parsed({"--optimizer", "adam", "--lr", "0.5"}).lr, 0.5);
}

TEST(Options, TheLastOfARepeatedFlagWins) {
  EXPECT_EQ(parsed({"--batch", "1", "--batch", "2", "--json", "--json"}).batch, 2);
  EXPECT_EQ(parsed({"--hidden", "4,4", "--hidden", "8"}).hidden, (std::vector<std::int64_t>{8}));
}

TEST(Options, DepthCountsLinearLayers) {
  const Options o = parsed({"--depth", "3", "--width", "16"});
  EXPECT_EQ(o.hidden, (std::vector<std::int64_t>{16, 16}));
  EXPECT_EQ(o.synthetic_in, 16);
  EXPECT_EQ(o.synthetic_out, 16);
  EXPECT_TRUE(parsed({"--depth", "1", "--width", "16"}).hidden.empty());
}

TEST(Options, TheShapeNamedLastWins) {
  EXPECT_EQ(parsed({"--hidden", "7", "--depth", "2", "--width", "5"}).hidden,
            (std::vector<std::int64_t>{5}));
  EXPECT_EQ(parsed({"--depth", "2", "--width", "5", "--hidden", "7"}).hidden,
            (std::vector<std::int64_t>{7}));
  EXPECT_EQ(complaint({"--depth", "2"}),
            "train_mlp: --depth and --width: expected both, got only --depth\n");
}

TEST(Options, UnknownFlagsComeWithASuggestion) {
  EXPECT_EQ(complaint({"--bacth", "4"}),
            "train_mlp: unknown flag --bacth; did you mean --batch?\n");
  EXPECT_EQ(complaint({"--momentun=0.9"}),
            "train_mlp: unknown flag --momentun; did you mean --momentum?\n");
  EXPECT_EQ(complaint({"--xyzzy-frobnicate"}),
            "train_mlp: unknown flag --xyzzy-frobnicate; --help lists the flags\n");
  EXPECT_THAT(complaint({"naive"}), HasSubstr("unknown argument naive"));
}

TEST(Options, ValuesAreChecked) {
  EXPECT_THAT(complaint({"--lr", "fast"}), HasSubstr("--lr: expected a number"));
  EXPECT_THAT(complaint({"--init", ""}), HasSubstr("--init: expected a name, got \"\""));
  EXPECT_THAT(complaint({"--mode", "overlp"}), HasSubstr("did you mean overlap?"));
  EXPECT_THAT(complaint({"--nesterov"}), HasSubstr("--momentum"));
  complaint({"--steps"});
}

TEST(Options, FlagsThatWouldDoNothingAreRefused) {
  EXPECT_EQ(complaint({"--optimizer", "adam", "--momentum", "0.9"}),
            "train_mlp: --momentum: expected --optimizer sgd, got adam\n");
  EXPECT_EQ(complaint({"--optimizer", "adam", "--momentum", "0.9", "--nesterov"}),
            "train_mlp: --nesterov: expected --optimizer sgd, got adam\n");
  EXPECT_EQ(complaint({"--data-dir", "files"}),
            "train_mlp: --data-dir: expected --data fashion-mnist, got synthetic, which has no "
            "files\n");
  EXPECT_EQ(complaint({"--sync", "never", "--emulate-link", "50,1"}),
            "train_mlp: --sync never: no gradient leaves its rank; leave out --emulate-link\n");
  EXPECT_EQ(complaint({"--sync", "never", "--reduce", "deterministic"}),
            "train_mlp: --sync never: no gradient leaves its rank; leave out --reduce "
            "deterministic\n");
}

TEST(Options, AnEmulatedLinkIsALatencyAndABandwidth) {
  EXPECT_FALSE(parsed({}).emulated_link.has_value());
  const Options o = parsed({"--emulate-link", "50,1.5"});
  ASSERT_TRUE(o.emulated_link.has_value());
  EXPECT_DOUBLE_EQ(o.emulated_link->alpha_us, 50.0);
  EXPECT_DOUBLE_EQ(o.emulated_link->gbps, 1.5);
  EXPECT_THAT(o.agreement(), ::testing::Contains("--emulate-link 50,1.5"));
  EXPECT_THAT(parsed({}).agreement(), ::testing::Contains("--emulate-link off"));

  EXPECT_EQ(complaint({"--emulate-link", "50"}),
            "train_mlp: --emulate-link: expected a latency in us and a bandwidth in GB/s, such as "
            "50,1, got \"50\"\n");
  EXPECT_EQ(complaint({"--emulate-link=-1,1"}),
            "train_mlp: --emulate-link (latency in us): expected a number from 0 to 1e+06, got "
            "\"-1\"\n");
  EXPECT_THAT(complaint({"--emulate-link", "50,0"}),
              HasSubstr("--emulate-link (bandwidth in GB/s): expected a number from 0.001 up"));
  EXPECT_THAT(complaint({"--emulate-link", "slow,fast"}), HasSubstr("got \"slow\""));
}

TEST(Options, ReductionAndCommunicatorAreChosenFreely) {
  EXPECT_EQ(parsed({}).reduce, "fast");
  EXPECT_EQ(parsed({}).comm, "auto");
  for (const char* comm : {"auto", "mpi", "nccl", "ring", "halving", "tree"}) {
    const Options o = parsed({"--comm", comm, "--reduce", "deterministic", "--trace-ring"});
    EXPECT_EQ(o.comm, comm);
    EXPECT_EQ(o.reduce, "deterministic");
    EXPECT_TRUE(o.trace_ring);
    EXPECT_THAT(o.agreement(), ::testing::IsSupersetOf({std::string("--reduce deterministic"),
                                                        std::string("--trace-ring on")}));
  }
  EXPECT_THAT(complaint({"--comm", "rings"}), HasSubstr("did you mean ring?"));
  EXPECT_THAT(complaint({"--reduce", "slow"}), HasSubstr("--reduce"));
}

TEST(Options, UpdatesInFlightAreRefusedWhereTheyCannotWork) {
  for (const char* flag : {"--optimizer-overlap", "--cross-step"}) {
    EXPECT_THAT(complaint({flag, "--accum", "2"}),
                HasSubstr(std::string(flag) +
                          " with --accum 2: in mode overlap every micro-batch synchronises"));
    EXPECT_THAT(complaint({flag, "--clip-norm", "1"}), HasSubstr("expected no --clip-norm"));
    EXPECT_THAT(complaint({flag, "--mode", "naive"}), HasSubstr("expected a mode with buckets"));
    EXPECT_THAT(complaint({flag, "--find-unused"}), HasSubstr("expected no --find-unused"));
    EXPECT_THAT(complaint({flag, "--sync", "never"}), HasSubstr("expected --sync auto, got never"));
    EXPECT_TRUE(parsed({flag, "--accum", "2", "--mode", "no_sync"}).in_flight());
  }
}

TEST(Options, AFusedUpdateIsRefusedWhereGradientsAreNeeded) {
  EXPECT_EQ(parsed({"--fused-update", "off", "--momentum", "0.9"}).fused_update, "off");
  EXPECT_THAT(parsed({"--fused-update", "on"}).agreement(),
              ::testing::Contains(std::string("--fused-update on")));
  EXPECT_THAT(
      complaint({"--fused-update", "on", "--optimizer", "adam"}),
      HasSubstr("--fused-update on: expected --optimizer sgd without --momentum, got adam:"));
  EXPECT_THAT(complaint({"--fused-update", "on", "--momentum", "0.9"}),
              HasSubstr("without --momentum, got it with --momentum:"));
  EXPECT_THAT(complaint({"--fused-update", "on", "--accum", "2"}),
              HasSubstr("expected one micro-batch per step, got --accum 2"));
  EXPECT_THAT(complaint({"--fused-update", "on", "--cross-step"}),
              HasSubstr("expected no --optimizer-overlap or --cross-step"));
  EXPECT_THAT(complaint({"--fused-update", "on", "--clip-norm", "1"}), HasSubstr("no --clip-norm"));
  EXPECT_THAT(complaint({"--fused-update", "on", "--comm-hook", "bf16"}),
              HasSubstr("no --comm-hook"));
  EXPECT_THAT(complaint({"--fused-update", "on", "--find-unused"}), HasSubstr("no --find-unused"));
  EXPECT_THAT(complaint({"--fused-update", "on", "--static-graph"}),
              HasSubstr("no --static-graph"));
}

TEST(Options, CrossStepCutsLayersIntoPiecesUnlessAHookNeedsThemWhole) {
  const Options o = parsed({"--cross-step"});
  EXPECT_EQ(o.bucket_by, "layer");
  EXPECT_EQ(o.piece_mb, 1.0);
  EXPECT_TRUE(o.split_tensors);
  EXPECT_FALSE(parsed({"--cross-step", "--comm-hook", "bf16"}).split_tensors);
  EXPECT_EQ(parsed({"--cross-step", "--bucket-mb", "4"}).bucket_by, "size");
  EXPECT_EQ(parsed({"--cross-step", "--first-bucket-mb", "1"}).bucket_by, "size");
  EXPECT_EQ(parsed({"--cross-step", "--last-bucket-mb", "1"}).bucket_by, "size");
}

TEST(Options, NoSyncNeedsMicroBatches) {
  EXPECT_THAT(complaint({"--mode", "no_sync"}), HasSubstr("--accum"));
  const Options o = parsed({"--mode", "no_sync", "--accum", "4"});
  EXPECT_TRUE(o.deferred_sync());
  EXPECT_EQ(o.data_parallel().mode, dist::SyncMode::overlap);
}

TEST(Options, NeverSynchronisingLeavesNothingToSaveOrToAgreeOn) {
  EXPECT_FALSE(parsed({}).never_syncs());
  const Options o = parsed({"--sync", "never"});
  EXPECT_TRUE(o.never_syncs());
  EXPECT_THAT(o.agreement(), ::testing::Contains("--sync never"));
  EXPECT_EQ(complaint({"--sync", "never", "--save", "w.safetensors"}),
            "train_mlp: --sync never: the ranks end with different weights, so there are none to "
            "save; leave out --save w.safetensors\n");
  EXPECT_EQ(complaint({"--sync", "never", "--find-unused"}),
            "train_mlp: --sync never: no gradient leaves its rank, so the ranks cannot agree on "
            "unused parameters; leave out --find-unused\n");
  EXPECT_THAT(complaint({"--sync", "nevr"}), HasSubstr("did you mean never?"));
  EXPECT_THAT(complaint({"--sync", "never", "--inject", "skip_param"}),
              HasSubstr("--inject skip_param: expected --sync auto, got never"));
}

TEST(Options, UnusedParametersAreRefusedFoundOrFoundOnce) {
  EXPECT_EQ(parsed({}).data_parallel().unused, dist::UnusedPolicy::refuse);
  const Options find = parsed({"--find-unused"});
  EXPECT_EQ(find.data_parallel().unused, dist::UnusedPolicy::find);
  EXPECT_THAT(find.agreement(), ::testing::Contains("--find-unused on"));
  const Options once = parsed({"--static-graph"});
  EXPECT_EQ(once.data_parallel().unused, dist::UnusedPolicy::find_once);
  EXPECT_THAT(once.agreement(), ::testing::Contains("--static-graph on"));
  EXPECT_THAT(complaint({"--find-unused", "--static-graph"}), HasSubstr("expected one of them"));
}

TEST(Options, UnevenBatchesAreJoinedDroppedOrPadded) {
  EXPECT_EQ(parsed({}).uneven, "join");
  const Options o = parsed({"--uneven", "pad"});
  EXPECT_EQ(data::parse_uneven(o.uneven), data::Uneven::pad);
  EXPECT_THAT(o.agreement(), ::testing::Contains("--uneven pad"));
  EXPECT_THAT(complaint({"--uneven", "dorp"}), HasSubstr("did you mean drop?"));
}

TEST(Options, ClippingNeedsANormAboveZero) {
  EXPECT_EQ(parsed({}).clip_norm, 0.0);
  const Options o = parsed({"--clip-norm", "1.5"});
  EXPECT_EQ(o.clip_norm, 1.5);
  EXPECT_THAT(o.agreement(), ::testing::Contains("--clip-norm 1.5"));
  EXPECT_THAT(complaint({"--clip-norm", "0"}), HasSubstr("--clip-norm: expected a number"));
}

TEST(Options, SharedMemoryAndHierarchiesAreCommunicators) {
  EXPECT_THAT(parsed({"--comm", "shared"}).agreement(), ::testing::Contains("--comm shared"));
  EXPECT_EQ(parsed({"--comm", "hierarchical"}).comm, "hierarchical");
  EXPECT_EQ(complaint({"--comm", "hierarchical", "--reduce", "deterministic"}),
            "train_mlp: --reduce deterministic: expected a --comm that can add in rank order, got "
            "hierarchical: it adds within the hosts first\n");
}

TEST(Options, ModesReachDataParallel) {
  const dist::DataParallelOptions o =
      parsed({"--mode", "flat", "--bucket-mb", "0.5", "--init-sync", "broadcast"}).data_parallel();
  EXPECT_EQ(o.mode, dist::SyncMode::flat);
  EXPECT_EQ(o.bucket_bytes, 512U * 1024U);
  EXPECT_EQ(o.init_sync, dist::InitSync::broadcast);
}

}  // namespace
}  // namespace brigade::apps
