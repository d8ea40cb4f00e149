#include "apps/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "apps/flags/hook_flag.h"
#include "core/config.h"

namespace brigade::apps {

namespace {

constexpr std::size_t kShownBuckets = 12;

double mib(std::size_t bytes) {
  return static_cast<double>(bytes) / 0x1p20;
}

/// 1234567 -> "1,234,567"
std::string grouped(std::int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) {
      text.push_back(',');
    }
    text.push_back(digits[i]);
  }
  return text;
}

std::string duration(double seconds) {
  const std::int64_t whole = std::llround(seconds);
  if (whole < 60) {
    return fmt::format("{} s", whole);
  }
  if (whole < 3600) {
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  }
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string plural(std::int64_t count, const char* word, const char* ending = "s") {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : ending);
}

std::string optimizer_text(const Options& o) {
  std::string text = fmt::format("{} lr {:g}", o.optimizer, o.lr);
  if (o.optimizer == "sgd" && o.momentum > 0.0) {
    text += fmt::format(" momentum {:g}{}", o.momentum, o.nesterov ? " (Nesterov)" : "");
  }
  if (o.weight_decay > 0.0) {
    text += fmt::format(" weight decay {:g}", o.weight_decay);
  }
  return o.clip_norm > 0.0 ? text + fmt::format(" clip norm {:g}", o.clip_norm) : text;
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kModeTexts{{
    {"naive", "after backward, one blocking all-reduce per parameter"},
    {"flat", "after backward, one all-reduce per bucket"},
    {"per_param", "during backward, one asynchronous all-reduce per parameter"},
    {"overlap", "during backward, one asynchronous all-reduce per full bucket"},
    {"no_sync", "only the last micro-batch of a step communicates, as overlap does"},
}};

std::string_view mode_text(const std::string& mode) {
  const auto entry = std::find_if(kModeTexts.begin(), kModeTexts.end(),
                                  [&mode](const auto& known) { return known.first == mode; });
  return entry == kModeTexts.end() ? "" : entry->second;
}

std::string parameter_range(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 4;
  if (names.size() > kShown) {
    return fmt::format("{}, {} ... {} ({} parameters)", names[0], names[1], names.back(),
                       names.size());
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void print_buckets(const Console& console, const std::vector<BucketInfo>& buckets,
                   std::string_view order) {
  console.line(
      fmt::format("  {:<9} {:>3} {:>9} {:>6}  {}", "buckets", "#", "MiB", "pieces", order));
  for (std::size_t i = 0; i < std::min(buckets.size(), kShownBuckets); ++i) {
    console.line(fmt::format("  {:<9} {:>3} {:>9.3f} {:>6}  {}", "", i, mib(buckets[i].bytes),
                             buckets[i].pieces.size(), parameter_range(buckets[i].parameters)));
  }
  if (buckets.size() > kShownBuckets) {
    console.line(fmt::format("  {:<9} ... and {} more (summary.json lists all)", "",
                             buckets.size() - kShownBuckets));
  }
}

/// On every line with times that an emulated link has a part in.
const char* emulated_text(const RunInfo& info) {
  return info.options.emulated_link ? " (emulated link)" : "";
}

/// "83 % (80.1 GFLOP/s)" in a step of `ms`.
std::string mfu_text(const RunInfo& info, double ms) {
  return fmt::format("{:.0f} % ({:.1f} GFLOP/s)",
                     100.0 * model_flop_utilisation(info.step_shape(), info.gemm_gflops, ms),
                     ms > 0.0 ? 1e-6 * model_flop(info.step_shape()) / ms : 0.0);
}

std::string test_text(const Evaluation& test) {
  return test.accuracy
             ? fmt::format("accuracy {:.2f} %, loss {:.5f}", 100.0 * *test.accuracy, test.loss)
             : fmt::format("loss {:.5f}", test.loss);
}

/// What went over the wire, and how much a hook has saved.
std::string sent_text(const RunInfo& info, const RunResult& result) {
  const double sent = result.bytes_sent_per_step;
  const double ratio = compression_ratio(info.ranks.size, result.bytes_reduced_per_step, sent);
  return fmt::format(", {:.2f} sent by rank 0{}", sent / 0x1p20,
                     info.options.comm_hook == "none"
                         ? ""
                         : fmt::format(", {:.1f} times less than uncompressed ({})", ratio,
                                       info.options.comm_hook));
}

/// With --profile. The ranks measure the limits at the same time, as they compute at the same time.
void print_profile(const Console& console, const RunInfo& info, const RunResult& result) {
  const MachineLimits& limits = *info.limits;
  console.line(fmt::format(
      "profile of rank 0 in {}{}; limits measured before training: {:.1f} GFLOP/s, {:.1f} GB/s",
      plural(static_cast<std::int64_t>(result.recorded_steps), "recorded step"),
      emulated_text(info), limits.gflops, limits.gbps));
  for (const std::string& line : profile_table(result.operations, info.step_shape(), limits)) {
    console.line("  " + line);
  }
  console.line(fmt::format("model FLOP utilisation {}{}", mfu_text(info, result.timing.step),
                           emulated_text(info)));
}

/// What people know from profilers: which share of the step did what, and where the memory is.
void print_execution_summary(const Console& console, const RunInfo& info, const RunResult& result) {
  const TimingSummary& t = result.timing;
  const auto share = [&t](double ms) {
    return fmt::format("{:.0f} %", t.step > 0.0 ? 100.0 * ms / t.step : 0.0);
  };
  std::string text = fmt::format("utilisation of rank {}: {} of the step computes", t.slowest_rank,
                                 share(t.step - t.median.wait));
  if (t.communicates) {
    text += fmt::format("; communication {}, exposed {}{}", share(t.median.comm),
                        share(t.median.exposed), emulated_text(info));
  }
  console.line(text);
  constexpr std::size_t kShown = 5;
  double total = 0.0;
  for (const OperationTime& operation : result.operations) {
    total += operation.ms;
  }
  std::vector<std::string> top;
  for (const OperationTime& operation : result.operations) {
    if (top.size() < kShown) {
      top.push_back(fmt::format("{} {:.2f} ms ({:.0f} %)", operation.name, operation.ms,
                                100.0 * operation.ms / total));
    }
  }
  if (!top.empty()) {
    console.line(
        fmt::format("top operations of rank 0 in {}{}: {}",
                    plural(static_cast<std::int64_t>(result.recorded_steps), "recorded step"),
                    emulated_text(info), fmt::join(top, ", ")));
  }
  if (info.limits) {
    print_profile(console, info, result);
  }
  for (const std::string& line : result.choices) {
    console.line("kernel for " + line);
  }
  for (const std::string& line : memory_table(result.memory)) {
    console.line(line);
  }
}

/// To stderr, as every warning: it is the one line of a run that ended well which asks for action.
void warn_of_straggler(const Console& console, const TimingSummary& timing) {
  if (const std::optional<Straggler> slow = timing.straggler) {
    console.warn(fmt::format(
        "[rank 0] warning: rank {} is the slowest: it computes {:.2f} ms per step, the other ranks "
        "{:.2f}, and they wait {:.2f} ms for it; look at the load and the clock of its host, or "
        "give it less work",
        slow->rank, slow->compute, slow->others, slow->compute - slow->others));
  }
}

}  // namespace

void print_first_screen(const Console& console, const RunInfo& info) {
  const Options& o = info.options;
  const auto row = [&console](const char* name, const std::string& text) {
    console.line(fmt::format("  {:<9} {}", name, text));
  };
  const data::BatchGeometry& g = info.geometry;
  console.line(console.strong(fmt::format("Brigade {} train_mlp", kVersion)));
  row("ranks", fmt::format("{} on {} (rank 0: {}), {} each", info.ranks.size,
                           plural(info.ranks.hosts, "host"), info.ranks.host,
                           plural(info.threads, "CPU thread")));
  row("device", fmt::format("{}, {}", info.device_name, info.libraries));
  row("comm", info.comm);
  row("data",
      fmt::format("{}: {} training and {} test samples, {} -> {} {}", o.data,
                  grouped(info.train_size), grouped(info.test_size), info.shape.widths.front(),
                  info.shape.widths.back(), info.classes ? "classes" : "numbers"));
  row("model", fmt::format("{}{}, {} parameters, {:.2f} MiB{}", info.shape.description(),
                           info.shape.bias ? "" : " without bias", grouped(info.parameters),
                           mib(static_cast<std::size_t>(info.parameters) * sizeof(float)),
                           o.dtype == "bf16" ? ", layers multiply bf16" : ""));
  row("training", fmt::format("{}, {}, seed {}", o.loss, optimizer_text(o), o.seed));
  row("batch",
      fmt::format("{} x {} x {} = {} global", g.batch, plural(g.accum, "micro-batch", "es"),
                  plural(g.ranks, "rank"), g.global_batch()));
  row("steps",
      fmt::format("{} ({} per epoch)", grouped(info.steps), grouped(info.steps_per_epoch)));
  row("mode", fmt::format("{}: {}", o.mode, mode_text(o.mode)));
  if (o.in_flight()) {
    row("optimizer", fmt::format("each bucket as soon as it has arrived{}",
                                 o.cross_step ? ", also under the next forward" : ""));
  }
  if (o.never_syncs()) {
    row("sync", "none: no gradient leaves its rank, so the ranks drift apart, on purpose");
  }
  if (o.comm_hook != "none") {
    row("hook", comm_hook_text(o.comm_hook));
  }
  if (o.find_unused) {
    row("unused", "parameters that no rank uses are left alone; found out in every step");
  }
  print_buckets(console, info.buckets, "parameters, in the order their gradients are expected");
  if (o.inject) {
    row("inject", fmt::format("{}: a fault on purpose, see apps/FAILURES.md", o.inject->text));
  }
  if (o.emulated_link) {
    console.line(console.faint(
        "  The link is emulated: an all-reduce ends no sooner than a ring over such links would. "
        "The\n  delay is slept through, so computation can hide it; times show the model's "
        "network, not yours."));
  } else if (info.ranks.size > 1 && info.ranks.hosts == 1 && !info.device.is_cuda()) {
    console.line(console.faint(
        "  All ranks share this host's memory: an all-reduce is copying by the same cores that "
        "compute,\n  so overlap has little to hide here. It shows between hosts and on GPUs."));
  }
  console.line();
}

void print_rebuilt_buckets(const Console& console, const std::vector<BucketInfo>& buckets) {
  console.line(
      "buckets rebuilt after step 1, from the order in which its gradients really became ready "
      "(--no-rebuild keeps the first ones)");
  print_buckets(console, buckets, "parameters, in the order their gradients were ready on rank 0");
}

void print_progress(const Console& console, const RunInfo& info, const Progress& progress) {
  const std::int64_t epoch = (progress.step - 1) / info.steps_per_epoch + 1;
  const std::int64_t epochs = (info.steps - 1) / info.steps_per_epoch + 1;
  std::string text =
      fmt::format("epoch {}/{}  step {:>{}}/{}  loss {:.5f}  {:.2f} ms/step{}  {} samples/s", epoch,
                  epochs, progress.step, std::to_string(info.steps).size(), info.steps,
                  progress.loss, progress.times.step, emulated_text(info),
                  grouped(static_cast<std::int64_t>(progress.samples_per_second)));
  text += "  MFU " + mfu_text(info, progress.times.step);
  if (progress.difference) {
    text += fmt::format("  ranks differ by {:.3g}", progress.difference->value);
  }
  if (progress.step < info.steps) {
    text += "  ETA " + duration(progress.eta_seconds);
  }
  console.line(text);
}

void print_evaluation(const Console& console, const RunInfo& info, std::int64_t step,
                      const Evaluation& evaluation) {
  console.line(console.strong(
      fmt::format("test after step {} (epoch {:.3g}): {}", step,
                  static_cast<double>(step) / static_cast<double>(info.steps_per_epoch),
                  test_text(evaluation))));
}

void print_result(const Console& console, const RunInfo& info, const RunResult& result,
                  const std::vector<std::string>& files) {
  const TimingSummary& t = result.timing;
  console.line();
  console.line(fmt::format("{} in {}: loss {:.5f} -> {:.5f}; test {}", plural(info.steps, "step"),
                           duration(result.seconds), result.loss_first, result.loss_last,
                           test_text(result.test)));
  constexpr double kShown = 0.005;  // ms; also in mode naive with one rank
  const std::string waiting = t.communicates || t.median.wait >= kShown
                                  ? fmt::format("waiting for gradients {:.2f}, ", t.median.wait)
                                  : "";
  console.line(fmt::format(
      "step {:.2f} ms (p95 {:.2f}){}: forward {:.2f}, backward {:.2f}, {}optimizer {:.2f}; {} "
      "samples/s ({} with loading and reports)",
      t.step, t.step_p95, emulated_text(info), t.median.forward, t.median.backward, waiting,
      t.median.optimizer, grouped(static_cast<std::int64_t>(t.samples_per_second)),
      grouped(static_cast<std::int64_t>(result.samples_per_second_overall))));
  if (t.communicates) {
    console.line(fmt::format(
        "communication {:.2f} ms per step{}, hidden behind computation: {:.0f} %; {:g} "
        "collectives, "
        "{:.2f} MiB per step{}",
        t.median.comm, emulated_text(info), 100.0 * t.hidden_fraction, result.collectives_per_step,
        result.bytes_reduced_per_step / 0x1p20, sent_text(info, result)));
  }
  print_execution_summary(console, info, result);
  warn_of_straggler(console, t);
  if (result.params_equal) {
    console.line(
        console.good(fmt::format("parameters equal on all ranks: {:016x}", result.params_hash)));
  }
  if (!result.params_equal && result.difference) {
    console.line(
        fmt::format("parameters differ between the ranks because of --no-all-reduce: largest "
                    "difference {:.3g}, "
                    "in '{}'",
                    result.difference->value, result.difference->parameter));
  }
  if (info.options.trace) {
    console.line(fmt::format("recorded {}; the ranks' clocks are aligned to {:.0f} us",
                             plural(static_cast<std::int64_t>(result.recorded_steps), "step"),
                             std::ceil(1e3 * clock_error_ms(result.trace))));
  }
  if (!files.empty()) {
    console.line(fmt::format("wrote {}", fmt::join(files, ", ")));
  }
}

}  // namespace brigade::apps
