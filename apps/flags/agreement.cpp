// What the parsed flags mean to the ranks: how they synchronise, and what must be alike on all.
#include <fmt/format.h>

#include "apps/flags/bucket_flags.h"
#include "apps/flags/hook_flag.h"
#include "apps/flags/options.h"
#include "core/error.h"

namespace brigade::apps {

std::optional<dist::UpdateDeadline> Options::in_flight() const {
  if (cross_step) {
    return dist::UpdateDeadline::next_read;
  }
  return optimizer_overlap ? std::optional(dist::UpdateDeadline::end_of_backward) : std::nullopt;
}

dist::DataParallelOptions Options::data_parallel() const {
  dist::DataParallelOptions result;
  result.mode = deferred_sync() ? dist::SyncMode::overlap : dist::parse_sync_mode(mode);
  set_buckets(*this, result);
  result.hook = make_comm_hook("--comm-hook", comm_hook);
  result.init_sync = init_sync == "verify" ? dist::InitSync::verify : dist::InitSync::broadcast;
  if (find_unused || static_graph) {
    result.unused = static_graph ? dist::UnusedPolicy::find_once : dist::UnusedPolicy::find;
  }
  return result;
}

// NOLINTNEXTLINE(readability-function-size): one line per flag
std::vector<std::string> Options::agreement() const {
  // A number with as many digits as it takes to tell it from every other.
  const auto flag = [](const char* name, const auto& value) {
    return fmt::format("--{} {}", name, value);
  };
  std::string widths;
  for (const std::int64_t width : hidden) {
    widths += concat(widths.empty() ? "" : ",", width);
  }
  std::string compared;
  for (const std::string& one : modes) {
    compared += one + ' ';
  }
  return {flag("mode", mode),
          flag("modes", compared),
          flag("rounds", rounds),
          flag("accum", accum),
          flag("bucket-mb", bucket_mb),
          flag("bucket-by", bucket_by),
          flag("first-bucket-mb", first_bucket_mb.value_or(bucket_mb)),
          flag("last-bucket-mb", last_bucket_mb.value_or(bucket_mb)),
          flag("split-tensors", split_tensors ? "on" : "off"),
          flag("piece-mb", piece_mb.value_or(bucket_mb)),
          flag("optimizer-overlap", optimizer_overlap ? "on" : "off"),
          flag("cross-step", cross_step ? "on" : "off"),
          flag("fused-update", fused_update),
          flag("no-rebuild", rebuild_buckets ? "off" : "on"),
          flag("comm-hook", comm_hook),
          flag("init-sync", init_sync),
          flag("reduce", reduce),
          flag("profile", profile ? "on" : "off"),
          flag("tf32", tf32 ? "on" : "off"),
          flag("replay", replay ? "on" : "off"),
          flag("cuda-graph", cuda_graph ? "on" : "off"),
          flag("dtype", dtype),
          flag("sync", sync),
          flag("find-unused", find_unused ? "on" : "off"),
          flag("static-graph", static_graph ? "on" : "off"),
          flag("data", data),
          flag("train-samples", train_samples),
          flag("no-shuffle", shuffle ? "off" : "on"),
          flag("uneven", uneven),
          flag("batch", batch),
          flag("epochs", epochs),
          flag("steps", steps),
          flag("hidden", widths),
          flag("width", fmt::format("{} -> {}", synthetic_in, synthetic_out)),
          flag("no-bias", bias ? "off" : "on"),
          flag("loss", loss),
          flag("optimizer", optimizer),
          flag("lr", lr),
          flag("momentum", momentum),
          flag("nesterov", nesterov ? "on" : "off"),
          flag("weight-decay", weight_decay),
          flag("clip-norm", clip_norm),
          flag("seed", seed),
          flag("device", device),
          flag("comm", comm),
          flag("trace-ring", trace_ring ? "on" : "off"),
          flag("emulate-link",
               emulated_link ? fmt::format("{},{}", emulated_link->alpha_us, emulated_link->gbps)
                             : "off"),
          flag("inject", inject ? inject->text : "off"),
          flag("log-every", log_every),
          flag("eval-every", eval_every),
          flag("warmup", warmup),
          flag("trace", trace ? "on" : "off"),
          flag("trace-steps", trace_steps),
          flag("trace-skip", trace_skip)};
}

}  // namespace brigade::apps
