#include "dist/watch/stall_report.h"

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace brigade::dist {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(LedgerEntry::Kind kind) {
  return kind == LedgerEntry::Kind::begins ? "begins" : "ends";
}

Json json_of(const LedgerEntry& entry) {
  return {{"seconds", entry.seconds},
          {"step", entry.step},
          {"number", entry.number},
          {"ended", entry.ended},
          {"label", text_of(entry.label)},
          {"bytes", entry.bytes},
          {"dtype", fmt::format("{}", static_cast<DType>(entry.dtype))},
          {"phase", text_of(entry.phase)}};
}

}  // namespace

std::string stall_report(const Diagnosis& diagnosis, const LedgerExchange& ranks,
                         const std::map<int, ThreadStacks>& stacks) {
  Json json{{"what", diagnosis.text}, {"culprits", diagnosis.culprits}, {"ranks", Json::array()}};
  for (const RankView& view : ranks.views()) {
    const LedgerExchange::Peer& peer = ranks.peer(view.rank);
    Json rank{{"rank", view.rank},
              {"process", peer.process},
              {"silent_seconds", view.silent},
              {"unchanged_seconds", view.unchanged},
              {"has_left", view.left},
              {"now", json_of(view.last)},
              {"waits", view.last.waiting()},
              {"collectives", Json::array()}};
    for (const LedgerEntry& entry : peer.entries) {
      Json line{{"event", name_of(entry.kind)}};
      line.update(json_of(entry));
      rank["collectives"].push_back(std::move(line));
    }
    if (const auto found = stacks.find(view.rank); found != stacks.end()) {
      rank["threads"] = found->second.lines();
    }
    json["ranks"].push_back(std::move(rank));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace brigade::dist
