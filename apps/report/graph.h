#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "autograd/variable.h"
#include "dist/ddp/grad_averager.h"

namespace brigade::apps {

/// The autograd graph of `loss` for Graphviz. A parameter has the colour of its bucket and its
/// place in the order in which gradients become ready.
std::string graph_of(const autograd::Variable& loss, const dist::GradAverager& data_parallel);

/// Draws the graph in `file` with the program dot: FILE.svg beside it, whose path is returned.
/// Nothing if there is no dot, or it fails.
std::optional<std::filesystem::path> draw_graph(const std::filesystem::path& file);

}  // namespace brigade::apps
