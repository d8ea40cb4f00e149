#include "apps/report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "apps/flags/hook_flag.h"
#include "core/config.h"
#include "core/error.h"

namespace brigade::apps {

namespace {

Figures joined(const std::vector<Figures>& parts) {
  Figures all;
  for (const Figures& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Json link_json(const Options& options) {
  const std::optional<dist::LinkModel>& link = options.emulated_link;
  return link ? Json{{"alpha_us", link->alpha_us}, {"gigabytes_per_s", link->gigabytes_per_s}}
              : Json(nullptr);
}

Json tokens_per_second(const RunInfo& info, double samples_per_second) {
  return known(info.shape.gpt.has_value(),
               samples_per_second * static_cast<double>(info.shape.tokens()));
}

/// Model FLOPs utilization: of the operations that the ranks' matrix products can do, the share
/// that the model needs (arXiv:2204.02311, appendix B).
Json mfu(const RunInfo& info, double samples_per_second) {
  const bool measured = info.flops_per_s > 0.0;
  return measured ? Json(samples_per_second * static_cast<double>(info.shape.tokens()) *
                         info.shape.flops_per_token(info.parameters) / info.flops_per_s)
                  : Json(nullptr);
}

/// Sizes and members; times as well if the collectives of a step are exactly the buckets, in their
/// order.
Json buckets_json(const Options& options, const std::vector<BucketInfo>& buckets,
                  const TimingSummary& timing) {
  const std::vector<CollectiveTimes>& times = timing.collectives;
  const bool in_order = options.mode != "naive" && !options.cross_step;  // by parameter, by need
  const bool timed = in_order && std::ranges::equal(times, buckets, {}, &CollectiveTimes::bytes,
                                                    &BucketInfo::bytes);
  Json list = Json::array();
  for (const BucketInfo& bucket : buckets) {
    Json entry{{"index", list.size()},
               {"mib", kMiB * static_cast<double>(bucket.bytes)},
               {"parameters", bucket.parameters}};
    if (timed) {
      const CollectiveTimes& collective = times[list.size()];
      entry["ready_ms"] = collective.ready;
      entry["begin_ms"] = collective.begin;
      entry["end_ms"] = collective.end;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

/// Time per step of each kind of operation, the longest first.
Json operations_json(const std::vector<OperationTime>& operations) {
  Json list = Json::array();
  for (const OperationTime& operation : operations) {
    list.push_back({{"name", operation.name}, {"calls", operation.calls}, {"ms", operation.ms}});
  }
  return list;
}

/// Of Straggler::Reason.
constexpr std::array kReasons{"compute", "data", "network"};

Json straggler_json(const std::optional<Straggler>& slow) {
  return !slow ? Json(nullptr)
               : Json{{"rank", slow->rank},
                      {"reason", kReasons.at(static_cast<std::size_t>(slow->reason))},
                      {"ms", slow->ms},
                      {"others_ms", slow->others},
                      {"share", slow->share}};
}

Figures outcome_figures(const RunInfo& info, const RunResult& result) {
  const std::int64_t steps = info.steps - info.first_step;  // of this run, if it continues another
  const std::string place = fmt::format("{} in {:.1f} s", plural(steps, "step"), result.seconds);
  const Json best = known(result.test.accuracy.has_value(), result.best_accuracy);
  const Json difference = result.difference ? Json(result.difference->value) : Json(nullptr);
  return joined({{{"mode", info.options.mode},
                  {"prefetch", info.prefetches},
                  {"steps_per_epoch", info.steps_per_epoch},
                  {"steps", info.steps},
                  {"seconds", result.seconds},
                  {"loss_first", result.loss_first, place, "loss {:.5f} in the first step"},
                  {"loss_last", result.loss_last, place, "{:.5f} in the last"}},
                 figures_of(result.test, place),
                 {{"accuracy_best", best, place, "best {:.2f} %", kPercent},
                  {"params_hash", fmt::format("{:016x}", result.weights.hash)},
                  {"params_equal", result.weights.equal},
                  {"largest_rank_difference", difference}}});
}

Figures times_figures(const RunInfo& info, const RunResult& result) {
  const TimingSummary& t = result.timing;
  constexpr double kShown = 0.005;  // ms; one rank in mode naive waits as well
  const bool waits = t.communicates || t.median.wait >= kShown;
  const std::string step = fmt::format("step{}", emulated_text(info.options));
  const std::string speed = fmt::format("speed{}", emulated_text(info.options));
  return {{"measured_steps", t.measured_steps},
          {"slowest_rank", t.slowest_rank},
          {"rank_compute_ms", t.rank_compute},
          {"rank_load_ms", t.rank_load},
          {"straggler", straggler_json(t.straggler)},
          {"step_ms", t.step, step, "median {:.2f} ms"},
          {"step_ms_p10", t.step_p10},
          {"step_ms_p90", t.step_p90},
          {"step_ms_p95", t.step_p95, step, "p95 {:.2f} ms"},
          {"forward_ms", t.median.forward, step, "forward {:.2f} ms"},
          {"backward_ms", t.median.backward, step, "backward {:.2f} ms"},
          {"wait_ms", t.median.wait, waits ? step : "", "waiting for gradients {:.2f} ms"},
          {"optimizer_ms", t.median.optimizer, step, "optimizer {:.2f} ms"},
          {"compute_fraction", known(t.step > 0.0, (t.step - t.median.wait) / t.step), step,
           "computing {:.0f} %", kPercent},
          {"samples_per_second", t.samples_per_second, speed,
           info.shape.gpt ? "{:.1f} samples/s" : "{:.0f} samples/s"},
          {"tokens_per_second", tokens_per_second(info, t.samples_per_second), speed,
           "{:.0f} tokens/s"},
          {"mfu", mfu(info, t.samples_per_second), speed, "MFU {:.1f} %", kPercent},
          {"samples_per_second_overall", result.samples_per_second_overall, speed,
           "{:.0f} with loading and reports"}};
}

Figures communication_figures(const RunInfo& info, const RunResult& result) {
  const TimingSummary& t = result.timing;
  const std::string place =
      t.communicates ? fmt::format("communication{}", emulated_text(info.options)) : "";
  const std::string& hook = info.options.comm_hook;
  const double ratio =
      compression_ratio(info.ranks.size, result.traffic.bytes_reduced, result.traffic.bytes_sent);
  return {
      {"comm_ms", t.median.comm, place, "{:.2f} ms per step"},
      {"hidden_ms", t.median.hidden},
      {"exposed_ms", t.median.exposed, place, "exposed {:.2f} ms"},
      {"hidden_fraction", known(t.communicates, t.hidden_fraction), place,
       "hidden behind computation {:.0f} %", kPercent},
      {"collectives_per_step", result.traffic.collectives, place, "collectives {:g}"},
      {"bytes_reduced_per_step", result.traffic.bytes_reduced, place, "{:.2f} MiB reduced", kMiB},
      {"bytes_sent_per_step", result.traffic.bytes_sent, place, "{:.2f} MiB sent by rank 0", kMiB},
      {"compression_ratio", known(result.traffic.bytes_sent > 0.0, ratio),
       hook == "none" ? "" : place,
       fmt::format("{{:.1f}} times less than uncompressed ({})", hook)}};
}

Figures memory_figures(const MemoryUse& memory) {
  const auto part = [](const char* key, std::uint64_t bytes, const char* name) {
    return Figure{fmt::format("memory_bytes/{}", key), bytes, "memory at its peak, largest rank",
                  fmt::format("{} {{:.2f}} MiB", name), kMiB};
  };
  const std::uint64_t growth = memory.process_growth;  // 0: /proc does not tell
  return {{"peak_memory_bytes", memory.peak},
          part("weights", memory.weights, "weights"),
          part("gradients", memory.gradients, "gradients = buckets"),
          part("optimizer_state", memory.optimizer_state, "optimizer state"),
          part("activations_and_rest", memory.activations_and_rest, "activations and rest"),
          part("peak", memory.peak, "sum"),
          {"memory_bytes/process_growth", growth > 0 ? Json(growth) : Json(nullptr)}};
}

}  // namespace

const char* emulated_text(const Options& options) {
  return options.emulated_link ? " (emulated link)" : "";
}

Figures setting_figures(const RunInfo& info) {
  return {{"version", kVersion},
          {"world_size", info.ranks.size},
          {"hosts", info.ranks.hosts},
          {"device", info.device.is_cuda() ? "cuda" : "cpu"},
          {"device_name", info.device_name},
          {"libraries", info.libraries},
          {"comm", info.comm},
          {"emulated_link", link_json(info.options)},
          {"threads", info.threads},
          {"parameters", info.parameters},
          {"widths", info.shape.widths},
          {"train_samples", info.train_size},
          {"test_samples", info.test_size},
          {"global_batch", info.geometry.global_batch()},
          {"flags", info.options.command_line}};
}

Figures figures_of(const RunInfo& info, const RunResult& result) {
  return joined({setting_figures(info), outcome_figures(info, result), times_figures(info, result),
                 communication_figures(info, result), memory_figures(result.memory)});
}

Figures figures_of(const Evaluation& test, const std::string& place) {
  return {{"test_loss", test.loss, place, "test loss {:.5f}"},
          {"bits_per_byte", known(test.bits_per_byte), place, "{:.3f} bits per byte"},
          {"accuracy", known(test.accuracy), place, "accuracy {:.2f} %", kPercent}};
}

std::string summary_json(const RunInfo& info, const RunResult& result) {
  Json json = json_of(figures_of(info, result));
  json["operations"] = operations_json(result.operations);
  json["buckets_rebuilt"] = result.buckets_rebuilt;
  json["buckets"] = buckets_json(info.options, result.buckets, result.timing);
  return json_text(json);
}

Figures figures_of(const RunInfo& info, const Progress& progress) {
  const StepTimes& t = progress.times;
  const auto epoch = static_cast<double>(progress.step) / static_cast<double>(info.steps_per_epoch);
  const std::string step_format = fmt::format("{{:.2f}} ms/step{}", emulated_text(info.options));
  Figures figures{{"step", progress.step},
                  {"epoch", epoch},
                  {"loss", progress.loss, "progress", "loss {:.5f}"},
                  {"seconds", progress.seconds},
                  {"step_ms", t.step, "progress", step_format},
                  {"forward_ms", t.forward},
                  {"backward_ms", t.backward},
                  {"optimizer_ms", t.optimizer},
                  {"comm_ms", t.comm},
                  {"exposed_ms", t.exposed},
                  {"samples_per_second", progress.samples_per_second,
                   info.shape.gpt ? "" : "progress", "{:.0f} samples/s"}};
  if (info.shape.gpt) {
    figures.push_back({"tokens_per_second", tokens_per_second(info, progress.samples_per_second),
                       "progress", "{:.0f} tokens/s"});
    figures.push_back(
        {"mfu", mfu(info, progress.samples_per_second), "progress", "MFU {:.1f} %", kPercent});
  }
  if (progress.difference) {
    figures.push_back({"largest_rank_difference", progress.difference->value, "progress",
                       "ranks differ by {:.3g}"});
  }
  if (info.options.emulated_link) {
    figures.push_back({"emulated_link", link_json(info.options)});
  }
  return figures;
}

MetricsFile::MetricsFile(const std::filesystem::path& path, const std::string& before)
    : path_(path), file_(path, std::ios::trunc), complete_(before.size()) {
  if (!(file_ << before << std::flush)) {
    throw UsageError(
        fmt::format("--out: cannot write {}: {}", path.string(), std::strerror(errno)));
  }
}

bool MetricsFile::write(const RunInfo& info, const Progress& progress,
                        const std::optional<Evaluation>& evaluation) {
  if (!file_) {
    return true;
  }
  Json json = json_of(figures_of(info, progress));
  if (evaluation) {
    json.update(json_of(figures_of(*evaluation, "")));
  }
  const std::string line = json.dump() + "\n";
  if (file_ << line << std::flush) {
    complete_ += line.size();
    return true;
  }
  file_.close();  // tries once more
  std::error_code ignored;
  std::filesystem::resize_file(path_, complete_, ignored);
  return false;
}

void MetricsFile::check() const {
  if (!file_) {
    throw Error(
        fmt::format("cannot write {}: lines are missing; is the disk full?", path_.string()));
  }
}

std::string metrics_until(const std::filesystem::path& path, std::int64_t step) {
  std::ifstream file(path);
  std::string result;
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto found = json.find("step");
    if (found == json.end() || !found->is_number_unsigned() ||
        found->get<std::uint64_t>() > static_cast<std::uint64_t>(step)) {
      break;  // also at a line that a killed process has left unfinished
    }
    result += line + "\n";
  }
  return result;
}

}  // namespace brigade::apps
