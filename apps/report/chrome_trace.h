#pragma once

#include <filesystem>
#include <string>

#include "apps/metrics/run_trace.h"

namespace brigade::apps {

/// The trace in the format of chrome://tracing and Perfetto (ui.perfetto.dev): pid = rank, one lane
/// (tid) each for compute, optimizer, data and host, one per collective in flight; arrows from the
/// moment a bucket's gradients are final over its start to its end. Times in µs on rank 0's clock.
std::string chrome_trace_json(const RunTrace& trace);

/// Writes it, compressed, as PATH (trace.json.gz). Errors: as AtomicFile.
void write_chrome_trace(const std::filesystem::path& path, const RunTrace& trace);

}  // namespace brigade::apps
