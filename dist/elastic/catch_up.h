#pragma once

#include <cstdint>

#include "dist/checkpoint/checkpoints.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// Brings all ranks to the same step after a step that failed on some of them, and returns the
/// number of steps done, the same on every rank. `mine`: those that this rank has done, counted
/// when the optimizer's update returns.
///
/// A rank that has updated its weights had all averaged gradients, so its step counts. The others
/// take over its weights and the optimizer's state, which are nowhere else, and which are still
/// those before the step where a rank had not updated them. So no agreement is needed before an
/// update, and a step costs nothing more. Collective.
std::int64_t catch_up(std::int64_t mine, const TrainingState& state, Communicator& comm);

}  // namespace brigade::dist
