#include "apps/report/summary.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "apps/flags/hook_flag.h"
#include "core/config.h"
#include "core/error.h"

namespace brigade::apps {

namespace {

using Json = nlohmann::ordered_json;

/// A whole number where it is one: collectives per step are counted, not measured.
Json counted(double value) {
  const double whole = std::round(value);
  return whole == value ? Json(static_cast<std::int64_t>(whole)) : Json(value);
}

Json known(bool condition, double value) {
  return condition ? Json(value) : Json(nullptr);
}

Json accuracy_of(const Evaluation& test) {
  return test.accuracy ? Json(*test.accuracy) : Json(nullptr);
}

Json config_json(const RunInfo& info) {
  const Options& o = info.options;
  return {{"data", o.data},
          {"train_samples", info.train_size},
          {"test_samples", info.test_size},
          {"widths", info.shape.widths},
          {"bias", o.bias},
          {"dtype", o.dtype},
          {"loss", o.loss},
          {"optimizer", o.optimizer},
          {"lr", o.lr},
          {"momentum", known(o.optimizer == "sgd", o.momentum)},
          {"nesterov", o.nesterov},
          {"weight_decay", o.weight_decay},
          {"seed", o.seed},
          {"shuffle", o.shuffle},
          {"prefetch", info.prefetches},
          {"batch", o.batch},
          {"accum", o.accum},
          {"bucket_mb", o.bucket_mb},
          {"bucket_by", o.bucket_by},
          {"first_bucket_mb", o.first_bucket_mb.value_or(o.bucket_mb)},
          {"last_bucket_mb", o.last_bucket_mb.value_or(o.bucket_mb)},
          {"split_tensors", o.split_tensors},
          {"piece_mb", o.piece_mb.value_or(o.bucket_mb)},
          {"optimizer_overlap", o.optimizer_overlap},
          {"cross_step", o.cross_step},
          {"fused_update", o.updates_in_backward},
          {"rebuild_buckets", o.rebuild_buckets},
          {"comm_hook", o.comm_hook},
          {"tf32", o.tf32},
          {"replay", o.replay},
          {"init", o.init},
          {"init_sync", o.init_sync},
          {"sync", o.sync},
          {"find_unused", o.find_unused},
          {"static_graph", o.static_graph},
          {"uneven", o.uneven},
          {"clip_norm", known(o.clip_norm > 0.0, o.clip_norm)},
          {"inject", o.inject ? Json(o.inject->text) : Json(nullptr)},
          {"steps_per_epoch", info.steps_per_epoch},
          {"warmup", o.warmup}};
}

Json difference_json(const std::optional<dist::RankDifference>& difference) {
  return difference ? Json(difference->value) : Json(nullptr);
}

Json link_json(const Options& options) {
  const std::optional<dist::LinkModel>& link = options.emulated_link;
  return link ? Json{{"alpha_us", link->alpha_us}, {"gbps", link->gbps}} : Json(nullptr);
}

/// Sizes and members; times as well if the collectives of a step are exactly the buckets' pieces,
/// in their order: from the first piece's begin to the last one's end.
Json buckets_json(const Options& options, const std::vector<BucketInfo>& buckets,
                  const TimingSummary& timing) {
  std::vector<std::size_t> pieces;
  for (const BucketInfo& bucket : buckets) {
    pieces.insert(pieces.end(), bucket.pieces.begin(), bucket.pieces.end());
  }
  const std::vector<CollectiveTimes>& times = timing.collectives;
  const bool in_order = options.mode != "naive" && !options.cross_step;  // by parameter, by need
  const bool timed =
      in_order && std::equal(times.begin(), times.end(), pieces.begin(), pieces.end(),
                             [](const CollectiveTimes& collective, std::size_t bytes) {
                               return collective.bytes == bytes;
                             });
  Json list = Json::array();
  std::size_t next = 0;
  for (const BucketInfo& bucket : buckets) {
    Json entry{{"index", list.size()},
               {"mib", static_cast<double>(bucket.bytes) / 0x1p20},
               {"pieces", bucket.pieces.size()},
               {"parameters", bucket.parameters}};
    const std::size_t first = next;
    next += bucket.pieces.size();
    if (timed) {
      entry["ready_ms"] = times[first].ready;
      entry["begin_ms"] = times[first].begin;
      entry["end_ms"] = times[next - 1].end;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

/// Null without --profile.
Json profile_json(const RunInfo& info, const RunResult& result) {
  if (!info.limits) {
    return nullptr;
  }
  const StepShape shape = info.step_shape();
  const std::map<std::string, OperationWork> works = work_of_step(shape);
  Json operations = Json::array();
  for (const OperationTime& one : result.operations) {
    const auto work = works.find(one.name);
    const bool known = work != works.end();
    operations.push_back(
        {{"name", one.name},
         {"calls", one.calls},
         {"ms", one.ms},
         {"flop", known ? Json(work->second.flop) : Json(nullptr)},
         {"bytes", known ? Json(work->second.bytes) : Json(nullptr)},
         {"floor_ms", known ? Json(floor_ms(work->second, *info.limits)) : Json(nullptr)}});
  }
  return {{"gemm_gflops", info.limits->gflops},
          {"memory_gbps", info.limits->gbps},
          {"operations", operations}};
}

void add_utilisation(const RunInfo& info, double step_ms, Json& json) {
  const StepShape shape = info.step_shape();
  json["gemm_gflops"] = info.gemm_gflops;
  json["model_flop"] = model_flop(shape);
  json["model_flop_utilisation"] = model_flop_utilisation(shape, info.gemm_gflops, step_ms);
}

}  // namespace

std::string summary_json(const RunInfo& info, const RunResult& result) {
  const TimingSummary& t = result.timing;
  Json json{
      {"version", kVersion},
      {"mode", info.options.mode},
      {"world_size", info.ranks.size},
      {"hosts", info.ranks.hosts},
      {"device", info.device.is_cuda() ? "cuda" : "cpu"},
      {"device_name", info.device_name},
      {"libraries", info.libraries},
      {"comm", info.comm},
      {"emulated_link", link_json(info.options)},
      {"threads", info.threads},
      {"parameters", info.parameters},
      {"global_batch", info.geometry.global_batch()},
      {"steps", info.steps},
      {"loss_first", result.loss_first},
      {"loss_last", result.loss_last},
      {"test_loss", result.test.loss},
      {"accuracy", accuracy_of(result.test)},
      {"accuracy_best", known(result.test.accuracy.has_value(), result.best_accuracy)},
      {"seconds", result.seconds},
      {"samples_per_second", t.samples_per_second},
      {"samples_per_second_overall", result.samples_per_second_overall},
      {"replayed_micro_batches", result.replays},
      {"collectives_per_step", counted(result.collectives_per_step)},
      {"bytes_reduced_per_step", counted(result.bytes_reduced_per_step)},
      {"bytes_sent_per_step", counted(result.bytes_sent_per_step)},
      {"compression_ratio", known(result.bytes_sent_per_step > 0.0,
                                  compression_ratio(info.ranks.size, result.bytes_reduced_per_step,
                                                    result.bytes_sent_per_step))},
      {"params_hash", fmt::format("{:016x}", result.params_hash)},
      {"params_equal", result.params_equal},
      {"largest_rank_difference", difference_json(result.difference)},
      {"peak_memory_bytes", result.memory.peak},
      {"memory_bytes", memory_json(result.memory)},
      {"profile", profile_json(info, result)},
      {"kernel_choices", result.choices},
      {"measured_steps", t.measured_steps},
      {"slowest_rank", t.slowest_rank},
      {"rank_compute_ms", t.rank_compute},
      {"step_ms", t.step},
      {"step_ms_p10", t.step_p10},
      {"step_ms_p90", t.step_p90},
      {"step_ms_p95", t.step_p95},
      {"forward_ms", t.median.forward},
      {"backward_ms", t.median.backward},
      {"optimizer_ms", t.median.optimizer},
      {"wait_ms", t.median.wait},
      {"comm_ms", t.median.comm},
      {"hidden_ms", t.median.hidden},
      {"exposed_ms", t.median.exposed},
      {"hidden_fraction", known(t.communicates, t.hidden_fraction)}};
  add_utilisation(info, t.step, json);
  json["config"] = config_json(info);
  json["buckets_rebuilt"] = result.buckets_rebuilt;
  json["flags"] = info.options.command_line;
  json["buckets"] = buckets_json(info.options, result.buckets, t);
  // A path among the flags may be any bytes; JSON must be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

MetricsFile::MetricsFile(const std::filesystem::path& path)
    : path_(path), file_(path, std::ios::trunc) {
  if (!file_) {
    throw UsageError(concat("--out: cannot write ", path.string(), ": ", std::strerror(errno)));
  }
}

bool MetricsFile::write(const RunInfo& info, const Progress& progress,
                        const std::optional<Evaluation>& evaluation) {
  if (!file_) {
    return true;
  }
  const StepTimes& t = progress.times;
  Json json{
      {"step", progress.step},
      {"epoch", static_cast<double>(progress.step) / static_cast<double>(info.steps_per_epoch)},
      {"loss", progress.loss},
      {"seconds", progress.seconds},
      {"step_ms", t.step},
      {"forward_ms", t.forward},
      {"backward_ms", t.backward},
      {"optimizer_ms", t.optimizer},
      {"comm_ms", t.comm},
      {"exposed_ms", t.exposed},
      {"samples_per_second", progress.samples_per_second},
      {"model_flop_utilisation",
       model_flop_utilisation(info.step_shape(), info.gemm_gflops, t.step)}};
  if (progress.difference) {
    json["largest_rank_difference"] = difference_json(progress.difference);
  }
  if (info.options.emulated_link) {
    json["emulated_link"] = link_json(info.options);
  }
  if (evaluation) {
    json["test_loss"] = evaluation->loss;
    json["accuracy"] = accuracy_of(*evaluation);
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
    throw Error(concat("cannot write ", path_.string(), ": lines are missing; is the disk full?"));
  }
}

std::filesystem::path make_run_directory(const std::string& requested) {
  std::error_code error;
  if (!requested.empty()) {
    std::filesystem::create_directories(requested, error);
    if (error) {
      throw UsageError(
          concat("--out ", requested, ": cannot make the directory: ", error.message()));
    }
    return requested;
  }
  std::filesystem::create_directories("runs", error);
  // create_directory is mkdir: of two runs that try the same number only one succeeds.
  for (int n = 1; !error; ++n) {
    std::filesystem::path candidate = std::filesystem::path("runs") / std::to_string(n);
    if (std::filesystem::create_directory(candidate, error)) {
      return candidate;
    }
  }
  throw UsageError(concat("runs: cannot make a directory for this run: ", error.message(),
                          "; choose another place with --out DIR"));
}

}  // namespace brigade::apps
