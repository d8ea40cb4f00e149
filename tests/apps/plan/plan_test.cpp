#include "apps/plan/plan.h"

#include <gmock/gmock.h>

#include "apps/plan/plan_report.h"
#include "tests/apps/flags/parsed.h"
#include "tests/support/expect_error.h"

namespace brigade::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Two matrices of 256 KiB, 10 ms of computation; all-reduces on two ranks take 1 ms and 4 ms per
/// MiB.
Profile profile() {
  return {
      .model = "256-256-256",
      .mode = "naive",
      .comm = "a wire",
      .ranks = 2,
      .batch = 32,
      .shares_core = false,
      .compute = {.forward = 3.0, .backward = 6.0, .optimizer = 1.0, .order = {{1, 2.0}, {0, 6.0}}},
      .spread = 0.0,
      .parameters = {{.name = "0.weight", .bytes = 262144, .shape = {256, 256}},
                     {.name = "1.weight", .bytes = 262144, .shape = {256, 256}}},
      .all_reduce = {{0.0, 1.0, 0.0}, {1048576.0, 5.0, 0.0}}};
}

/// A training with --mode flat.
Options flat() {
  return parsed({"--mode", "flat"});
}

PlanRow only_row(const PlanQuestion& question, const Profile& of = profile()) {
  const std::vector<PlanRow> rows = plan(of, question);
  EXPECT_EQ(rows.size(), 1U);
  return rows.front();
}

TEST(Plan, OfTheRunItselfIsItsStep) {
  const auto step = [](const std::vector<const char*>& flags) {
    return only_row({.ranks = {2}, .training = parsed(flags)}).step;
  };
  // An all-reduce of one matrix takes 2 ms, of both 3 ms.
  EXPECT_DOUBLE_EQ(step({"--mode", "naive"}), 10.0 + 4.0);
  EXPECT_DOUBLE_EQ(step({"--mode", "flat"}), 10.0 + 3.0);
  EXPECT_DOUBLE_EQ(step({"--mode", "per_param"}), 10.0 + 2.0);
  EXPECT_DOUBLE_EQ(step({"--mode", "overlap"}), 10.0 + 3.0);
  EXPECT_DOUBLE_EQ(step({"--mode", "overlap", "--bucket-mb", "0.25"}), 10.0 + 2.0);
  EXPECT_DOUBLE_EQ(step({"--bucket-mb", "auto"}), 10.0 + 2.0);
  EXPECT_DOUBLE_EQ(step({"--mode", "no_sync", "--accum", "3"}), 28.0 + 3.0);
  EXPECT_DOUBLE_EQ(step({"--mode", "overlap", "--accum", "3"}), 28.0 + 9.0);
  EXPECT_DOUBLE_EQ(only_row({.ranks = {1}}).step, 10.0);
}

TEST(Plan, ARowSaysWhereItsTimeGoes) {
  const PlanRow row = only_row({.ranks = {2}, .training = flat()});
  EXPECT_EQ(row.ranks, 2);
  EXPECT_DOUBLE_EQ(row.compute, 10.0);
  EXPECT_DOUBLE_EQ(row.slowest, 0.0);
  EXPECT_DOUBLE_EQ(row.exposed, 3.0);
  EXPECT_DOUBLE_EQ(row.efficiency(), 10.0 / 13.0);
  EXPECT_DOUBLE_EQ(row.samples_per_second, 1e3 * 64 / 13.0);
  EXPECT_EQ(row.buckets, 1U);
}

TEST(Plan, ALinkReplacesTheMeasuredOne) {
  const dist::LinkModel link{.alpha_us = 1000.0, .gigabytes_per_s = 1.0};
  // 2 (N-1) messages of S/N bytes
  EXPECT_NEAR(only_row({.ranks = {4}, .training = flat(), .link = link}).step,
              10.0 + 6 * (1.0 + 131072e-6), 1e-9);
  Profile faster = profile();
  faster.all_reduce = {{0.0, 0.5, 0.0}, {1048576.0, 0.5, 0.0}};
  EXPECT_DOUBLE_EQ(only_row({.ranks = {2}, .training = flat(), .network = faster}).step, 10.5);
}

TEST(Plan, ALinkThatWasIdleIsFaster) {
  Profile shaped = profile();
  shaped.head_start = 0.5;
  EXPECT_DOUBLE_EQ(only_row({.ranks = {2}, .training = flat()}, shaped).step, 12.5);
  const dist::LinkModel link{.alpha_us = 0.0, .gigabytes_per_s = 1.0};
  EXPECT_NEAR(only_row({.ranks = {2}, .training = flat(), .link = link}, shaped).step, 10.524288,
              1e-9);
}

TEST(Plan, HooksSendFewerBytes) {
  const auto exposed = [](const std::string& hook) {
    Options training = flat();
    training.comm_hook = hook;
    return only_row({.ranks = {2}, .training = training}).exposed;
  };
  EXPECT_NEAR(exposed("none"), 1.0 + 2.0, 1e-9);
  EXPECT_NEAR(exposed("bf16"), 1.0 + 1.0, 1e-9);
  EXPECT_NEAR(exposed("topk:ratio=0.1"), 1.0 + 2 * 0.1 * 2.0, 1e-9);
  EXPECT_NEAR(exposed("powersgd:rank=4"), 2 * 1.0 + 2.0 * (4 * 512) / (256 * 256), 1e-9)
      << "two all-reduces";
  EXPECT_ERROR_WITH(exposed("fp8"), "--comm-hook: expected none, fp16");
}

TEST(Plan, AShardedOptimizerTakesItsShareOfTheTime) {
  // Of the 3 ms of an all-reduce half are spent after backward and half after the optimizer, which
  // takes 0.5 ms instead of 1.
  const PlanRow row =
      only_row({.ranks = {2}, .training = parsed({"--mode", "flat", "--shard-optimizer"})});
  EXPECT_DOUBLE_EQ(row.step, 3.0 + 6.0 + 1.5 + 0.5 + 1.5);
  EXPECT_DOUBLE_EQ(row.compute, 9.5);
  EXPECT_DOUBLE_EQ(row.exposed, 3.0);
}

TEST(Plan, RefusesWhatItsFormulasDoNotCover) {
  EXPECT_ERROR(
      plan(profile(),
           {.ranks = {8}, .training = parsed({"--shard-optimizer"}), .algorithm = "tree"}),
      "--shard-optimizer: expected --algorithm ring and one rank per host, got tree and 1: "
      "shares travel from every rank to every other");

  EXPECT_ERROR(
      plan(profile(),
           {.ranks = {8}, .training = parsed({"--comm-hook", "bf16"}), .algorithm = "tree"}),
      "--comm-hook: expected --algorithm ring, got tree: hooks have algorithms of their "
      "own, which cost what a ring does");
  EXPECT_ERROR(plan(profile(), {.ranks = {8}, .algorithm = "tree", .ranks_per_host = 2}),
               "--ranks-per-host: expected --algorithm ring or hierarchical, got tree");
  const dist::LinkModel link{.alpha_us = 1.0, .gigabytes_per_s = 1.0};
  EXPECT_ERROR(plan(profile(), {.ranks = {8}, .local_link = link}),
               "--local-link: expected --ranks-per-host of more than 1");
}

TEST(Plan, StrongScalingDividesTheBatch) {
  const std::vector<PlanRow> rows =
      plan(profile(),
           {.ranks = {2, 8, 64}, .training = parsed({"--mode", "flat", "--global-batch", "32"})});
  ASSERT_EQ(rows.size(), 2U) << "64 ranks have less than one sample each";
  EXPECT_DOUBLE_EQ(rows[0].compute, 4.5 + 1.0);
  EXPECT_DOUBLE_EQ(rows[1].compute, 9.0 / 8.0 + 1.0);
  const PlanRow uneven =
      only_row({.ranks = {5}, .training = parsed({"--mode", "flat", "--global-batch", "32"})});
  EXPECT_DOUBLE_EQ(uneven.compute, 9.0 * 7 / 32 + 1.0) << "of the rank that has 7 of 32";
  EXPECT_DOUBLE_EQ(uneven.samples_per_second, 32e3 / uneven.step);
  EXPECT_ERROR(plan(profile(), {.ranks = {64}, .training = parsed({"--global-batch", "32"})}),
               "--global-batch: expected at least 64 (a sample per rank and micro-batch, ranks x "
               "--accum), got 32");
}

TEST(Plan, OfManyRanksOneIsSlow) {
  EXPECT_EQ(expected_largest(1), 0.0);
  EXPECT_NEAR(expected_largest(2), 0.564, 0.03);    // 1 / sqrt(pi)
  EXPECT_NEAR(expected_largest(100), 2.508, 0.02);  // Harter 1961, table 1
  EXPECT_NEAR(expected_largest(65536), 4.35, 0.1);
  const PlanRow row = only_row({.ranks = {100}, .training = flat(), .spread = 0.1});
  EXPECT_DOUBLE_EQ(row.compute, 10.0);
  EXPECT_NEAR(row.slowest, 9.0 * (std::exp(0.2508) - 1.0), 0.03);
}

TEST(Plan, OfOneRanksRunNeedsALink) {
  Profile alone = profile();
  alone.ranks = 1;
  alone.all_reduce.clear();
  EXPECT_ERROR(plan(alone, {.ranks = {8}}),
               "--link: expected US,GB/S or the profile of a run on several ranks: one rank "
               "measures no network");
}

TEST(Verdicts, SayWhereItStopsPaying) {
  const PlanRow good{.ranks = 8, .step = 10, .compute = 9, .exposed = 1, .samples_per_second = 8};
  const PlanRow bad{.ranks = 16, .step = 30, .compute = 9, .exposed = 21, .samples_per_second = 5};
  const PlanRow noisy{
      .ranks = 16, .step = 30, .compute = 9, .slowest = 20, .exposed = 1, .samples_per_second = 9};
  EXPECT_THAT(verdicts({good}),
              ElementsAre("at least 90 % of every rank's time computes (on 8 ranks)"));
  EXPECT_THAT(verdicts({good, bad}),
              ElementsAre(HasSubstr("from 16 ranks on, less than half of the ranks' time computes: "
                                    "they wait for the network"),
                          "more than 8 ranks process no more samples per second"));
  EXPECT_THAT(verdicts({good, noisy}), ElementsAre(HasSubstr("they wait for the slowest rank")));
}

TEST(PlanReport, NamesWhatItRestsOn) {
  const PlanQuestion question{.ranks = {2, 4},
                              .training = parsed({"--mode", "flat", "--bucket-mb", "5"})};
  const std::vector<PlanRow> rows = plan(profile(), question);
  const std::string text = plan_text(profile(), question, rows);
  EXPECT_THAT(text, HasSubstr("256-256-256, 32 samples per rank and micro-batch\n"
                              "mode flat, buckets of 5 MiB, accum 1, hook none, ring\n"
                              "network: as measured on 2 ranks (a wire), about "));
  EXPECT_THAT(text, HasSubstr("\n2        13.00    10.00         +0.00    +3.00"));
  const std::string html = plan_html(profile(), question, rows);
  EXPECT_THAT(html, HasSubstr("<title>ddp_plan: 256-256-256</title>"));
  EXPECT_THAT(html, HasSubstr("efficiency over the number of ranks"));
  EXPECT_THAT(html, HasSubstr("<td>13.00</td>"));
}

TEST(PlanReport, WarnsOfANetworkThatIsNone) {
  Profile one_host = profile();
  one_host.comm = "shared memory of one host, MPI";
  const auto text = [&](const PlanQuestion& question) {
    return plan_text(one_host, question, plan(one_host, question));
  };
  EXPECT_THAT(text({.ranks = {8}}), HasSubstr("note: that is the memory of one host; --link"));
  const dist::LinkModel link{.alpha_us = 1.0, .gigabytes_per_s = 1.0};
  EXPECT_THAT(text({.ranks = {8}, .link = link}), testing::Not(HasSubstr("note: ")));
}

TEST(PlanReport, WarnsOfARunWhoseComputationWasDisturbed) {
  Profile overlapped = profile();
  overlapped.mode = "overlap";
  overlapped.shares_core = true;
  const PlanQuestion question{.ranks = {2}};
  const auto text = [&](const Profile& of) { return plan_text(of, question, plan(of, question)); };
  EXPECT_THAT(text(overlapped), HasSubstr("note: in the profile's run, mode overlap, "));
  EXPECT_THAT(text(profile()), testing::Not(HasSubstr("note: ")));
}

}  // namespace
}  // namespace brigade::apps
