#pragma once

#include "apps/flags/options.h"
#include "apps/report/console.h"
#include "apps/training/runtime.h"
#include "dist/comm/communicator.h"
#include "nn/data/dataset.h"

namespace brigade::apps {

/// A link on which the all-reduces of a backward, `bytes` in `collectives` pieces over `ranks`
/// ranks, take `ms`. Latency is 10 us, or less so that it takes at most a tenth of `ms`; bandwidth
/// takes the rest.
dist::LinkModel link_as_slow_as(double ms, std::size_t bytes, std::size_t collectives, int ranks);

/// Times backward on every rank at the same time and returns the link on which communication takes
/// as long on rank 0; says so. Collective.
dist::LinkModel choose_link(const Options& options, const data::Dataset& dataset, Device device,
                            dist::Communicator& comm, const Console& console);

/// With --emulate-link and more than one rank: emulates that link in runtime.comm. With `auto`
/// chooses it first and sets options.emulated_link. One rank gets a warning. Collective.
void emulate_link(Options& options, const data::Dataset& dataset, Runtime& runtime,
                  const Console& console);

}  // namespace brigade::apps
