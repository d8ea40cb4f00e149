#include "tests/apps/compare/picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/support/program_run.h"

namespace brigade::test {

using apps::Interval;
using apps::IntervalSet;

Picture::Picture(const std::filesystem::path& packed, int rank) {
  EXPECT_EQ(std::system(("gunzip -kf " + packed.string()).c_str()), 0) << packed;
  const auto trace = nlohmann::json::parse(read(std::filesystem::path(packed).replace_extension()));
  for (const auto& event : trace["traceEvents"]) {
    if (event["pid"] != rank) {
      continue;
    }
    if (event["ph"] == "s") {
      const double ready = event["ts"].get<double>() / 1e3;
      launches.push_back({event["name"], ready, ready});
    }
    if (event["ph"] != "X") {
      continue;
    }
    const std::string category = event["cat"];
    const double begin = event["ts"].get<double>() / 1e3;
    Span span{event["name"], begin, begin + event["dur"].get<double>() / 1e3, 0.0};
    if (category == "step") {
      steps.push_back(span);
    } else if (category == "wait") {
      waits.push_back(span);
    } else if (category == "communication") {
      span.mib = event["args"]["MiB"];
      comm.push_back(span);
    } else if (span.name == "forward") {
      forwards.push_back(span);
    } else if (span.name.starts_with("backward")) {
      backwards.push_back(span);
    } else if (span.name == "optimizer") {
      optimizers.push_back(span);
    } else if (event["tid"] == 0) {
      operations.push_back(span);
    }
  }
  std::erase_if(operations, [this](const Span& one) {
    return std::none_of(backwards.begin(), backwards.end(), [&](const Span& backward) {
      return backward.begin <= one.begin && one.end <= backward.end;
    });
  });
}

Picture Picture::step(std::size_t index) const {
  const Span& whole = steps.at(index);
  Picture part;
  for (const auto spans :
       {&Picture::steps, &Picture::forwards, &Picture::backwards, &Picture::operations,
        &Picture::optimizers, &Picture::waits, &Picture::comm, &Picture::launches}) {
    std::copy_if(
        (this->*spans).begin(), (this->*spans).end(), std::back_inserter(part.*spans),
        [&](const Span& one) { return whole.begin <= one.begin && one.begin < whole.end; });
  }
  return part;
}

IntervalSet Picture::times(const Spans& spans) {
  std::vector<Interval> result;
  std::transform(spans.begin(), spans.end(), std::back_inserter(result),
                 [](const Span& one) { return one.time(); });
  return apps::join(std::move(result));
}

double Picture::step_ms() const {
  return total_length(times(steps));
}

double Picture::comm_ms() const {
  return total_length(communicating());
}

double Picture::exposed_ms() const {
  const IntervalSet compute = subtract(times(steps), times(waits));
  return total_length(subtract(communicating(), compute));
}

}  // namespace brigade::test
