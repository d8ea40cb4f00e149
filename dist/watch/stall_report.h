#pragma once

#include <map>
#include <string>

#include "dist/watch/ledger_exchange.h"
#include "dist/watch/thread_stacks.h"

namespace brigade::dist {

/// The text of stall.json: what is wrong, and of every rank its process, where it is, how long it
/// has been silent, and its last collectives; of those in `stacks`, by rank, what their threads do.
std::string stall_report(const Diagnosis& diagnosis, const LedgerExchange& ranks,
                         const std::map<int, ThreadStacks>& stacks);

}  // namespace brigade::dist
