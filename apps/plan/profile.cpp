#include "apps/plan/profile.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/io/json_file.h"
#include "core/io/read_file.h"

namespace brigade::apps {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "brigade-profile-1";

constexpr double kMost = 1e12;  // of anything in a profile
constexpr int kDeepest = 8;

double in_range(const Json& json, const char* key, double least, double most) {
  const double value = json.get<double>();
  if (!(value >= least && value <= most)) {
    throw UsageError(
        fmt::format("expected {} from {} to {}, got {}", key, least, most, json.dump()));
  }
  return value;
}

double number(const Json& json, const char* key, double least, double most = kMost) {
  return in_range(json.at(key), key, least, most);
}

Profile profile_from(const Json& json) {
  constexpr double kMostRanks = 1e6;
  constexpr double kMostSpread = 10.0;
  if (json.at("format") != kFormat) {
    throw UsageError(fmt::format("expected format {}, got {}", kFormat, json.at("format").dump()));
  }
  Profile profile{.model = json.at("model"),
                  .mode = json.at("mode"),
                  .comm = json.at("comm"),
                  .ranks = static_cast<int>(number(json, "ranks", 1, kMostRanks)),
                  .batch = static_cast<std::int64_t>(number(json, "batch", 1)),
                  .shares_core = json.at("shares_core"),
                  .compute = {.forward = number(json, "forward_ms", 0),
                              .backward = number(json, "backward_ms", 0),
                              .optimizer = number(json, "optimizer_ms", 0),
                              .order = {}},
                  .spread = number(json, "spread", 0, kMostSpread),
                  .parameters = {},
                  .all_reduce = {},
                  .head_start = number(json, "head_start_ms", 0)};
  for (const Json& parameter : json.at("parameters")) {
    profile.compute.order.push_back(
        {profile.parameters.size(), number(parameter, "ready_ms", 0, profile.compute.backward)});
    profile.parameters.push_back({.name = parameter.at("name"),
                                  .bytes = static_cast<std::size_t>(number(parameter, "bytes", 1)),
                                  .shape = {}});
    for (const Json& extent : parameter.at("shape").get_ref<const Json::array_t&>()) {
      profile.parameters.back().shape.push_back(
          static_cast<std::int64_t>(in_range(extent, "shape", 0, kMost)));
    }
  }
  std::ranges::stable_sort(profile.compute.order, {}, &dist::GradientReady::ms);
  double larger = 1.0;
  for (const Json& point : json.at("all_reduce")) {
    profile.all_reduce.push_back(
        {number(point, "bytes", larger), number(point, "ms", 0), number(point, "cpu_ms", 0)});
    larger = profile.all_reduce.back().bytes + 1.0;
  }
  if (profile.parameters.empty() || (profile.ranks > 1) == profile.all_reduce.empty()) {
    throw UsageError("expected parameters, and all-reduces if there are several ranks");
  }
  return profile;
}

}  // namespace

std::string profile_json(const Profile& profile) {
  Json json{{"format", kFormat},
            {"model", profile.model},
            {"mode", profile.mode},
            {"comm", profile.comm},
            {"ranks", profile.ranks},
            {"batch", profile.batch},
            {"shares_core", profile.shares_core},
            {"forward_ms", profile.compute.forward},
            {"backward_ms", profile.compute.backward},
            {"optimizer_ms", profile.compute.optimizer},
            {"spread", profile.spread},
            {"parameters", Json::array()},
            {"head_start_ms", profile.head_start},
            {"all_reduce", Json::array()}};
  std::vector<double> ready(profile.parameters.size());
  for (const dist::GradientReady& gradient : profile.compute.order) {
    ready[gradient.parameter] = gradient.ms;
  }
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const ProfiledParameter& parameter = profile.parameters[i];
    json["parameters"].push_back({{"name", parameter.name},
                                  {"shape", parameter.shape},
                                  {"bytes", parameter.bytes},
                                  {"ready_ms", ready[i]}});
  }
  for (const dist::LinkPoint& point : profile.all_reduce) {
    json["all_reduce"].push_back(
        {{"bytes", point.bytes}, {"ms", point.ms}, {"cpu_ms", point.cpu_ms}});
  }
  return json.dump(1) + "\n";
}

Profile read_profile(const std::filesystem::path& file) {
  std::ifstream stream = open_to_read(file);
  try {
    return profile_from(Json::parse(stream, no_deeper_than(kDeepest)));
  } catch (const std::exception& error) {
    throw UsageError(fmt::format("{}: no profile.json of a run: {}", file.string(), error.what()));
  }
}

}  // namespace brigade::apps
