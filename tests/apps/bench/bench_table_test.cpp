#include "apps/bench/bench_table.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "apps/metrics/alpha_beta.h"

namespace brigade::apps {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(AlphaBeta, FindsTheNetworkBehindExactTimes) {
  // 4 ranks: T = 6 α + 1.5 S β with α = 10 µs and β = 2 ns/B.
  const std::vector<dist::LinkPoint> times{{1000, 0.063}, {100'000, 0.36}, {10'000'000, 30.06}};
  const auto fit = fit_alpha_beta(times, 4);
  ASSERT_TRUE(fit.has_value());
  EXPECT_THAT(fit->alpha_us, DoubleNear(10.0, 1e-9));
  EXPECT_THAT(fit->ns_per_byte, DoubleNear(2.0, 1e-12));
  EXPECT_THAT(fit->gigabytes_per_s(), DoubleNear(0.5, 1e-12));
  EXPECT_THAT(fit->residual, DoubleNear(0.0, 1e-6));
}

TEST(AlphaBeta, CountsRelativeErrorsSoThatSmallSizesDecideAboutTheLatency) {
  // 2 ranks: T = 2 α + S β with α = 10, β = 1 ns/B, but the largest took 2 % longer: 2000 µs, which
  // in absolute terms would be worth any error of the 20 µs.
  const std::vector<dist::LinkPoint> times{{0, 0.02}, {1000, 0.021}, {1e8, 102.0}};
  const auto fit = fit_alpha_beta(times, 2);
  ASSERT_TRUE(fit.has_value());
  EXPECT_THAT(fit->alpha_us, DoubleNear(10.0, 0.01));
  EXPECT_THAT(fit->ns_per_byte, DoubleNear(1.02, 0.01));
}

TEST(AlphaBeta, AResidualIsTheTypicalRelativeError) {
  // No α and no β can explain a time that does not depend on the size in opposite directions: the
  // best constant through 100 and 300 minimises (2a/100 - 1)² + (2a/300 - 1)², a = 60: 20 % above
  // the one, 60 % below the other.
  const std::vector<dist::LinkPoint> times{{1000, 0.3}, {100'000, 0.1}};
  const auto fit = fit_alpha_beta(times, 2);
  ASSERT_TRUE(fit.has_value());
  EXPECT_THAT(fit->alpha_us, DoubleNear(60.0, 1e-9));
  EXPECT_EQ(fit->ns_per_byte, 0.0) << "a negative bandwidth is none";
  EXPECT_THAT(fit->residual, DoubleNear(0.4472, 1e-4));
}

TEST(AlphaBeta, NeedsTwoRanksAndTwoSizes) {
  const std::vector<dist::LinkPoint> two{{1000, 0.01}, {2000, 0.02}};
  EXPECT_FALSE(fit_alpha_beta(two, 1).has_value());
  EXPECT_FALSE(fit_alpha_beta(std::vector<dist::LinkPoint>{{1000, 0.01}}, 2).has_value());
  EXPECT_FALSE(fit_alpha_beta(std::vector<dist::LinkPoint>{}, 2).has_value());
}

TEST(Bandwidth, IsDecimalAndTheBusCarriesMore) {
  EXPECT_DOUBLE_EQ(algbw(1'000'000, 1000.0), 1.0);
  EXPECT_DOUBLE_EQ(busbw(1'000'000, 1000.0, 4), 1.5);
  EXPECT_DOUBLE_EQ(busbw(1'000'000, 1000.0, 1), 0.0);
}

BenchRow row(std::size_t bytes, double us) {
  return {.bytes = bytes, .us = us, .wrong = 3};
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    result.push_back(text.substr(begin, end - begin));
  }
  return result;
}

TEST(BenchTable, HasTheColumnsOfNcclTests) {
  const BenchResult result{
      .name = "ring", .description = "sockets", .rows = {row(4'000'000, 2000.0)}};
  const std::vector<std::string> text = lines(bench_table(result, 2));
  ASSERT_EQ(text.size(), 4U) << "one size: no fit";
  EXPECT_EQ(text[0], "# ring: sockets");
  EXPECT_EQ(text[1], "#       size        count  type  redop        time   algbw   busbw  #wrong");
  EXPECT_EQ(text[3], "     4000000      1000000   f32    sum      2000.0    2.00    2.00       3");
  EXPECT_EQ(text[1].size(), text[3].size()) << "column titles and values end at the same column";
}

TEST(BenchTable, EndsWithTheFitOfTheTimes) {
  // 2 ranks: T = 2 α + S β, α = 5 µs, β = 0.5 ns/B.
  const BenchResult result{
      .name = "shared", .description = "", .rows = {row(1000, 10.5), row(1'000'000, 510.0)}};
  EXPECT_EQ(lines(bench_table(result, 2)).back(),
            "# fit: alpha 5.00 us, beta 0.5000 ns/B (2.00 GB/s), residual 0 %");
}

TEST(BenchTable, JsonHasTheSameNumbers) {
  const BenchResult result{.name = "ring", .description = "x", .rows = {row(4'000'000, 2000.0)}};
  const auto json = nlohmann::json::parse(bench_json({result}, {}, 2));
  const auto& one = json["results"][0]["rows"][0];
  EXPECT_EQ(one["bytes"], 4'000'000);
  EXPECT_EQ(one["count"], 1'000'000);
  EXPECT_EQ(one["time_us"], 2000.0);
  EXPECT_EQ(one["busbw_gigabytes_per_s"], 2.0);
  EXPECT_EQ(one["wrong"], 3);
  EXPECT_TRUE(json["results"][0]["fit"].is_null());
}

Parsed<BenchOptions> parse(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "bench_all_reduce");
  return parse_bench_options(static_cast<int>(flags.size()), flags.data());
}

TEST(BenchOptions, SizesGrowByTheFactorAndAreWholeElements) {
  const BenchOptions o = parse({"-b", "1K", "-e", "10K", "-f", "3"}).options;
  EXPECT_THAT(o.sizes(), ElementsAre(1024U, 3072U, 9216U));
  EXPECT_THAT(parse({"-b", "10", "-e", "40", "-f", "2"}).options.sizes(), ElementsAre(8U, 20U, 40U))
      << "10 bytes hold two f32";
  EXPECT_THAT(parse({"-b", "64m", "-e", "64M"}).options.sizes(),
              ElementsAre(std::size_t{64} << 20));
}

TEST(BenchOptions, ConfigHasOneLinePerFlag) {
  const auto config = parse({"--comm=ring,mpi", "-b", "1K", "--json"}).options.config;
  EXPECT_THAT(config, ElementsAre("min-bytes = \"1K\"", "# max-bytes", "# factor", "# iters",
                                  "# warmup", "comm = \"ring,mpi\"", "# device", "json = true"));
}

TEST(BenchOptions, MistakesAreOneLine) {
  const auto complaint = [](const std::vector<const char*>& flags) {
    const auto exit = parse(flags).exit;
    EXPECT_TRUE(exit.has_value());
    EXPECT_EQ(exit.value_or(EarlyExit{}).exit_code, 2);
    return exit.value_or(EarlyExit{}).text;
  };
  EXPECT_EQ(complaint({"-b", "2M", "-e", "1M"}),
            "bench_all_reduce: --max-bytes: expected at least --min-bytes, 2097152, got 1048576\n");
  EXPECT_EQ(complaint({"-b", "2"}),
            "bench_all_reduce: --min-bytes: expected a size from 4 bytes to 1 PiB, such as 4096, "
            "64K, 1M or 1G, got \"2\"\n");
  EXPECT_THAT(complaint({"--comm", "shard"}), HasSubstr("--comm: expected one of auto, mpi,"));
  for (const char* wrong : {"64X", "", "K", "64KB", "9999999G", "-1", "1.5M"}) {
    EXPECT_THAT(complaint({"-e", wrong}), HasSubstr("--max-bytes: expected a size from 4 bytes"));
  }
  EXPECT_THAT(complaint({"-f", "1"}), HasSubstr("--factor: expected a number from 1.01"));
  EXPECT_THAT(complaint({"-f", "nan"}), HasSubstr("--factor: expected a number from 1.01"));
  EXPECT_THAT(complaint({"--iter", "3"}), HasSubstr("unknown flag --iter"));
}

TEST(BenchOptions, HelpFitsOnAScreen) {
  const auto exit = parse({"--help"}).exit;
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->exit_code, 0);
  EXPECT_LE(std::ranges::count(exit->text, '\n'), 32);
  EXPECT_THAT(exit->text, StartsWith("Times all-reduces like nccl-tests"));
}

}  // namespace
}  // namespace brigade::apps
