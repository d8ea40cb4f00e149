#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dist/communicator.h"

namespace brigade::dist {

/// What `make` returns, if it returns on every rank. If it throws an Error on one of them, null on
/// every rank, and `why` says which was the lowest and what it complained of: half a group on one
/// transport would wait for its other half. Collective over `control`. `make` must not make another
/// rank wait for ever when it throws on this one.
std::unique_ptr<Communicator> if_all_can(Communicator& control,
                                         const std::function<std::unique_ptr<Communicator>()>& make,
                                         std::string& why);

}  // namespace brigade::dist
