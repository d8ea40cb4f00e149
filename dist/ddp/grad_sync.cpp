#include "dist/ddp/grad_sync.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "dist/ddp/flat_sync.h"
#include "dist/ddp/naive_sync.h"
#include "dist/ddp/reducer.h"

namespace brigade::dist {

namespace {

/// By the number of their SyncMode.
constexpr std::array<std::string_view, 4> kNames{"naive", "flat", "per_param", "overlap"};

}  // namespace

SyncMode parse_sync_mode(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name);
  if (found == kNames.end()) {
    throw UsageError(
        fmt::format("mode: expected naive, flat, per_param or overlap, got '{}'", name));
  }
  return static_cast<SyncMode>(found - kNames.begin());
}

std::string_view to_string(SyncMode mode) {
  return kNames.at(static_cast<std::size_t>(mode));
}

std::unique_ptr<GradSync> make_grad_sync(SyncMode mode, SyncContext context) {
  if (mode == SyncMode::naive) {
    if (context.hook.name() != PlainAllReduce().name()) {
      throw UsageError(
          fmt::format("naive: expected communication hook none, got {}: hooks compress buckets, "
                      "and naive has none; use flat, per_param or overlap",
                      context.hook.name()));
    }
    return std::make_unique<NaiveSync>(context);
  }
  if (mode == SyncMode::flat) {
    return std::make_unique<FlatSync>(context);
  }
  return std::make_unique<Reducer>(context);
}

}  // namespace brigade::dist
