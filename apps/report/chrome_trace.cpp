#include "apps/report/chrome_trace.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/io/safetensors.h"

namespace brigade::apps {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kFirstCommLane = 10;  // lanes 0 to 3 are those of core/runtime/trace.h

double us(double ms) {
  return 1e3 * ms;
}

/// Collects events of one rank.
class RankEvents {
 public:
  RankEvents(Json& events, const RunTrace& trace, std::size_t rank)
      : events_(events), trace_(trace), rank_(rank), pid_(trace.ranks[rank].rank) {}

  void add() {
    const RankTrace& mine = trace_.ranks[rank_];
    metadata("process_name", 0, {{"name", concat("rank ", pid_, " (", mine.host, ")")}});
    metadata("process_labels", 0,
             {{"labels", concat("clock error at most ", mine.clock_error_ms, " ms")}});
    metadata("process_sort_index", 0, {{"sort_index", pid_}});
    for (const Lane lane : {Lane::compute, Lane::optimizer, Lane::data, Lane::host}) {
      metadata("thread_name", static_cast<int>(lane), {{"name", to_string(lane)}});
    }
    for (std::size_t step = 0; step < mine.steps.size(); ++step) {
      add_step(step);
    }
    for (std::size_t lane = 0; lane < lanes_busy_until_.size(); ++lane) {
      metadata("thread_name", comm_tid(lane), {{"name", concat("communication ", lane)}});
    }
  }

 private:
  static int comm_tid(std::size_t lane) { return kFirstCommLane + static_cast<int>(lane); }

  void metadata(const char* what, int tid, Json args) {
    events_.push_back({{"ph", "M"}, {"name", what}, {"pid", pid_}, {"tid", tid}});
    events_.back()["args"] = std::move(args);
  }

  void span(int tid, const std::string& name, const char* category, double begin, double end,
            Json args = Json::object()) {
    events_.push_back({{"ph", "X"},
                       {"name", name},
                       {"cat", category},
                       {"pid", pid_},
                       {"tid", tid},
                       {"ts", us(begin)},
                       {"dur", us(end - begin)}});
    events_.back()["args"] = std::move(args);
  }

  /// Buckets wait side by side, which spans of one lane cannot show: an asynchronous pair.
  void queued(const std::string& name, double begin, double end) {
    ++queued_;
    for (const auto& [phase, at] : {std::pair{"b", begin}, std::pair{"e", end}}) {
      events_.push_back({{"ph", phase},
                         {"name", name},
                         {"cat", "queue"},
                         {"id", queued_ * trace_.ranks.size() + rank_},
                         {"pid", pid_},
                         {"ts", us(at)}});
    }
  }

  void counter(const char* name, double at, std::size_t bytes) {
    events_.push_back({{"ph", "C"}, {"name", name}, {"pid", pid_}, {"tid", 0}, {"ts", us(at)}});
    events_.back()["args"] = {{"MiB", static_cast<double>(bytes) / 0x1p20}};
  }

  void arrow(const char* phase, const std::string& name, std::size_t id, int tid, double at) {
    events_.push_back({{"ph", phase},
                       {"name", name},
                       {"cat", "gradient"},
                       {"id", id},
                       {"pid", pid_},
                       {"tid", tid},
                       {"ts", us(at)},
                       {"bp", "e"}});  // binds to the span around it
  }

  void add_step(std::size_t number) {
    const StepTrace& step = trace_.ranks[rank_].steps[number];
    const StepSpans& spans = step.spans;
    span(static_cast<int>(Lane::host), concat("step ", step.step), "step", spans.start,
         spans.start + spans.optimizer.end);
    for (const ScopeTimes& scope : spans.scopes) {
      span(static_cast<int>(scope.lane), scope.name, "scope", spans.start + scope.begin,
           spans.start + scope.end);
    }
    for (const Interval& wait : spans.waits) {
      span(static_cast<int>(Lane::compute), "wait for all-reduce", "wait", spans.start + wait.begin,
           spans.start + wait.end);
    }
    for (const MemorySample& sample : spans.memory) {
      counter("memory in use", spans.start + sample.at, sample.bytes);
    }
    for (std::size_t i = 0; i < spans.collectives.size(); ++i) {
      add_collective(number, i);
    }
    add_bytes_in_flight(spans);
  }

  void add_collective(std::size_t step, std::size_t index) {
    const StepSpans& spans = trace_.ranks[rank_].steps[step].spans;
    const CollectiveTimes& times = spans.collectives[index];
    const std::string name = "allreduce_" + spans.labels[index];
    const double ready = spans.start + times.ready;
    const double begin = spans.start + times.begin;
    const double end = spans.start + times.end;
    const int tid = comm_tid(free_lane(begin, end));
    if (begin > ready) {
      queued("queued " + spans.labels[index], ready, begin);
    }
    const CollectiveSplit split = split_collective(trace_, rank_, step, index);
    const double mib = static_cast<double>(times.bytes) / 0x1p20;
    const double gbps =
        end > begin ? static_cast<double>(times.bytes) / (1e6 * (end - begin)) : 0.0;
    span(tid, name, "communication", begin, end,
         {{"collective", index},
          {"parameters", contents_of(trace_, spans.labels[index])},
          {"MiB", mib},
          {"algbw_GB_per_s", gbps},
          {"waiting_for_other_ranks_ms", split.waiting},
          {"transfer_ms", split.transfer}});
    const std::size_t id = ++arrows_ * trace_.ranks.size() + rank_;
    arrow("s", name, id, static_cast<int>(Lane::compute), ready);
    arrow("t", name, id, tid, begin);
    arrow("f", name, id, static_cast<int>(Lane::compute), end);
  }

  /// The first communication lane with nothing in flight at `begin`, busy until `end` from now on.
  std::size_t free_lane(double begin, double end) {
    const auto lane = std::find_if(lanes_busy_until_.begin(), lanes_busy_until_.end(),
                                   [begin](double until) { return until <= begin; });
    const auto index = static_cast<std::size_t>(lane - lanes_busy_until_.begin());
    lanes_busy_until_.resize(std::max(lanes_busy_until_.size(), index + 1));
    lanes_busy_until_[index] = end;
    return index;
  }

  void add_bytes_in_flight(const StepSpans& spans) {
    std::vector<std::pair<double, std::ptrdiff_t>> changes;
    for (const CollectiveTimes& times : spans.collectives) {
      const auto bytes = static_cast<std::ptrdiff_t>(times.bytes);
      changes.emplace_back(spans.start + times.begin, bytes);
      changes.emplace_back(spans.start + times.end, -bytes);
    }
    std::sort(changes.begin(), changes.end());
    std::ptrdiff_t in_flight = 0;
    for (const auto& [at, bytes] : changes) {
      in_flight += bytes;
      counter("bytes in flight", at,
              static_cast<std::size_t>(std::max<std::ptrdiff_t>(in_flight, 0)));
    }
  }

  Json& events_;
  const RunTrace& trace_;
  std::size_t rank_;
  int pid_;
  std::vector<double> lanes_busy_until_;
  std::size_t arrows_ = 0;
  std::size_t queued_ = 0;
};

struct EndDeflate {
  void operator()(z_stream* stream) const { deflateEnd(stream); }
};

std::string gzip(const std::string& text) {
  constexpr int kGzipWrapper = 16;  // added to the window bits (zlib.h, deflateInit2)
  constexpr int kMemoryLevel = 8;
  z_stream stream{};
  const int started = deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                                   MAX_WBITS + kGzipWrapper, kMemoryLevel, Z_DEFAULT_STRATEGY);
  BRIGADE_CHECK(started == Z_OK, "gzip: zlib cannot start (", started, ")");
  const std::unique_ptr<z_stream, EndDeflate> ended(&stream);
  std::string input = text;
  std::string packed(deflateBound(&stream, static_cast<uLong>(input.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int done = deflate(&stream, Z_FINISH);
  BRIGADE_CHECK(done == Z_STREAM_END, "gzip: zlib stopped early (", done, ")");
  packed.resize(packed.size() - stream.avail_out);
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
