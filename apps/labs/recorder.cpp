#include "apps/labs/recorder.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "apps/metrics/step_recorder.h"
#include "apps/report/chrome_trace.h"
#include "apps/report/timeline.h"
#include "apps/training/program.h"
#include "apps/training/setup.h"
#include "core/io/safetensors.h"

namespace brigade::labs {

using apps::Interval;
using apps::StepSpans;
using Clock = std::chrono::steady_clock;

struct Recorder::Recording {
  /// A transfer() of the current step.
  struct Transfer {
    std::string label;
    std::size_t bytes;
    Clock::time_point begin;
    Clock::time_point end;
  };

  Recording(const apps::Options& flags, dist::Communicator& communicator,
            apps::TraceSchedule schedule)
      : options(flags), comm(communicator), recorder(schedule, clock, communicator) {}

  const apps::Options& options;
  dist::Communicator& comm;
  apps::StepClock clock{kCpu, comm};
  apps::StepRecorder recorder;
  std::vector<Transfer> transfers;
  std::int64_t step = 0;
};

namespace {

/// Names the phases of a step by the marks of its clock. (In train_mlp the trainer opens a
/// TraceScope per phase; a lab has none, to show the library's calls alone.)
void name_phases(StepSpans& spans) {
  const auto name = [&spans](const char* phase, Lane lane, const Interval& time) {
    spans.scopes.push_back({phase, lane, 0, time.begin, time.end});
  };
  for (const Interval& forward : spans.forwards) {
    name("forward", Lane::compute, forward);
  }
  for (const Interval& backward : spans.backwards) {
    name("backward", Lane::compute, backward);
  }
  name("optimizer", Lane::optimizer, spans.optimizer);
}

}  // namespace

Recorder::Recorder(const apps::Options& options, dist::Communicator& comm, int total_steps) {
  if (options.trace) {
    recording_ =
        std::make_unique<Recording>(options, comm, apps::trace_schedule(options, total_steps));
  }
}

Recorder::~Recorder() = default;

void Recorder::start() {
  if (recording_) {
    recording_->recorder.before_step(recording_->step);
    recording_->comm.barrier();
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

void Recorder::transfer(const std::string& label, std::size_t bytes,
                        const std::function<void()>& move) {
  const Clock::time_point begin = Clock::now();
  move();
  if (recording_) {
    recording_->transfers.push_back({label, bytes, begin, Clock::now()});
  }
}

void Recorder::finish() {
  if (!recording_) {
    return;
  }
  StepSpans spans = recording_->clock.finish();
  const auto ms = [&](Clock::time_point when) {
    const auto since_epoch = when - recording_->clock.epoch();
    return std::chrono::duration<double, std::milli>(since_epoch).count() - spans.start;
  };
  for (const Recording::Transfer& one : recording_->transfers) {
    const Interval time{ms(one.begin), ms(one.end)};
    spans.collectives.push_back({time.begin, time.begin, time.end, one.bytes});
    spans.labels.push_back(one.label);
    spans.waits.push_back(time);
  }
  recording_->transfers.clear();
  name_phases(spans);
  recording_->recorder.after_step(recording_->step++, std::move(spans));
}

void Recorder::write(const std::string& lab, const std::string& host) const {
  if (!recording_) {
    return;
  }
  dist::Communicator& comm = recording_->comm;
  const apps::RunTrace trace{.title = fmt::format("{}, {} ranks", lab, comm.size()),
                             .device = "cpu",
                             .comm = comm.description(),
                             .caption = "",
                             .contents = {},
                             .ranks = recording_->recorder.gather(host)};
  const std::filesystem::path directory = apps::agree_on_directory(recording_->options, comm);
  if (comm.rank() == 0) {
    apps::write_chrome_trace(directory / "trace.json.gz", trace);
    write_file_atomically(directory / "timeline.html", apps::timeline_html(lab, {trace}));
    fmt::print("wrote trace.json.gz and timeline.html in {}; clocks are aligned to {:.0f} us\n",
               directory.string(), std::ceil(1e3 * apps::clock_error_ms(trace)));
  }
  comm.barrier();  // no rank may end the job while rank 0 still writes
}

}  // namespace brigade::labs
