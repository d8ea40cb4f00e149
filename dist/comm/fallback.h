#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dist/comm/communicator.h"

namespace brigade::dist {

/// Does `work` on every rank and tells every rank what went wrong: "rank 2: no GPU; rank 5: ...",
/// each different complaint once and at most three; empty when none threw an Error. Collective over
/// `control`. `work` must not make another rank wait for ever when it throws on this one.
std::string complaints_about(Communicator& control, const std::function<void()>& work);

/// What `make` returns, if it returns on every rank. If it throws an Error on one of them, null on
/// every rank, and `why` the complaints: half a group on one transport would wait for its other
/// half. Collective over `control`, with the same condition.
std::unique_ptr<Communicator> if_all_can(Communicator& control,
                                         const std::function<std::unique_ptr<Communicator>()>& make,
                                         std::string& why);

}  // namespace brigade::dist
