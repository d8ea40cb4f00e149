#include "apps/flags/declare_flags.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <optional>
#include <string>

#include "apps/flags/command_line.h"
#include "apps/flags/flag_groups.h"
#include "apps/flags/flag_values.h"
#include "apps/flags/hook_flag.h"

namespace brigade::apps {

namespace {

constexpr std::int64_t kDeepest = 100'000;
constexpr std::int64_t kLargeBatch = 1'000'000;
constexpr double kNoLimit = std::numeric_limits<double>::max();

/// Declares the flags of one program.
class Declaration : FlagGroups {
 public:
  Declaration(CLI::App& app, Options& options, Program program)
      : FlagGroups(app),
        o_(options),
        train_(program == Program::train_mlp || program == Program::train_gpt),
        compare_(program == Program::compare_modes),
        gpt_(program == Program::train_gpt) {}

  void all() {
    if (compare_) {
      comparison();
    }
    synchronisation();
    more_synchronisation();
    data();
    model();
    optimizer();
    if (gpt_) {
      sample();
    }
    machine();
    output();
  }

  void lab() {
    group("Machine");
    value("--emulate-link", "US,GB/S", o_.emulated_link, parse_link,
          "all-reduce as slowly as over this link");
    group("Output");
    trace();
    trace_steps();
    text("--out", "DIR", o_.out, "for the files of --trace (runs/<n>)");
  }

 private:
  void comparison() {
    group("Comparison");
    const auto modes = [](const std::string& flag, const std::string& text) {
      return parse_list(flag, text, {kModes.begin(), kModes.end()});
    };
    value("--modes", "A,B,..", o_.modes, modes,
          "which, in which order (all; no_sync needs --accum)");
    count("--rounds", o_.rounds, 1, "turns each mode has; the order rotates (5)");
    count("--steps", o_.steps, 2, "steps of a turn; the first is not timed (10)");
  }

  void synchronisation() {
    group("Synchronisation");
    if (train_) {
      choice("--mode", o_.mode, {kModes.begin(), kModes.end()});
    }
    number("--accum", o_.accum, std::int64_t{1}, kLargeBatch, "micro-batches per step (1)");
    const auto capacity = [&chosen = o_.choose_buckets, trains = train_](const std::string& flag,
                                                                         const std::string& text) {
      chosen = trains && text == "auto";
      return chosen ? Options().bucket_mb : parse_number(flag, text, 0.0, kNoLimit);
    };
    value("--bucket-mb", "X", o_.bucket_mb, capacity,
          train_ ? "bucket capacity in MiB (25; --cross-step: 1); auto: by measured times"
                 : "bucket capacity in MiB (25)");
    const auto hook = [](const std::string& /*flag*/, const std::string& text) {
      make_comm_hook(text);
      return text;
    };
    value("--comm-hook", "HOOK", o_.comm_hook, hook,
          "none | fp16 | bf16 | powersgd:rank=R | topk:ratio=X");
    if (train_) {
      toggle("--cross-step", o_.cross_step, "communicate and update under the next forward, too");
    }
  }

  void more_synchronisation() {
    group("More synchronisation");
    choice("--reduce", o_.reduce, {"fast", "deterministic"},
           "deterministic: the same bits in all modes but no_sync; ");
    toggle("--find-unused", o_.find_unused, "leave alone parameters no loss depends on");
    if (train_) {
      toggle("--optimizer-overlap", o_.optimizer_overlap,
             "update each bucket as soon as it has arrived");
      toggle("--shard-optimizer", o_.shard_optimizer,
             "each rank stores 1/N of the optimizer state, updates 1/N of the weights");
      toggle("--no-all-reduce", o_.no_all_reduce, "watch the ranks drift apart");
      choice("--init-sync", o_.init_sync, {"verify", "broadcast"}, "initial weights: ");
      count("--verify-every", o_.verify_every, 1,
            "compare the ranks' weights every N steps (first and last)");
      toggle("--check-finite", o_.check_finite,
             "stop at the first gradient that is NaN or infinite, before it travels");
      toggle("--check-reduce", o_.check_reduce,
             "stop if all-reduced gradients are not the ranks' sum, up to rounding, or differ "
             "between ranks");
    }
  }

  void data() {
    group("Data");
    if (!gpt_) {
      choice("--data", o_.data, {"synthetic", "fashion-mnist"});
    }
    if (gpt_ || compare_) {
      text_data();
    }
    number(
        "--batch", o_.batch, std::int64_t{1}, kLargeBatch,
        gpt_ ? "sequences per rank and micro-batch (8)" : "samples per rank and micro-batch (64)");
    count("--global-batch", o_.global_batch, 1, "instead: per step, of all ranks together");
    if (train_) {
      count("--epochs", o_.epochs, 1, "passes over the data (2)");
      count("--steps", o_.steps, 1, "optimizer steps; overrides --epochs");
    }
    group("More data");
    if (!gpt_) {
      text("--data-dir", "DIR", o_.data_dir, "where the idx.gz files are, else BRIGADE_DATA_DIR");
      count("--train-samples", o_.train_samples, 1, "use N samples (all; synthetic: 8192)");
    }
    toggle("--no-shuffle", o_.shuffle, "file order in every epoch", false);
    choice("--uneven", o_.uneven, {"join", "drop", "pad"}, "an epoch's last, smaller batch: ");
    if (train_) {
      choice("--prefetch", o_.prefetch, {"auto", "on", "off"},
             "read ahead; auto: with a GPU or a core to spare; ");
    }
  }

  void text_data() {
    text("--text", "FILE|DIR", o_.text, "what to learn (the sources of Brigade)");
    text("--tokenizer", "DIR", o_.tokenizer,
         "GPT-2's vocab.json and merges.txt (tokens are bytes)");
  }

  void gpt() {
    number("--layers", o_.gpt.layers, std::int64_t{1}, kDeepest, "blocks (4)");
    count("--heads", o_.gpt.heads, 1, "of attention in each (4)");
    if (gpt_) {
      count("--width", o_.width, 1, "numbers per token (128)");
      // Not to be compared: each mode would leave out other elements.
      number("--dropout", o_.gpt.dropout, 0.0, kBelowOne, "share of numbers to leave out (0)");
    }
    count("--context", o_.context, 1, "tokens of a sequence (128)");
  }

  void sample() {
    group("Sample");
    count("--sample", o_.sample, 0, "tokens to write in the end (0)");
    text("--prompt", "TEXT", o_.prompt, "what they follow (a line break)");
    number("--temperature", o_.temperature, 0.0, kNoLimit, "0: always the likeliest token (0.8)");
    count("--top-k", o_.top_k, 0, "choose among the K likeliest; 0: all (40)");
  }

  void model() {
    group("Model");
    if (compare_) {
      choice("--model", o_.model, {"mlp", "gpt"});
    }
    if (gpt_ || compare_) {
      gpt();
    }
    if (!gpt_) {
      value("--hidden", "A,B,..", o_.hidden, parse_widths,
            "widths of the hidden layers, or none (512,512)");
      number("--depth", o_.depth, std::int64_t{1}, kDeepest,
             "instead of --hidden: D Linear layers ...");
      count("--width", o_.width, 1, "... this wide; the last of these flags wins");
      choice("--loss", o_.loss, {"mse", "cross_entropy"});
    }
    if (train_) {
      text("--save", "FILE", o_.save, "write the trained weights, PyTorch names");
    }
    group("More model");
    text("--init", "FILE", o_.init,
         gpt_ ? "start from this .safetensors file, or Hugging Face's directory"
              : "start from these .safetensors weights");
    if (!gpt_) {
      toggle("--no-bias", o_.bias, "Linear layers without bias", false);
    }
    choice("--dtype", o_.dtype, {"f32", "bf16"}, "what layers multiply; sums stay f32: ");
    choice("--matmul-precision", o_.matmul_precision, {"highest", "high", "medium"},
           "round f32 products, where that is faster: ");
  }

  void optimizer() {
    group("Optimizer");
    if (gpt_) {
      o_.optimizer = "adamw";
    }
    choice("--optimizer", o_.optimizer, {"sgd", "adam", "adamw"});
    number("--lr", o_.lr, kAboveZero, kNoLimit, "learning rate (sgd 0.1, adam 0.001)");
    number("--momentum", o_.momentum, 0.0, kNoLimit, "of sgd; adam has its own (0)");
    group("More optimizer");
    toggle("--nesterov", o_.nesterov, "Nesterov momentum");
    if (train_) {
      choice("--schedule", o_.schedule, {"constant", "linear", "cosine"}, "of --lr, to a tenth: ");
      count("--lr-warmup", o_.lr_warmup, 0, "first steps, in which --lr rises from 0 (0)");
    }
    number("--weight-decay", o_.weight_decay, 0.0, kNoLimit,
           gpt_ ? "of matrices, decoupled with adamw (0.1)" : "decoupled with adamw (0)");
    number("--clip-norm", o_.clip_norm, kAboveZero, kNoLimit,
           gpt_ ? "scale longer gradients down to this norm (1; updates in flight: off)"
                : "scale longer gradients down to this norm (off)");
    number("--seed", o_.seed, std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max(),
           "of weights, sample order, synthetic data (0)");
  }

  void machine() {
    group("Machine");
    choice("--comm", o_.comm, {kComms.begin(), kComms.end()});
    const auto link = [&chosen = o_.choose_link](const std::string& flag, const std::string& text) {
      chosen = text == "auto";
      return chosen ? std::nullopt : std::optional(parse_link(flag, text));
    };
    value("--emulate-link", "US,GB/S", o_.emulated_link, link,
          "all-reduce as slowly as over this link; auto: one as slow as backward");
    group("More machine");
    choice("--device", o_.device, {"auto", "cpu", "cuda"});
    number("--threads", o_.threads, std::int64_t{1}, std::int64_t{4096},
           "per rank (the cores it is bound to)");
    if (train_) {
      toggle("--low-memory", o_.low_memory,
             "give back what is not in use: activations share memory with gradients; CPU");
      number("--stall-warn", o_.stall_warn, 0.0, kNoLimit,
             "seconds without progress until a line names who is waited for (10; 0: off)");
      number("--timeout", o_.timeout, 0.0, kNoLimit,
             "seconds without progress until the job ends (120; 0: off)");
      choice("--on-failure", o_.on_failure, {"abort", "shrink"},
             "a rank is lost: end, or go on without it; ");
      toggle("--keep-global-batch", o_.keep_global_batch,
             "after a shrink: more micro-batches instead of a smaller global batch");
      value("--inject", "FAULT", o_.inject, parse_fault,
            "slow | skip_param | ...: see the error it ends in");
    }
  }

  void output() {
    group("Output");
    trace();
    text("--out", "DIR", o_.out, "for the files of the run (runs/<n>)");
    if (train_) {
      checkpoints();
    }
    group("More output");
    toggle("--json", o_.json, "stdout is the summary alone");
    if (train_) {
      count("--keep", o_.keep, 0, "checkpoints to keep (2); 0: all");
      text("--graph", "FILE.dot", o_.graph, "write the autograd graph, parameters by bucket");
    }
    trace_steps();
    if (train_) {
      count("--log-every", o_.log_every, 1,
            "steps between progress lines (some 20 lines; --no-all-reduce: 1)");
      count("--eval-every", o_.eval_every, 0, "epochs between tests (1); 0: at the end");
      count("--warmup", o_.warmup, 0, "first steps left out of the medians (5, <= 1/4)");
    }
    choice("--color", o_.color, {"auto", "always", "never"});
  }

  void checkpoints() {
    // Not `this`, which is gone when the flags are parsed.
    const auto every = [&minutes = o_.checkpoint_minutes](const std::string& flag,
                                                          const std::string& text) {
      const bool in_minutes = text.ends_with('m');
      const std::string number = text.substr(0, text.size() - (in_minutes ? 1 : 0));
      minutes = in_minutes ? parse_number(flag, number, kAboveZero, kNoLimit) : 0.0;
      return in_minutes ? 0 : parse_number<std::int64_t>(flag, number, 1, kMany);
    };
    value("--checkpoint-every", "N|Nm", o_.checkpoint_steps, every,
          "steps or minutes between checkpoints");
    text("--resume", "latest|DIR", o_.resume,
         "continue the run in --out, or another run or checkpoint");
  }

  void trace() {
    toggle("--trace", o_.trace,
           compare_ ? "write a trace-MODE.json.gz (Perfetto) per mode"
                    : "write trace.json.gz (Perfetto) and timeline.html");
  }

  void trace_steps() {
    count("--trace-steps", o_.trace_steps, 1,
          compare_ ? "steps to record, the last ones (3)"
                   : "steps to record, after the first five (3)");
  }

  Options& o_;
  bool train_;    // the flags of the training programs
  bool compare_;  // those of compare_modes
  bool gpt_;      // those of train_gpt
};

}  // namespace

void declare_flags(CLI::App& app, Program program, Options& options) {
  Declaration declaration(app, options, program);
  if (program == Program::lab) {
    declaration.lab();
    return;
  }
  declaration.all();
  add_config_flag(app);
  // A config file says what a run is, not where its results go: a repeated run overwrites nothing.
  for (const char* place : {"--out", "--save", "--graph", "--json", "--color", "--resume"}) {
    if (CLI::Option* option = app.get_option_no_throw(place)) {
      option->configurable(false);
    }
  }
}

}  // namespace brigade::apps
