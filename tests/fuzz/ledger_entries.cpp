// What the watch reads from another rank's connection, and what it says of it. The first byte says
// in pieces of which size the bytes arrive.
#include <algorithm>
#include <array>
#include <cstring>

#include "dist/watch/diagnosis.h"
#include "dist/watch/ledger_exchange.h"
#include "tests/fuzz/target.h"

namespace {

std::string described(std::string_view label) {
  return std::string(label);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade::dist;
  using brigade::test::require;
  std::span<const std::uint8_t> bytes(data, size);
  const std::size_t piece = brigade::test::take_byte(bytes) + std::size_t{1};
  std::array<RankView, 2> ranks{};
  ranks[1].rank = 1;
  ranks[1].silent = ranks[1].unchanged = 20.0;
  ranks[0].unchanged = 20.0;
  ranks[0].last.number = 7;
  EntryReader reader;
  const auto take = [&](const LedgerEntry& entry) {
    require(entry.kind <= LedgerEntry::Kind::leaves, "a kind there is");
    require(entry.ended <= entry.number, "no more has ended than begun");
    require(text_of(entry.label).size() < entry.label.size(), "a label that ends");
    ranks[1].last = entry;
    ranks[1].left = entry.kind == LedgerEntry::Kind::leaves;
    const auto diagnosis = diagnose(ranks, 10.0, described);
    require(!diagnosis || !diagnosis->text.empty(), "a diagnosis has a text");
    diagnose_lost(ranks, 6.0);
    diagnose_mismatch(ranks[0].last, 0, entry, 1);
  };
  for (bool good = true; good && !bytes.empty();) {
    const auto next = bytes.first(std::min(piece, bytes.size()));
    good = reader.read(std::as_bytes(next), take);
    bytes = bytes.subspan(next.size());
  }
  return 0;
}
