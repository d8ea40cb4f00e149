#include "apps/report/chrome_trace.h"

#include <zlib.h>

#include <algorithm>

#include "apps/metrics/figure.h"
#include "apps/report/timeline_layout.h"
#include "core/error.h"
#include "core/io/atomic_file.h"

namespace brigade::apps {

namespace {

constexpr int kFirstCommLane = 10;  // lanes 0 to 3 are those of core/runtime/trace.h

/// Collects events of one rank. All times here are in ms of the run.
class RankEvents {
 public:
  RankEvents(Json& events, const RunTrace& trace, std::size_t rank)
      : events_(events),
        trace_(trace),
        rank_(rank),
        pid_(trace.ranks[rank].rank),
        lanes_(stack_rows(trace.ranks[rank].steps)) {}

  void add() {
    const RankTrace& mine = trace_.ranks[rank_];
    metadata("process_name", 0, {{"name", fmt::format("rank {} ({})", pid_, mine.host)}});
    metadata("process_labels", 0,
             {{"labels", fmt::format("clock error at most {:g} ms", mine.clock_error_ms)}});
    for (const Lane lane : {Lane::compute, Lane::optimizer, Lane::data, Lane::host}) {
      metadata("thread_name", static_cast<int>(lane), {{"name", to_string(lane)}});
    }
    for (std::size_t step = 0; step < mine.steps.size(); ++step) {
      add_step(step);
    }
    const std::size_t count = lanes_.empty() ? 0 : std::ranges::max(lanes_) + 1;
    for (std::size_t lane = 0; lane < count; ++lane) {
      metadata("thread_name", comm_tid(lane), {{"name", fmt::format("communication {}", lane)}});
    }
  }

 private:
  static int comm_tid(std::size_t lane) { return kFirstCommLane + static_cast<int>(lane); }

  void event(const char* phase, const std::string& name, int tid, double at, const Json& rest) {
    events_.push_back({{"ph", phase}, {"name", name}, {"pid", pid_}, {"tid", tid}});
    events_.back()["ts"] = 1e3 * at;  // us
    events_.back().update(rest);
  }

  void metadata(const char* what, int tid, const Json& args) {
    event("M", what, tid, 0.0, {{"args", args}});
  }

  void span(int tid, const std::string& name, const char* category, const Interval& time,
            const Json& args = Json::object()) {
    event("X", name, tid, time.begin,
          {{"cat", category}, {"dur", 1e3 * (time.end - time.begin)}, {"args", args}});
  }

  void add_step(std::size_t number) {
    const StepTrace& step = trace_.ranks[rank_].steps[number];
    const StepSpans& spans = step.spans;
    const auto at = [&spans](double begin, double end) {
      return Interval{spans.start + begin, spans.start + end};
    };
    span(static_cast<int>(Lane::host), fmt::format("step {}", step.step), "step",
         at(0.0, spans.optimizer.end));
    for (const ScopeTimes& scope : spans.scopes) {
      span(static_cast<int>(scope.lane), scope.name, "scope", at(scope.begin, scope.end));
    }
    for (const Interval& wait : spans.waits) {
      span(static_cast<int>(Lane::compute), "wait for all-reduce", "wait",
           at(wait.begin, wait.end));
    }
    for (std::size_t i = 0; i < spans.collectives.size(); ++i) {
      add_collective(number, i, spans.start + spans.collectives[i].ready,
                     at(spans.collectives[i].begin, spans.collectives[i].end));
    }
  }

  /// Two events where it queued, its span, and an arrow from `ready` over its begin to its end.
  void add_collective(std::size_t step, std::size_t index, double ready, const Interval& time) {
    const StepSpans& spans = trace_.ranks[rank_].steps[step].spans;
    const std::string& label = spans.labels[index];
    const std::string name = "allreduce_" + label;
    const auto bytes = static_cast<double>(spans.collectives[index].bytes);
    const std::size_t id = (collectives_ + 1) * trace_.ranks.size() + rank_;
    if (time.begin > ready) {  // buckets queue side by side, which spans of one lane cannot show
      event("b", "queued " + label, 0, ready, {{"cat", "queue"}, {"id", id}});
      event("e", "queued " + label, 0, time.begin, {{"cat", "queue"}, {"id", id}});
    }
    const int tid = comm_tid(lanes_[collectives_]);
    const CollectiveSplit split = split_collective(trace_, rank_, step, index);
    const double ms = time.end - time.begin;
    span(tid, name, "communication", time,
         {{"collective", index},
          {"parameters", contents_of(trace_, label)},
          {"MiB", kMiB * bytes},
          {"algbw_GB_per_s", ms > 0.0 ? bytes / (1e6 * ms) : 0.0},
          {"waiting_for_other_ranks_ms", split.waiting},
          {"transfer_ms", split.transfer}});
    const Json arrow{{"cat", "gradient"}, {"id", id}, {"bp", "e"}};  // to the span around it
    event("s", name, static_cast<int>(Lane::compute), ready, arrow);
    event("t", name, tid, time.begin, arrow);
    event("f", name, static_cast<int>(Lane::compute), time.end, arrow);
    ++collectives_;
  }

  Json& events_;
  const RunTrace& trace_;
  std::size_t rank_;
  int pid_;
  std::vector<std::size_t> lanes_;  // of each collective
  std::size_t collectives_ = 0;
};

std::string gzip(std::string text) {
  constexpr int kGzipWrapper = 16;  // added to the window bits (zlib.h, deflateInit2)
  constexpr int kMemoryLevel = 8;
  z_stream stream{};
  const int started = deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                                   MAX_WBITS + kGzipWrapper, kMemoryLevel, Z_DEFAULT_STRATEGY);
  BRIGADE_CHECK(started == Z_OK, "gzip: zlib cannot start ({})", started);
  std::string packed(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int done = deflate(&stream, Z_FINISH);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  BRIGADE_CHECK(done == Z_STREAM_END, "gzip: zlib stopped early ({})", done);
  return packed;
}

}  // namespace

std::string chrome_trace_json(const RunTrace& trace) {
  Json json{{"displayTimeUnit", "ms"}};
  json["otherData"] = {{"title", trace.title}, {"device", trace.device}, {"comm", trace.comm}};
  Json& events = json["traceEvents"] = Json::array();
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    RankEvents(events, trace, rank).add();
  }
  return json.dump();
}

void write_chrome_trace(const std::filesystem::path& path, const RunTrace& trace) {
  write_file_atomically(path, gzip(chrome_trace_json(trace)));
}

}  // namespace brigade::apps
