#include "apps/flags/options.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "apps/flags/rules.h"
#include "core/error.h"
#include "nn/data/sampler.h"
#include "tests/apps/flags/parsed.h"
#include "tests/support/expect_error.h"

namespace brigade::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Options, CheckpointsComeEverySoManyStepsOrMinutes) {
  const auto options = [](const char* every) { return parsed({"--checkpoint-every", every}); };
  EXPECT_EQ(options("7").checkpoint_steps, 7);
  EXPECT_EQ(options("7").checkpoint_minutes, 0.0);
  EXPECT_EQ(options("0.5m").checkpoint_steps, 0);
  EXPECT_EQ(options("0.5m").checkpoint_minutes, 0.5);
  EXPECT_TRUE(options("7").checkpoints());
  EXPECT_FALSE(parsed({}).checkpoints());
  for (const char* wrong : {"0", "-1", "m", "0m", "1h", "1.5"}) {
    EXPECT_EQ(parse({"--checkpoint-every", wrong}).exit.value().exit_code, 2) << wrong;
  }
}

TEST(Options, HelpFitsOnAScreen) {
  const EarlyExit help = parse({"--help"}).exit.value();
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_LE(std::count(help.text.begin(), help.text.end(), '\n'), 45);
  EXPECT_THAT(help.text, HasSubstr("Examples:"));
  EXPECT_THAT(help.text, Not(HasSubstr("--nesterov")));
  EXPECT_THAT(parse({"--help-all"}).exit.value().text, HasSubstr("--nesterov"));
  EXPECT_EQ(parse({"--help-all"}).exit.value().exit_code, 0);
}

TEST(Options, WithoutEffectAreNamed) {
  const auto idle = [](const std::vector<const char*>& flags) { return idle_flags(parsed(flags)); };
  EXPECT_THAT(idle({}), IsEmpty());
  EXPECT_THAT(idle({"--optimizer", "adam", "--momentum", "0.9"}),
              ElementsAre("--momentum: --optimizer adam has its own"));
  EXPECT_THAT(idle_flags(parsed({"--top-k", "1"}, Program::train_gpt)),
              ElementsAre(HasSubstr("no text is written without --sample")));
  EXPECT_THAT(idle({"--data-dir", "files"}),
              ElementsAre("--data-dir: synthetic data has no files"));
  EXPECT_THAT(idle({"--no-all-reduce", "--emulate-link", "50,1"}),
              ElementsAre(HasSubstr("no gradient leaves its rank: --emulate-link")));
  EXPECT_THAT(idle({"--inject", "other_seed", "--init", "w.safetensors"}),
              ElementsAre(HasSubstr("the weights are those of --init")));
  EXPECT_THAT(idle({"--matmul-precision", "medium", "--dtype", "bf16"}),
              ElementsAre("--matmul-precision: with --dtype bf16 no layer multiplies f32"));
}

TEST(Options, AGlobalBatchIsDividedExactly) {
  const auto batch = [](const std::vector<const char*>& flags, int ranks) {
    Options options = parsed(flags);
    options.share_global_batch(ranks);
    return options.batch;
  };
  EXPECT_EQ(batch({"--global-batch", "96", "--accum", "3"}, 4), 8);
  EXPECT_EQ(batch({"--batch", "7"}, 4), 7);
  EXPECT_EQ(batch({"--batch", "7", "--global-batch", "32"}, 4), 8) << "the last one wins";
  EXPECT_EQ(batch({"--global-batch", "32", "--batch", "7"}, 4), 7);
  EXPECT_ERROR_OF(
      UsageError, batch({"--global-batch", "100", "--accum", "2"}, 3),
      "--global-batch: expected a multiple of ranks x --accum = 3 x 2 = 6, got 100; use "
      "96 or 102, or make ranks x --accum one of 1, 2, 4, 5, 10");
  EXPECT_ERROR_OF(UsageError, batch({"--global-batch", "3"}, 4),
                  "--global-batch: expected a multiple of ranks x --accum = 4 x 1 = 4, got 3; use "
                  "4, or make ranks x --accum one of 1, 3");
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
            "train_mlp: unknown flag --xyzzy-frobnicate; --help-all lists the flags\n");
  EXPECT_THAT(complaint({"naive"}), HasSubstr("unknown argument naive"));
}

TEST(Options, ValuesAreChecked) {
  EXPECT_THAT(complaint({"--lr", "fast"}), HasSubstr("--lr: expected a number"));
  EXPECT_THAT(complaint({"--init", ""}), HasSubstr("--init: expected a name, got \"\""));
  EXPECT_THAT(complaint({"--mode", "overlp"}), HasSubstr("did you mean overlap?"));
  EXPECT_THAT(complaint({"--nesterov"}), HasSubstr("--momentum"));
  EXPECT_THAT(complaint({"--nesterov", "--momentum", "0.9", "--optimizer", "adam"}),
              HasSubstr("--nesterov: expected --optimizer sgd, got adam"));
  EXPECT_THAT(complaint({"--loss", "cross_entropy", "--hidden", "64,1"}),
              HasSubstr("expected 2 classes or more, got 1"));
  complaint({"--steps"});
}

TEST(Options, AnEmulatedLinkIsALatencyAndABandwidth) {
  EXPECT_FALSE(parsed({}).emulated_link.has_value());
  const Options o = parsed({"--emulate-link", "50,1.5"});
  ASSERT_TRUE(o.emulated_link.has_value());
  EXPECT_DOUBLE_EQ(o.emulated_link->alpha_us, 50.0);
  EXPECT_DOUBLE_EQ(o.emulated_link->gigabytes_per_s, 1.5);
  EXPECT_THAT(o.agreement(), ::testing::Contains("emulate-link = \"50,1.5\""));
  EXPECT_TRUE(parsed({"--emulate-link", "auto"}).choose_link);
  EXPECT_FALSE(parsed({"--emulate-link", "auto", "--emulate-link", "50,1.5"}).choose_link);

  EXPECT_EQ(complaint({"--emulate-link", "50"}),
            "train_mlp: --emulate-link: expected a latency in us and a bandwidth in GB/s, such as "
            "50,1, got \"50\"\n");
  EXPECT_EQ(complaint({"--emulate-link=-1,1"}),
            "train_mlp: --emulate-link (latency in us): expected a number from 0 to 1000000, got "
            "\"-1\"\n");
  EXPECT_THAT(complaint({"--emulate-link", "50,0"}),
              HasSubstr("--emulate-link (bandwidth in GB/s): expected a number from 0.001 up"));
  EXPECT_THAT(complaint({"--emulate-link", "slow,fast"}), HasSubstr("got \"slow\""));
}

TEST(Options, ReductionAndCommunicatorAreChosenFreely) {
  EXPECT_EQ(parsed({}).reduce, "fast");
  EXPECT_EQ(parsed({}).comm, "auto");
  for (const char* comm : {"auto", "mpi", "nccl", "ring", "halving", "tree"}) {
    const Options o = parsed({"--comm", comm, "--reduce", "deterministic"});
    EXPECT_EQ(o.comm, comm);
    EXPECT_EQ(o.reduce, "deterministic");
  }
  EXPECT_THAT(complaint({"--comm", "rings"}), HasSubstr("did you mean ring?"));
  EXPECT_THAT(complaint({"--reduce", "slow"}), HasSubstr("--reduce"));
}

TEST(Options, UpdatesInFlightAreRefusedWhereTheyCannotWork) {
  for (const char* flag : {"--optimizer-overlap", "--cross-step"}) {
    EXPECT_THAT(
        complaint({flag, "--accum", "2"}),
        HasSubstr(std::string(flag) + ": expected --mode no_sync with --accum 2, got overlap"));
    EXPECT_THAT(complaint({flag, "--clip-norm", "1"}), HasSubstr("expected no --clip-norm"));
    EXPECT_THAT(complaint({flag, "--mode", "naive"}),
                HasSubstr("expected buckets that arrive, got --mode naive"));
    EXPECT_THAT(complaint({flag, "--find-unused"}), HasSubstr("expected no --find-unused"));
    EXPECT_THAT(complaint({flag, "--no-all-reduce"}), HasSubstr("got --no-all-reduce"));
    EXPECT_TRUE(parsed({flag, "--accum", "2", "--mode", "no_sync"}).in_flight());
  }
}

TEST(Options, AShardedOptimizerIsRefusedWhereItCannotWork) {
  const char* flag = "--shard-optimizer";
  EXPECT_EQ(
      complaint({flag, "--accum", "2"}),
      "train_mlp: --shard-optimizer: expected --mode no_sync with --accum 2, got overlap, "
      "which synchronises after every micro-batch; --shard-optimizer needs one synchronisation "
      "per step\n");
  EXPECT_EQ(complaint({flag, "--cross-step"}),
            "train_mlp: --shard-optimizer: expected plain sums and one update after backward, got "
            "--cross-step\n");
  EXPECT_THAT(complaint({flag, "--optimizer-overlap"}), HasSubstr("got --optimizer-overlap"));
  EXPECT_THAT(complaint({flag, "--comm-hook", "bf16"}), HasSubstr("got --comm-hook bf16"));
  EXPECT_THAT(complaint({flag, "--check-reduce"}), HasSubstr("got --check-reduce"));
  EXPECT_THAT(complaint({flag, "--mode", "naive"}), HasSubstr("got --mode naive"));
  EXPECT_THAT(complaint({flag, "--no-all-reduce"}), HasSubstr("got --no-all-reduce"));
  EXPECT_THAT(complaint({flag, "--on-failure", "shrink"}),
              HasSubstr("got --shard-optimizer, which loses the state that a dead rank kept"));
}

TEST(Options, BucketsAreChosenWhereThereAreAnyToChoose) {
  EXPECT_TRUE(parsed({"--bucket-mb", "auto"}).choose_buckets);
  EXPECT_FALSE(parsed({"--bucket-mb", "auto", "--bucket-mb", "2"}).choose_buckets);
  for (const std::string other :
       {"--mode naive", "--mode per_param", "--comm-hook bf16", "--no-all-reduce", "--cross-step",
        "--optimizer-overlap", "--shard-optimizer", "--mode flat"}) {
    const std::size_t space = std::min(other.find(' '), other.size());
    std::vector<std::string> words{other.substr(0, space)};
    if (space < other.size()) {
      words.push_back(other.substr(space + 1));
    }
    std::vector<const char*> flags{"--bucket-mb", "auto"};
    for (const std::string& word : words) {
      flags.push_back(word.c_str());
    }
    EXPECT_THAT(complaint(flags), HasSubstr("--bucket-mb auto: expected all-reduces of buckets "
                                            "during backward, got " +
                                            other));
  }
  EXPECT_THAT(complaint({"--bucket-mb", "car"}), HasSubstr("--bucket-mb"));
}

TEST(Options, CrossStepHasSmallBucketsUnlessToldOtherwise) {
  EXPECT_EQ(parsed({"--cross-step"}).bucket_mb, 1.0);
  EXPECT_EQ(parsed({"--cross-step", "--bucket-mb", "4"}).bucket_mb, 4.0);
}

TEST(Options, NoSyncNeedsMicroBatches) {
  EXPECT_THAT(complaint({"--mode", "no_sync"}), HasSubstr("--accum"));
  const Options o = parsed({"--mode", "no_sync", "--accum", "4"});
  EXPECT_TRUE(o.deferred_sync());
  EXPECT_EQ(o.data_parallel().mode, dist::SyncMode::overlap);
}

TEST(Options, NeverSynchronisingLeavesNothingToSaveOrToCompare) {
  EXPECT_FALSE(parsed({}).no_all_reduce);
  EXPECT_TRUE(parsed({"--no-all-reduce"}).no_all_reduce);
  EXPECT_EQ(complaint({"--no-all-reduce", "--save", "w.safetensors"}),
            "train_mlp: --no-all-reduce: expected no --save: the ranks end with different weights; "
            "leave one of them out\n");
  EXPECT_THAT(complaint({"--no-all-reduce", "--verify-every", "2"}),
              HasSubstr("expected no --verify-every"));
}

TEST(Options, UnusedParametersAreRefusedOrFound) {
  EXPECT_FALSE(parsed({}).data_parallel().find_unused_parameters);
  const Options find = parsed({"--find-unused"});
  EXPECT_TRUE(find.data_parallel().find_unused_parameters);
}

TEST(Options, UnevenBatchesAreJoinedDroppedOrPadded) {
  EXPECT_EQ(parsed({}).uneven, "join");
  const Options o = parsed({"--uneven", "pad"});
  EXPECT_EQ(data::parse_uneven(o.uneven), data::Uneven::pad);
  EXPECT_THAT(complaint({"--uneven", "dorp"}), HasSubstr("did you mean drop?"));
}

TEST(Options, ClippingNeedsANormAboveZero) {
  EXPECT_EQ(parsed({}).clip_norm, 0.0);
  const Options o = parsed({"--clip-norm", "1.5"});
  EXPECT_EQ(o.clip_norm, 1.5);
  EXPECT_THAT(complaint({"--clip-norm", "0"}), HasSubstr("--clip-norm: expected a number"));
}

TEST(Options, SharedMemoryAndHierarchiesAreCommunicators) {
  EXPECT_EQ(parsed({"--comm", "shared"}).comm, "shared");
  EXPECT_EQ(parsed({"--comm", "hierarchical"}).comm, "hierarchical");
  EXPECT_EQ(complaint({"--comm", "hierarchical", "--reduce", "deterministic"}),
            "train_mlp: --reduce deterministic: expected sums in rank order, got --comm "
            "hierarchical, which adds within the hosts first\n");
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
