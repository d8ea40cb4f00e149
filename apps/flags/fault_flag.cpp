#include "apps/flags/fault_flag.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "apps/flags/flag_values.h"
#include "core/error.h"

namespace brigade::apps {
namespace {

using Names = std::vector<std::string>;

struct KindEntry {
  FaultKind kind;
  Names keys;  // beside rank
};

const std::map<std::string, KindEntry>& known_kinds() {
  static const std::map<std::string, KindEntry> kinds{
      {"slow", {FaultKind::slow, {"ms"}}},
      {"skip_param", {FaultKind::skip_param, {"name"}}},
      {"swap_buckets", {FaultKind::swap_buckets, {}}},
      {"other_seed", {FaultKind::other_seed, {}}},
      {"nan", {FaultKind::nan, {"step"}}},
      {"kill", {FaultKind::kill, {"step"}}},
      {"stop", {FaultKind::stop, {"step"}}},
      {"spin", {FaultKind::spin, {"step"}}},
      {"bit_flip", {FaultKind::bit_flip, {"step"}}},
      {"wire_flip", {FaultKind::wire_flip, {"step", "in"}}},
  };
  return kinds;
}

/// One "key=value". `subject`: the flag and the kind. `keys`: the kind's own, beside rank.
void set_key(const std::string& subject, Names keys, const std::string& item, Fault& fault) {
  constexpr std::int64_t kMany = 1'000'000'000;
  constexpr double kLongestDelay = 1e6;
  const std::size_t equals = item.find('=');
  const std::string key = item.substr(0, equals);
  keys.insert(keys.begin(), "rank");
  check_choice(subject, key, keys);
  if (equals == std::string::npos) {
    throw UsageError(fmt::format("{}: expected {}=value, got \"{}\"", subject, key, item));
  }
  const std::string value = item.substr(equals + 1);
  const std::string place = fmt::format("{}:{}", subject, key);
  if (key == "rank") {
    fault.rank = parse_number<std::int64_t>(place, value, 0, kMany);
  } else if (key == "ms") {
    fault.ms = parse_number(place, value, 0.0, kLongestDelay);
  } else if (key == "step") {
    fault.step = parse_number<std::int64_t>(place, value, 1, kMany);
  } else if (key == "in") {
    fault.in = parse_number<std::int64_t>(place, value, 0, 1) == 1;
  } else {
    fault.name = value;
  }
}

}  // namespace

Fault parse_fault(const std::string& flag, const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  std::vector<std::string> names;
  std::ranges::transform(known_kinds(), std::back_inserter(names),
                         [](const auto& kind) { return kind.first; });
  check_choice(flag, name, names);
  const KindEntry& entry = known_kinds().at(name);
  Fault fault;
  fault.kind = entry.kind;
  fault.text = text;
  if (colon != std::string::npos) {
    for (const std::string& item : split_at_commas(text.substr(colon + 1))) {
      set_key(fmt::format("{} {}", flag, name), entry.keys, item, fault);
    }
  }
  return fault;
}

}  // namespace brigade::apps
