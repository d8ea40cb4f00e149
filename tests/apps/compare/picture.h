#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/metrics/intervals.h"

namespace brigade::test {

/// What one rank's picture shows, read back from its trace file. Times in ms.
struct Picture {
  struct Span {
    std::string name;
    double begin = 0.0;
    double end = 0.0;
    double mib = 0.0;  ///< of a collective

    apps::Interval time() const { return {begin, end}; }
  };
  using Spans = std::vector<Span>;

  Spans steps;
  Spans forwards;    ///< one per micro-batch
  Spans backwards;   ///< likewise, with everything that brings gradients together
  Spans operations;  ///< of backward: "linear 0.weight", "relu", ...
  Spans optimizers;
  Spans waits;
  Spans comm;
  Spans launches;  ///< when a collective's data was ready and it was called for; without length

  /// Of `rank`, in a trace.json.gz.
  Picture(const std::filesystem::path& packed, int rank);

  /// What begins within step number `index` of this picture.
  Picture step(std::size_t index) const;

  /// When collectives are in flight, operations of backward run, nothing is computed at all.
  apps::IntervalSet communicating() const { return times(comm); }
  apps::IntervalSet operating() const { return times(operations); }

  /// The figures of a picture of one step, as apps/NUMBERS.md defines them.
  double step_ms() const;
  double comm_ms() const;
  double exposed_ms() const;

  static apps::IntervalSet times(const Spans& spans);

 private:
  Picture() = default;
};

}  // namespace brigade::test
