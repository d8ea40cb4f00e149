#pragma once

#include "apps/flags/options.h"
#include "apps/report/console.h"
#include "dist/comm/communicator.h"
#include "nn/data/dataset.h"

namespace brigade::apps {

/// A link on which the all-reduces of a backward, `bytes` in `collectives` pieces over `ranks`
/// ranks, take `ms`: a tenth of that at most is latency (10 us where it is less), the rest bandwidth.
dist::LinkModel link_as_slow_as(double ms, std::size_t bytes, std::size_t collectives, int ranks);

/// With --emulate-link auto: times backward on every rank at the same time, chooses the link on
/// which communication takes as long on rank 0, emulates it on all ranks, sets
/// options.emulated_link and says so. Does nothing otherwise or with one rank. Collective.
void choose_link(Options& options, const data::Dataset& dataset, Device device,
                 dist::Communicator& comm, const Console& console);

}  // namespace brigade::apps
