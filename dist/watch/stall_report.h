#pragma once

#include <string>

#include "dist/watch/ledger_exchange.h"

namespace brigade::dist {

/// The text of stall.json: what is wrong, and of every rank its process, where it is, how long it
/// has been silent, and its last collectives.
std::string stall_report(const Diagnosis& diagnosis, const LedgerExchange& ranks);

}  // namespace brigade::dist
