#include "dist/watch/ledger.h"

#include <algorithm>
#include <utility>

#include "dist/comm/communicator.h"

namespace brigade::dist {
namespace {

/// Cut to what fits; always ends in a null.
void assign(LedgerEntry::Name& name, std::string_view text) {
  name.fill('\0');
  std::ranges::copy(text.substr(0, name.size() - 1), name.begin());
}

}  // namespace

std::string_view text_of(const LedgerEntry::Name& name) {
  const auto* end = std::ranges::find(name, '\0');
  return {name.data(), static_cast<std::size_t>(end - name.data())};
}

void Ledger::begin_step(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  current_.step = step;
}

void Ledger::collective_begins(std::string_view label, const Tensor& payload) {
  const std::lock_guard lock(mutex_);
  ++current_.number;
  current_.bytes = payload.nbytes();
  current_.dtype = static_cast<std::uint32_t>(payload.dtype());
  assign(current_.label, label);
  append(LedgerEntry::Kind::begins);
}

void Ledger::collective_ends() noexcept {
  const std::lock_guard lock(mutex_);
  ++current_.ended;
  append(LedgerEntry::Kind::ends);
}

std::vector<LedgerEntry> Ledger::take_new() {
  const std::lock_guard lock(mutex_);
  const std::deque<LedgerEntry> taken = std::exchange(new_, {});
  return {taken.begin(), taken.end()};
}

LedgerEntry Ledger::now(LedgerEntry::Kind kind) const {
  const std::lock_guard lock(mutex_);
  return filled_in(kind);
}

LedgerEntry Ledger::filled_in(LedgerEntry::Kind kind) const {
  LedgerEntry entry = current_;
  entry.kind = kind;
  entry.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const char* outermost = scopes_.outermost.load(std::memory_order_relaxed);
  const char* innermost = scopes_.innermost.load(std::memory_order_relaxed);
  assign(entry.phase, outermost == nullptr ? "" : outermost);
  const std::string_view inner = innermost == nullptr ? "" : innermost;
  const bool waits =
      inner == kBarrier || inner == kAllGather || inner == kBroadcast || inner == kDeviceWait;
  entry.waits = waits ? 1 : 0;
  return entry;
}

void Ledger::append(LedgerEntry::Kind kind) {
  if (new_.size() == kKept) {
    new_.pop_front();
  }
  new_.push_back(filled_in(kind));
}

}  // namespace brigade::dist
