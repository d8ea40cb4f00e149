#include "apps/plan/profile.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/io/safetensors.h"

namespace brigade::apps {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "brigade-profile-1";

/// A finite number that is not negative.
double duration(const Json& json, const char* key) {
  const double value = json.at(key).get<double>();
  if (!(value >= 0.0)) {
    throw UsageError(message_of("expected ", key, " of at least 0, got ", json.at(key).dump()));
  }
  return value;
}

Profile profile_from(const Json& json) {
  if (json.at("format") != kFormat) {
    throw UsageError(message_of("expected format ", kFormat, ", got ", json.at("format").dump()));
  }
  Profile profile{.model = json.at("model"),
                  .mode = json.at("mode"),
                  .comm = json.at("comm"),
                  .ranks = json.at("ranks"),
                  .batch = json.at("batch"),
                  .shares_core = json.at("shares_core"),
                  .compute = {.forward = duration(json, "forward_ms"),
                              .backward = duration(json, "backward_ms"),
                              .optimizer = duration(json, "optimizer_ms"),
                              .order = {}},
                  .spread = duration(json, "spread"),
                  .parameters = {},
                  .all_reduce = {}};
  for (const Json& parameter : json.at("parameters")) {
    profile.compute.order.push_back({profile.parameters.size(), duration(parameter, "ready_ms")});
    profile.parameters.push_back({.name = parameter.at("name"),
                                  .bytes = parameter.at("bytes"),
                                  .shape = parameter.at("shape")});
  }
  std::ranges::stable_sort(profile.compute.order, {}, &dist::GradientReady::ms);
  for (const Json& point : json.at("all_reduce")) {
    profile.all_reduce.push_back(
        {duration(point, "bytes"), duration(point, "ms"), duration(point, "cpu_ms")});
  }
  const auto larger = [](const dist::LinkPoint& a, const dist::LinkPoint& b) {
    return a.bytes >= b.bytes;
  };
  if (profile.ranks < 1 || profile.batch < 1 || profile.parameters.empty() ||
      profile.compute.forward + profile.compute.backward <= 0.0 ||
      (profile.ranks > 1 && profile.all_reduce.empty()) ||
      std::ranges::adjacent_find(profile.all_reduce, larger) != profile.all_reduce.end()) {
    throw UsageError("expected ranks, a batch, parameters, times and all-reduces of growing size");
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
  const std::string text{std::istreambuf_iterator(stream), {}};
  try {
    return profile_from(Json::parse(text));
  } catch (const Json::exception& error) {
    throw UsageError(message_of(file.string(), ": no profile.json of a run: ", error.what()));
  } catch (const UsageError& error) {
    throw UsageError(message_of(file.string(), ": no profile.json of a run: ", error.what()));
  }
}

}  // namespace brigade::apps
