#include "apps/report/report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "apps/flags/hook_flag.h"
#include "apps/report/summary.h"
#include "core/config.h"

namespace brigade::apps {

namespace {

constexpr std::size_t kShownBuckets = 12;

std::string optimizer_text(const Options& o) {
  std::string text = fmt::format("{} lr {:g}", o.optimizer, o.lr);
  if (o.optimizer == "sgd" && o.momentum > 0.0) {
    text += fmt::format(" momentum {:g}{}", o.momentum, o.nesterov ? " (Nesterov)" : "");
  }
  if (o.weight_decay > 0.0) {
    text +=
        fmt::format(" weight decay {:g}{}", o.weight_decay, o.model == "gpt" ? " (matrices)" : "");
  }
  if (o.schedule != "constant" || o.lr_warmup > 0) {
    text += fmt::format(" {}, {} steps of warm-up", o.schedule, o.lr_warmup);
  }
  return o.clip_norm > 0.0 ? text + fmt::format(" clip norm {:g}", o.clip_norm) : text;
}

const std::map<std::string, const char*> kModeTexts{
    {"naive", "after backward, one blocking all-reduce per parameter"},
    {"flat", "after backward, one all-reduce per bucket"},
    {"per_param", "during backward, one asynchronous all-reduce per parameter"},
    {"overlap", "during backward, one asynchronous all-reduce per full bucket"},
    {"no_sync", "only the last micro-batch of a step communicates, as overlap does"},
};

void print_buckets(const Console& console, const std::vector<BucketInfo>& buckets,
                   const std::string& order) {
  TextGrid grid{{"buckets", "MiB"}};
  std::vector<std::string> contents{order};
  for (std::size_t i = 0; i < std::min(buckets.size(), kShownBuckets); ++i) {
    grid.push_back({fmt::format("{:>7}", i),
                    fmt::format("{:.3f}", kMiB * static_cast<double>(buckets[i].bytes))});
    contents.push_back(shortened(fmt::format("{}", fmt::join(buckets[i].parameters, ", "))));
  }
  const std::vector<std::string> lines = text_table(grid);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    console.line(fmt::format("  {}  {}", lines[i], contents[i]));
  }
  if (buckets.size() > kShownBuckets) {
    console.line(
        fmt::format("  ... and {} more (summary.json lists all)", buckets.size() - kShownBuckets));
  }
}

/// The longest operations of rank 0.
void print_operations(const Console& console, const RunInfo& info, const RunResult& result) {
  std::vector<std::string> top;
  for (const OperationTime& operation : result.operations) {
    top.push_back(fmt::format("{} {:.2f} ms", operation.name, operation.ms));
  }
  top.resize(std::min(top.size(), std::size_t{5}));
  if (!top.empty()) {
    console.line(
        fmt::format("top operations of rank 0 in {}{}: {}",
                    plural(static_cast<std::int64_t>(result.recorded_steps), "recorded step"),
                    emulated_text(info.options), fmt::join(top, ", ")));
  }
}

/// To stderr, as every warning: it is the one line of a run that ended well which asks for action.
void warn_of_straggler(const Console& console, const TimingSummary& timing) {
  const std::optional<Straggler> slow = timing.straggler;
  if (slow && slow->reason == Straggler::Reason::network) {
    console.warn(fmt::format(
        "the host of rank {} has slow links: a message of 512 KiB each way takes "
        "{:.2f} ms, between other hosts {:.2f}, and every step waits {:.2f} ms for communication; "
        "look at its cable, its port of the switch and its other traffic",
        slow->rank, slow->ms, slow->others, timing.median.exposed));
  } else if (slow) {
    const bool computes = slow->reason == Straggler::Reason::compute;
    console.warn(
        fmt::format("rank {} is the slowest in {:.0f} % of the steps: it {} {:.2f} ms per "
                    "step, the other ranks {:.2f}, and they wait {:.2f} ms for it; {}",
                    slow->rank, 1e2 * slow->share, computes ? "computes" : "waits for its data",
                    slow->ms, slow->others, slow->ms - slow->others,
                    computes ? "look at the load and the clock of its host, or give it less work"
                             : "look at the disk of its host, or keep the data nearer to it"));
  }
}

}  // namespace

std::string setting_row(const char* name, const std::string& text) {
  return fmt::format("{:<9} {}", name, text);
}

std::vector<std::string> setting_lines(const RunInfo& info) {
  const data::BatchGeometry& g = info.geometry;
  return {
      setting_row("ranks", fmt::format("{} on {} (rank 0: {}), {} each", info.ranks.size,
                                       plural(info.ranks.hosts, "host"), info.ranks.host,
                                       plural(info.threads, "CPU thread"))),
      setting_row("device", fmt::format("{}, {}", info.device_name, info.libraries)),
      setting_row("comm", info.comm),
      setting_row("model",
                  fmt::format("{}{}, {} parameters, {:.2f} MiB{}", info.shape.description(),
                              info.shape.bias ? "" : " without bias", info.parameters,
                              kMiB * sizeof(float) * static_cast<double>(info.parameters),
                              info.options.dtype == "bf16" ? ", layers multiply bf16" : "")),
      setting_row(
          "batch",
          fmt::format("{} x {} x {} = {} global{}", g.batch, plural(g.accum, "micro-batch", "es"),
                      plural(g.ranks, "rank"), g.global_batch(),
                      info.shape.gpt ? fmt::format(" sequences, {} tokens",
                                                   g.global_batch() * info.shape.tokens())
                                     : "")),
  };
}

void print_first_screen(const Console& console, const RunInfo& info) {
  const Options& o = info.options;
  const auto row = [&console](const char* name, const std::string& text) {
    console.line("  " + setting_row(name, text));
  };
  console.line(console.strong(fmt::format("Brigade {} {}", kVersion, program_name(o))));
  console.lines(setting_lines(info));
  row("data",
      fmt::format("{}: {} training and {} test samples, {} -> {} {}", o.data, info.train_size,
                  info.test_size, info.shape.widths.front(), info.shape.widths.back(),
                  info.shape.gpt ? "tokens"
                  : info.classes ? "classes"
                                 : "numbers"));
  row("training", fmt::format("{}, {}, seed {}", o.loss, optimizer_text(o), o.seed));
  row("steps", fmt::format("{} ({} per epoch)", info.steps, info.steps_per_epoch));
  row("mode", fmt::format("{}: {}", o.mode, kModeTexts.at(o.mode)));
  if (o.no_all_reduce) {
    row("sync", "none: no gradient leaves its rank, so the ranks drift apart, on purpose");
  }
  if (o.comm_hook != "none") {
    row("hook", comm_hook_text(o.comm_hook));
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

void print_rebuilt_buckets(const Console& console, const std::vector<BucketInfo>& before,
                           const std::vector<BucketInfo>& buckets) {
  const auto members = [](const BucketInfo& bucket) {
    return std::set(bucket.parameters.begin(), bucket.parameters.end());
  };
  const bool alike = std::ranges::equal(before, buckets, {}, members, members);
  console.line(fmt::format(
      "buckets rebuilt after step 1, from the order in which its gradients became ready{}",
      alike ? "; every bucket keeps its parameters" : ""));
  if (!alike) {
    print_buckets(console, buckets,
                  "parameters, in the order their gradients were ready on rank 0");
  }
}

void print_chosen_buckets(const Console& console, const std::vector<BucketInfo>& buckets,
                          const dist::BucketChoice& choice, std::int64_t step) {
  const auto after_backward = [&](double ms) { return std::max(ms - choice.backward_ms, 0.0); };
  console.line(fmt::format(
      "buckets chosen after step {}: {}; the last should arrive {:.2f} ms after backward, {}", step,
      buckets.size(), after_backward(choice.now_ms),
      choice.changed ? fmt::format("before {:.2f} ms", after_backward(choice.before_ms))
                     : "as before"));
  if (choice.changed) {
    print_buckets(console, buckets,
                  "parameters, in the order their gradients were ready on rank 0");
  }
}

void print_progress(const Console& console, const RunInfo& info, const Progress& progress) {
  const std::int64_t epoch = (progress.step - 1) / info.steps_per_epoch + 1;
  const std::int64_t epochs = (info.steps - 1) / info.steps_per_epoch + 1;
  std::string text = fmt::format("epoch {}/{}  step {:>{}}/{}", epoch, epochs, progress.step,
                                 std::to_string(info.steps).size(), info.steps);
  for (const Figure& figure : figures_of(info, progress)) {
    if (!figure.place.empty()) {
      text += "  " + text_of(figure);
    }
  }
  if (progress.step < info.steps) {
    text += fmt::format("  ETA {:%T}", std::chrono::seconds(std::llround(progress.eta_seconds)));
  }
  console.line(text);
}

void print_evaluation(const Console& console, const RunInfo& info, std::int64_t step,
                      const Evaluation& evaluation) {
  const std::string place =
      fmt::format("after step {} (epoch {:.3g})", step,
                  static_cast<double>(step) / static_cast<double>(info.steps_per_epoch));
  console.line(console.strong(lines_of(figures_of(evaluation, place)).front()));
}

void print_result(const Console& console, const RunInfo& info, const RunResult& result,
                  const std::vector<std::string>& files) {
  console.line();
  console.lines(lines_of(figures_of(info, result)), "");
  print_operations(console, info, result);
  warn_of_straggler(console, result.timing);
  if (result.weights.equal) {
    console.line(
        console.good(fmt::format("parameters equal on all ranks: {:016x}", result.weights.hash)));
  } else if (result.difference) {
    console.line(
        fmt::format("parameters differ between the ranks because of --no-all-reduce: largest "
                    "difference {:.3g}, "
                    "in '{}'",
                    result.difference->value, result.difference->parameter));
  }
  if (info.options.trace) {
    console.line(fmt::format("recorded {}; the ranks' {}",
                             plural(static_cast<std::int64_t>(result.recorded_steps), "step"),
                             clocks_text(result.trace)));
  }
  if (!files.empty()) {
    console.line(fmt::format("wrote {}", fmt::join(files, ", ")));
  }
}

}  // namespace brigade::apps
