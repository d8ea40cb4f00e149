#include "apps/plan/profile.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace brigade::apps {
namespace {

Profile example() {
  return {
      .model = "4-3",
      .mode = "naive",
      .comm = "a wire",
      .ranks = 2,
      .batch = 8,
      .shares_core = true,
      .compute = {.forward = 1.5, .backward = 2.5, .optimizer = 0.5, .order = {{1, 0.5}, {0, 2.0}}},
      .spread = 0.125,
      .parameters = {{.name = "0.weight", .bytes = 64, .shape = {3, 4}},
                     {.name = "0.bias", .bytes = 64, .shape = {3}}},
      .all_reduce = {{64.0, 0.25, 0.125}, {128.0, 0.5, 0.25}},
      .head_start = 0.0625};
}

Profile read(const std::string& text) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "profile.json";
  std::ofstream(file) << text;
  return read_profile(file);
}

TEST(Profile, ComesBackFromItsFile) {
  const std::string text = profile_json(example());
  const Profile profile = read(text);
  EXPECT_EQ(profile_json(profile), text);
  EXPECT_EQ(profile.compute.order.front().parameter, 1U);
  EXPECT_EQ(profile.parameters[0].shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(profile.all_reduce[1].cpu_ms, 0.25);
  EXPECT_EQ(profile.head_start, 0.0625);
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = profile_json(example());
  return text.replace(text.find(from), from.size(), to);
}

TEST(Profile, OfAnotherKindIsRefused) {
  EXPECT_ERROR_WITH(read("{}"), "profile.json: no profile.json of a run: ");
  EXPECT_ERROR_WITH(read("[1"), "no profile.json of a run: ");
  EXPECT_ERROR_WITH(read(with("profile-1", "profile-2")),
                    "expected format brigade-profile-1, got \"brigade-profile-2\"");
  const auto expect_refusal = [](const std::string& from, const std::string& to,
                                 const std::string& message) {
    EXPECT_ERROR_WITH(read(with(from, to)), message) << to;
  };
  expect_refusal("forward_ms\": 1.5", "forward_ms\": -1.5", "expected forward_ms from 0 to ");
  expect_refusal("forward_ms\": 1.5", "forward_ms\": 1e300", "expected forward_ms from 0 to ");
  expect_refusal("ready_ms\": 0.5", "ready_ms\": 2.75",
                 "expected ready_ms from 0 to 2.5, got 2.75");
  expect_refusal("bytes\": 64,", "bytes\": -64,", "expected bytes from 1 to ");
  expect_refusal("bytes\": 128.0", "bytes\": 64.0", "expected bytes from 65 to ");
  expect_refusal("ranks\": 2", "ranks\": 0", "expected ranks from 1 to ");
  expect_refusal("ranks\": 2", "ranks\": 1", "all-reduces if there are several ranks");
  expect_refusal("spread\": 0.125", "spread\": 1000", "expected spread from 0 to 10, got 1000");
  expect_refusal("\"brigade-profile-1\"", std::string(5000, '[') + std::string(5000, ']'),
                 "nested too deeply");
  const auto with_extent = [](const std::string& extent) {
    std::string text = profile_json(example());
    return text.replace(text.find('3', text.find("shape")), 1, extent);
  };
  constexpr int kDeep = 200'000;
  EXPECT_ERROR_WITH(read(with_extent("1e300")),
                    "expected shape from 0 to 1000000000000, got 1e+300");
  EXPECT_ERROR_WITH(read(with_extent(std::string(kDeep, '[') + std::string(kDeep, ']'))),
                    "nested too deeply");
  EXPECT_ERROR_WITH(read(R"({"format": 1})"), "expected format brigade-profile-1, got 1");
  EXPECT_ERROR_WITH(read(with_extent("[3]")), "type must be number, but is array");
  EXPECT_ERROR_WITH(read_profile("/nowhere/profile.json"),
                    "cannot read /nowhere/profile.json: No such file");
}

}  // namespace
}  // namespace brigade::apps
