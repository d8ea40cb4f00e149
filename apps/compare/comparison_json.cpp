// compare.json: a comparison for programs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/compare/comparison_report.h"
#include "apps/flags/hook_flag.h"
#include "core/config.h"

namespace brigade::apps {

namespace {

using Json = nlohmann::ordered_json;

Json link_json(const Options& options) {
  const auto& link = options.emulated_link;
  return link ? Json{{"alpha_us", link->alpha_us}, {"gigabytes_per_s", link->gigabytes_per_s}}
              : Json(nullptr);
}

Json mode_json(const Comparison& result, const ModeResult& mode, int ranks) {
  const TimingSummary& t = mode.timing;
  // The ideal line neither communicates nor is compared with anything.
  const bool real = &mode != &result.ideal;
  const auto known = [real](const auto& value) { return real ? Json(value) : Json(nullptr); };
  const double compression =
      compression_ratio(ranks, mode.bytes_per_step, mode.bytes_sent_per_step);
  return Json{{"mode", mode.mode},
              {"step_ms", t.step},
              {"step_ms_p10", t.step_p10},
              {"step_ms_p90", t.step_p90},
              {"forward_ms", t.median.forward},
              {"backward_ms", t.median.backward},
              {"optimizer_ms", t.median.optimizer},
              {"wait_ms", known(t.median.wait)},
              {"comm_ms", known(t.median.comm)},
              {"exposed_ms", known(t.median.exposed)},
              {"hidden_fraction", known(t.hidden_fraction)},
              {"slower_beside_comm",
               mode.beside.operations > 0 ? Json(mode.beside.slower()) : Json(nullptr)},
              {"collectives_per_step", known(mode.collectives_per_step)},
              {"bytes_per_step", known(mode.bytes_per_step)},
              {"bytes_sent_per_step", known(mode.bytes_sent_per_step)},
              {"compression_ratio", compression > 0.0 ? known(compression) : Json(nullptr)},
              {"samples_per_second", t.samples_per_second},
              {"speed_up", speed_up(result, mode)},
              {"params_hash", known(fmt::format("{:016x}", mode.hash))},
              {"ranks_equal", known(mode.ranks_equal)},
              {"difference_to_first_mode", known(mode.against_first)},
              {"difference_to_one_rank", known(mode.against_one_rank)}};
}

}  // namespace

std::string comparison_json(const ComparisonInfo& info, const Comparison& result) {
  const double bound = bound_ms(info, result);
  Json json{{"version", kVersion},
            {"world_size", info.ranks.size},
            {"hosts", info.ranks.hosts},
            {"device", info.device.is_cuda() ? "cuda" : "cpu"},
            {"comm", info.comm},
            {"emulated_link", link_json(info.options)},
            {"libraries", info.libraries},
            {"widths", info.shape.widths},
            {"parameters", info.parameters},
            {"dtype", info.options.dtype},
            {"batch", info.options.batch},
            {"accum", info.options.accum},
            {"bucket_mb", info.options.bucket_mb},
            {"comm_hook", info.options.comm_hook},
            {"bucket_by", info.options.bucket_by},
            {"split_tensors", info.options.split_tensors},
            {"rounds", info.options.rounds},
            {"steps", info.options.steps},
            {"timed_steps", result.timed_steps},
            {"equal", result.equal},
            {"peak_memory_bytes", result.peak_memory_bytes},
            {"one_rank_samples_per_second", result.alone_samples_per_second},
            {"bound_ms", bound > 0.0 ? Json(bound) : Json(nullptr)},
            {"reading", reading(info, result)}};
  for (const ModeResult& mode : result.modes) {
    json["modes"].push_back(mode_json(result, mode, info.ranks.size));
  }
  json["ideal"] = mode_json(result, result.ideal, info.ranks.size);
  json["flags"] = info.options.command_line;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace brigade::apps
