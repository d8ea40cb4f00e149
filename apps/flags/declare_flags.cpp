#include "apps/flags/declare_flags.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <optional>
#include <string>

#include "apps/flags/command_line.h"
#include "apps/flags/flag_table.h"
#include "apps/flags/hook_flag.h"

namespace brigade::apps {

namespace {

constexpr std::int64_t kDeepest = 100'000;
constexpr std::int64_t kLargeBatch = 1'000'000;
constexpr double kNoLimit = std::numeric_limits<double>::max();

/// The flags of one program. `train`, `compare`: those of train_mlp or compare_modes alone.
class Declaration {
 public:
  Declaration(CLI::App& app, Options& options, ShapeFlags& shape, Program program)
      : flags_(app),
        o_(options),
        shape_(shape),
        train_(program == Program::train_mlp),
        compare_(program == Program::compare_modes) {}

  void all() {
    if (compare_) {
      comparison();
    }
    synchronisation();
    more_synchronisation();
    data();
    model();
    optimizer();
    machine();
    output();
  }

  void lab() {
    flags_.group("Machine");
    flags_.value("--emulate-link", "US,GB/S", o_.emulated_link, parse_link,
                 "all-reduce as slowly as over this link");
    flags_.group("Output");
    trace();
    trace_range();
    flags_.text("--out", "DIR", o_.out, "for the files of --trace (runs/<n>)");
  }

 private:
  void comparison() {
    flags_.group("Comparison");
    flags_.list("--modes", o_.modes, {kModes.begin(), kModes.end()},
                "which, in which order (all; no_sync needs --accum)");
    flags_.count("--rounds", o_.rounds, 1, "turns each mode has; the order rotates (5)");
    flags_.count("--steps", o_.steps, 2, "steps of a turn; the first is not timed (10)");
  }

  void synchronisation() {
    flags_.group("Synchronisation");
    if (train_) {
      flags_.choice("--mode", o_.mode, {kModes.begin(), kModes.end()},
                    "naive | flat | per_param | overlap | no_sync (overlap)");
    }
    flags_.number("--accum", o_.accum, std::int64_t{1}, kLargeBatch, "micro-batches per step (1)");
    flags_.number("--bucket-mb", o_.bucket_mb, 0.0, kNoLimit,
                  "bucket capacity in MiB (25; --cross-step: 4.1)");
    const auto hook = [](const std::string& flag, const std::string& text) {
      make_comm_hook(flag, text);
      return text;
    };
    flags_.value("--comm-hook", "HOOK", o_.comm_hook, hook,
                 "none | fp16 | bf16 | powersgd:rank=R | topk:ratio=X");
    if (train_) {
      flags_.toggle("--cross-step", o_.cross_step,
                    "communicate and update under the next forward, too");
    }
  }

  void more_synchronisation() {
    flags_.group("More synchronisation");
    flags_.choice("--reduce", o_.reduce, {"fast", "deterministic"},
                  "fast | deterministic: the same bits in every mode but no_sync (fast)");
    flags_.toggle("--split-tensors", o_.split_tensors,
                  "send larger buckets in pieces of --bucket-mb (--cross-step: of 1 MiB)");
    flags_.toggle("--find-unused", o_.find_unused, "leave alone parameters no loss depends on");
    if (train_) {
      flags_.toggle("--optimizer-overlap", o_.optimizer_overlap,
                    "update each bucket as soon as it has arrived");
      flags_.toggle("--no-all-reduce", o_.no_all_reduce, "watch the ranks drift apart");
      flags_.choice("--init-sync", o_.init_sync, {"verify", "broadcast"},
                    "initial weights: verify | broadcast rank 0's (verify)");
      flags_.count("--verify-every", o_.verify_every, 1,
                   "compare the ranks' weights every N steps (first and last)");
      flags_.toggle("--check-finite", o_.check_finite,
                    "stop at the first gradient that is NaN or infinite, before it travels");
    }
  }

  void data() {
    flags_.group("Data");
    flags_.choice("--data", o_.data, {"synthetic", "fashion-mnist"},
                  "synthetic | fashion-mnist (synthetic)");
    flags_.number("--batch", o_.batch, std::int64_t{1}, kLargeBatch,
                  "samples per rank and micro-batch (64)");
    flags_.count("--global-batch", o_.global_batch, 1, "instead: per step, of all ranks together");
    if (train_) {
      flags_.count("--epochs", o_.epochs, 1, "passes over the data (2)");
      flags_.count("--steps", o_.steps, 1, "optimizer steps; overrides --epochs");
    }
    flags_.group("More data");
    flags_.text("--data-dir", "DIR", o_.data_dir, "where the idx.gz files are");
    flags_.count("--train-samples", o_.train_samples, 1, "use N samples (all; synthetic: 8192)");
    flags_.toggle("--no-shuffle", o_.shuffle, "file order in every epoch", false);
    flags_.choice("--uneven", o_.uneven, {"join", "drop", "pad"},
                  "an epoch's last, smaller batch: join | drop | pad (join)");
    if (train_) {
      flags_.choice("--prefetch", o_.prefetch, {"auto", "on", "off"},
                    "read ahead: auto (GPU, or a core to spare) | on | off (auto)");
    }
  }

  void model() {
    flags_.group("Model");
    flags_.value("--hidden", "A,B,..", shape_.hidden, parse_widths,
                 "widths of the hidden layers, or none (512,512)");
    flags_.number("--depth", shape_.depth, std::int64_t{1}, kDeepest,
                  "instead of --hidden: D Linear layers ...");
    flags_.count("--width", shape_.width, 1, "... this wide; the last of these flags wins");
    flags_.choice("--loss", o_.loss, {"mse", "cross_entropy"}, "mse | cross_entropy (mse)");
    if (train_) {
      flags_.text("--save", "FILE", o_.save, "write the trained weights, PyTorch names");
    }
    flags_.group("More model");
    flags_.text("--init", "FILE", o_.init, "start from these .safetensors weights");
    flags_.toggle("--no-bias", o_.bias, "Linear layers without bias", false);
    flags_.choice("--dtype", o_.dtype, {"f32", "bf16"},
                  "what layers multiply: f32 | bf16; all else stays f32 (f32)");
  }

  void optimizer() {
    flags_.group("Optimizer");
    flags_.choice("--optimizer", o_.optimizer, {"sgd", "adam", "adamw"},
                  "sgd | adam | adamw (sgd)");
    flags_.number("--lr", o_.lr, kAboveZero, kNoLimit, "learning rate (sgd 0.1, adam 0.001)");
    flags_.number("--momentum", o_.momentum, 0.0, kNoLimit, "of sgd; adam has its own (0)");
    flags_.group("More optimizer");
    flags_.toggle("--nesterov", o_.nesterov, "Nesterov momentum");
    flags_.number("--weight-decay", o_.weight_decay, 0.0, kNoLimit, "decoupled with adamw (0)");
    flags_.number("--clip-norm", o_.clip_norm, kAboveZero, kNoLimit,
                  "scale longer gradients down to this norm (off)");
    flags_.number("--seed", o_.seed, std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max(),
                  "of weights, sample order, synthetic data (0)");
  }

  void machine() {
    flags_.group("Machine");
    flags_.choice("--device", o_.device, {"auto", "cpu", "cuda"}, "auto | cpu | cuda (auto)");
    flags_.choice("--comm", o_.comm,
                  {"auto", "mpi", "shared", "hierarchical", "nccl", "ring", "halving", "tree"},
                  "auto | mpi | shared | hierarchical | nccl | ring | halving | tree");
    const auto link = [&chosen = o_.choose_link](const std::string& flag, const std::string& text) {
      chosen = text == "auto";
      return chosen ? std::nullopt : std::optional(parse_link(flag, text));
    };
    flags_.value("--emulate-link", "US,GB/S", o_.emulated_link, link,
                 "all-reduce as slowly as over this link; auto: one as slow as backward");
    flags_.group("More machine");
    flags_.number("--threads", o_.threads, std::int64_t{1}, std::int64_t{4096},
                  "per rank (the cores it is bound to)");
    flags_.toggle("--tf32", o_.tf32,
                  "matrix products on tensor cores, factors rounded to TF32; GPU");
    if (train_) {
      flags_.value("--inject", "FAULT", o_.inject, parse_fault,
                   "slow | skip_param | ...: see the error it ends in");
    }
  }

  void output() {
    flags_.group("Output");
    trace();
    flags_.text("--out", "DIR", o_.out, "for the files of the run (runs/<n>)");
    flags_.toggle("--json", o_.json, "stdout is the summary alone");
    flags_.group("More output");
    trace_range();
    if (train_) {
      flags_.count("--log-every", o_.log_every, 1,
                   "steps between progress lines (some 20 lines; --no-all-reduce: 1)");
      flags_.count("--eval-every", o_.eval_every, 0, "epochs between tests (1); 0: at the end");
      flags_.count("--warmup", o_.warmup, 0, "first steps left out of the medians (5, <= 1/4)");
      flags_.toggle("--profile", o_.profile,
                    "each operation's time, GFLOP/s, GB/s and multiple of its floor");
    }
    flags_.choice("--color", o_.color, {"auto", "always", "never"}, "auto | always | never (auto)");
  }

  void trace() {
    flags_.toggle("--trace", o_.trace,
                  compare_ ? "write a trace-MODE.json.gz (Perfetto) per mode"
                           : "write trace.json.gz (Perfetto) and timeline.html");
  }

  void trace_range() {
    flags_.count("--trace-steps", o_.trace_steps, 1, "steps to record, after the first five (3)");
  }

  FlagTable flags_;
  Options& o_;
  ShapeFlags& shape_;
  bool train_;
  bool compare_;
};

}  // namespace

void declare_flags(CLI::App& app, Program program, Options& options, ShapeFlags& shape) {
  Declaration declaration(app, options, shape, program);
  if (program == Program::lab) {
    declaration.lab();
    return;
  }
  declaration.all();
  add_config_flag(app);
  // A config file says what a run is, not where its results go: a repeated run overwrites nothing.
  for (const char* place : {"--out", "--save", "--json", "--color"}) {
    if (CLI::Option* option = app.get_option_no_throw(place)) {
      option->configurable(false);
    }
  }
}

}  // namespace brigade::apps
