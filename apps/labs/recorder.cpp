#include "apps/labs/recorder.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "apps/report/chrome_trace.h"
#include "apps/report/timeline.h"
#include "apps/training/output_files.h"
#include "apps/training/setup.h"
#include "core/io/atomic_file.h"

namespace brigade::labs {

Recorder::Recorder(const apps::Options& options, dist::Communicator& comm, std::int64_t total_steps)
    : options_(options), comm_(comm) {
  if (options.trace) {
    recording_.emplace(apps::trace_schedule(options, 0, total_steps), comm);
  }
}

void Recorder::start() {
  if (recording_) {
    recording_->recorder.before_step(step_);
    comm_.barrier();
    recording_->clock.start();
  }
}

void Recorder::forward_done() {
  if (recording_) {
    recording_->clock.forward_done();
  }
}

void Recorder::backward_done() {
  if (recording_) {
    recording_->clock.backward_done();
  }
}

void Recorder::finish() {
  if (!recording_) {
    return;
  }
  apps::StepSpans spans = recording_->clock.finish();
  // The marks of the clock name the phases. (In train_mlp the trainer opens a TraceScope per phase;
  // a lab has none, to show the library's calls alone.)
  const auto name = [&](const char* phase, Lane lane, const std::vector<apps::Interval>& times) {
    for (const apps::Interval& time : times) {
      spans.scopes.push_back({phase, lane, 0, time.begin, time.end});
    }
  };
  name("forward", Lane::compute, spans.forwards);
  name("backward", Lane::compute, spans.backwards);
  name("optimizer", Lane::optimizer, {spans.optimizer});
  recording_->recorder.after_step(step_++, std::move(spans));
}

void Recorder::write(const std::string& lab, const std::string& host) const {
  if (!recording_) {
    return;
  }
  const apps::RunTrace trace{.title = fmt::format("{}, {} ranks", lab, comm_.size()),
                             .device = "cpu",
                             .comm = comm_.description(),
                             .caption = "",
                             .contents = {},
                             .ranks = recording_->recorder.gather(host)};
  const std::filesystem::path directory = apps::agree_on_directory(options_, comm_);
  if (comm_.rank() == 0) {
    apps::write_chrome_trace(directory / "trace.json.gz", trace);
    write_file_atomically(directory / "timeline.html", apps::timeline_html(lab, {trace}));
    fmt::print("wrote trace.json.gz and timeline.html in {}; {}\n", directory.string(),
               apps::clocks_text(trace));
  }
  comm_.barrier();  // no rank may end the job while rank 0 still writes
}

}  // namespace brigade::labs
