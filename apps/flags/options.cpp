#include "apps/flags/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "apps/flags/bucket_flags.h"
#include "apps/flags/command_line.h"
#include "apps/flags/flag_table.h"
#include "apps/flags/hook_flag.h"
#include "apps/flags/program_text.h"
#include "apps/flags/resolve_options.h"
#include "core/error.h"

namespace brigade::apps {

namespace {

const std::vector<std::string> kModes{"naive", "flat", "per_param", "overlap", "no_sync"};

constexpr std::int64_t kDeepest = 100'000;
constexpr std::int64_t kLargeBatch = 1'000'000;
constexpr double kNoLimit = std::numeric_limits<double>::max();

/// How the flags describe the network's shape.
struct ShapeFlags {
  std::vector<std::int64_t> hidden;
  std::int64_t depth = 0;
  std::int64_t width = 0;
};

void declare_comparison(FlagTable& flags, Options& o) {
  flags.group("Comparison");
  flags.list("--modes", o.modes, kModes, "which, in which order (all; no_sync needs --accum)");
  flags.count("--rounds", o.rounds, 1, "turns each mode has; the order rotates (5)");
  flags.count("--steps", o.steps, 2, "steps of a turn; the first is not timed (10)");
}

void declare_sync(FlagTable& flags, Options& o, Program program) {
  flags.group("Synchronisation");
  if (program == Program::train_mlp) {
    flags.choice("--mode", o.mode, kModes,
                 "naive | flat | per_param | overlap | no_sync (overlap)");
  }
  flags.number("--accum", o.accum, std::int64_t{1}, kLargeBatch, "micro-batches per step (1)");
  declare_bucket_flags(flags, o);
  flags.choice("--reduce", o.reduce, {"fast", "deterministic"},
               "fast | deterministic: the same bits in every mode but no_sync (fast)");
  declare_hook_flag(flags, o);
  if (program == Program::train_mlp) {
    flags.choice("--init-sync", o.init_sync, {"verify", "broadcast"},
                 "initial weights: verify | broadcast rank 0's (verify)");
    flags.choice("--sync", o.sync, {"auto", "never"},
                 "auto | never: watch the ranks drift apart (auto)");
    flags.toggle("--optimizer-overlap", "update each bucket as soon as it has arrived",
                 [&o] { o.optimizer_overlap = true; });
    flags.toggle("--cross-step", "... and go on under the next forward",
                 [&o] { o.cross_step = true; });
  }
  flags.toggle("--find-unused", "parameters no loss depends on are left alone",
               [&o] { o.find_unused = true; });
  flags.toggle("--static-graph", "likewise, the same ones in every step",
               [&o] { o.static_graph = true; });
}

void declare_data(FlagTable& flags, Options& o, Program program) {
  flags.group("Data");
  flags.choice("--data", o.data, {"synthetic", "fashion-mnist"},
               "synthetic | fashion-mnist (synthetic)");
  flags.text("--data-dir", "DIR", o.data_dir, "where the idx.gz files are");
  flags.count("--train-samples", o.train_samples, 1, "use N samples (all; synthetic: 8192)");
  flags.toggle("--no-shuffle", "file order in every epoch", [&o] { o.shuffle = false; });
  flags.choice("--uneven", o.uneven, {"join", "drop", "pad"},
               "an epoch's last, smaller batch: join | drop | pad (join)");
  flags.number("--batch", o.batch, std::int64_t{1}, kLargeBatch,
               "samples per rank and micro-batch (64)");
  if (program == Program::train_mlp) {
    flags.choice("--prefetch", o.prefetch, {"auto", "on", "off"},
                 "read ahead: auto (GPU, or a core to spare) | on | off (auto)");
    flags.count("--epochs", o.epochs, 1, "passes over the data (2)");
    flags.count("--steps", o.steps, 1, "optimizer steps; overrides --epochs");
  }
}

void declare_model(FlagTable& flags, Options& o, ShapeFlags& shape, Program program) {
  flags.group("Model");
  flags.widths("--hidden", shape.hidden, "widths of the hidden layers, or none (512,512)");
  flags.number("--depth", shape.depth, std::int64_t{1}, kDeepest,
               "instead of --hidden: D Linear layers ...");
  flags.count("--width", shape.width, 1, "... this wide; the last of these flags wins");
  flags.toggle("--no-bias", "Linear layers without bias", [&o] { o.bias = false; });
  flags.choice("--dtype", o.dtype, {"f32", "bf16"},
               "what layers multiply: f32 | bf16; all else stays f32 (f32)");
  flags.choice("--loss", o.loss, {"mse", "cross_entropy"}, "mse | cross_entropy (mse)");
  flags.text("--init", "FILE", o.init, "start from these .safetensors weights");
  if (program == Program::train_mlp) {
    flags.text("--save", "FILE", o.save, "write the trained weights, PyTorch names");
  }
}

void declare_optimizer(FlagTable& flags, Options& o, Program program) {
  flags.group("Optimizer");
  flags.choice("--optimizer", o.optimizer, {"sgd", "adam", "adamw"}, "sgd | adam | adamw (sgd)");
  flags.number("--lr", o.lr, kAboveZero, kNoLimit, "learning rate (sgd 0.1, adam 0.001)");
  flags.number("--momentum", o.momentum, 0.0, kNoLimit, "of sgd; adam has its own (0)");
  flags.toggle("--nesterov", "Nesterov momentum", [&o] { o.nesterov = true; });
  flags.number("--weight-decay", o.weight_decay, 0.0, kNoLimit, "decoupled with adamw (0)");
  flags.number("--clip-norm", o.clip_norm, kAboveZero, kNoLimit,
               "scale longer gradients down to this norm (off)");
  if (program == Program::train_mlp) {
    flags.choice("--fused-update", o.fused_update, {"auto", "on", "off"},
                 "sgd's step in the product that computes dW: auto (1 rank) | on | off (auto)");
  }
  flags.number("--seed", o.seed, std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max(),
               "of weights, sample order, synthetic data (0)");
}

void declare_link(FlagTable& flags, Options& o) {
  flags.value("--emulate-link", "US,GB/S", o.emulated_link, parse_link,
              "all-reduce as slowly as over this link; CPU");
}

void declare_machine(FlagTable& flags, Options& o, Program program) {
  flags.group("Machine");
  flags.choice("--device", o.device, {"auto", "cpu", "cuda"}, "auto | cpu | cuda (auto)");
  flags.choice("--comm", o.comm,
               {"auto", "mpi", "shared", "hierarchical", "nccl", "ring", "halving", "tree"},
               "auto | mpi | shared | hierarchical | nccl, or over sockets ring | halving | tree");
  flags.toggle("--tf32", "matrix products on tensor cores, factors rounded to TF32; GPU",
               [&o] { o.tf32 = true; });
  if (program == Program::train_mlp) {
    flags.toggle("--replay", "record a step's kernels once, then repeat them; GPU: CUDA graphs",
                 [&o] { o.replay = true; });
    flags.toggle("--cuda-graph", "--replay, on a GPU or not at all", [&o] {
      o.replay = true;
      o.cuda_graph = true;
    });
  }
  flags.number("--threads", o.threads, std::int64_t{1}, std::int64_t{4096},
               "per rank (the cores it is bound to)");
  declare_link(flags, o);
}

void declare_logging(FlagTable& flags, Options& o) {
  flags.group("Output");
  flags.count("--log-every", o.log_every, 1,
              "steps between progress lines (some 20 lines, at least every 200; --sync never: 1)");
  flags.count("--eval-every", o.eval_every, 0, "epochs between tests (1); 0: at the end only");
  flags.count("--warmup", o.warmup, 0, "first steps left out of the medians (5, <= 1/4)");
  flags.toggle("--profile", "each operation's time, GFLOP/s, GB/s and multiple of its floor",
               [&o] { o.profile = true; });
}

void declare_trace(FlagTable& flags, Options& o, Program program) {
  const bool compares = program == Program::compare_modes;
  flags.toggle("--trace",
               compares ? "write a trace-MODE.json.gz (Perfetto) per mode"
                        : "write trace.json.gz (Perfetto) and timeline.html",
               [&o] { o.trace = true; });
  flags.count("--trace-steps", o.trace_steps, 1, "steps to record (3)");
  if (!compares) {
    flags.count("--trace-skip", o.trace_skip, 1, "steps before them, the last as warm-up (5)");
  }
}

void declare_output(FlagTable& flags, Options& o, const char* files, Program program) {
  flags.group("Output");
  declare_trace(flags, o, program);
  flags.text("--out", "DIR", o.out, files);
  flags.choice("--color", o.color, {"auto", "always", "never"}, "auto | always | never (auto)");
  flags.toggle("--json", "stdout is the summary alone", [&o] { o.json = true; });
}

void declare_lab(FlagTable& flags, Options& o) {
  flags.group("Machine");
  declare_link(flags, o);
  flags.group("Output");
  declare_trace(flags, o, Program::lab);
  flags.text("--out", "DIR", o.out, "for the files of --trace (runs/<n>)");
}

void declare(FlagTable& flags, Options& o, ShapeFlags& shape, Program program) {
  if (program == Program::lab) {
    declare_lab(flags, o);
    return;
  }
  const bool compares = program == Program::compare_modes;
  if (compares) {
    declare_comparison(flags, o);
  }
  declare_sync(flags, o, program);
  declare_data(flags, o, program);
  declare_model(flags, o, shape, program);
  declare_optimizer(flags, o, program);
  declare_machine(flags, o, program);
  if (!compares) {
    flags.toggle("--trace-ring", "first show a ring all-reduce, step by step",
                 [&o] { o.trace_ring = true; });
    flags.value("--inject", "FAULT", o.inject, parse_fault,
                "slow | skip_param | ...: see the error it ends in");
    declare_logging(flags, o);
  }
  declare_output(flags, o,
                 compares ? "for compare.html and compare.json (runs/<n>)"
                          : "for metrics.jsonl and summary.json (runs/<n>)",
                 program);
}

/// --hidden and --depth/--width are two ways to say one thing. Scripts put their defaults before
/// the user's flags, so the one named last wins rather than being an error.
void resolve_shape(const CLI::App& app, const ShapeFlags& shape, Options& o) {
  bool by_depth = false;
  for (const CLI::Option* option : app.parse_order()) {
    const std::string name = option->get_name();
    by_depth = name == "--depth" || name == "--width" || (by_depth && name != "--hidden");
  }
  if (by_depth) {
    if (shape.depth == 0 || shape.width == 0) {
      throw UsageError(concat("--depth and --width: expected both, got only ",
                              shape.depth == 0 ? "--width" : "--depth"));
    }
    o.hidden.assign(static_cast<std::size_t>(shape.depth - 1), shape.width);
    o.synthetic_in = shape.width;
    o.synthetic_out = shape.width;
  } else if (app.count("--hidden") > 0) {
    o.hidden = shape.hidden;
    o.synthetic_in = o.hidden.empty() ? o.synthetic_in : o.hidden.front();
    o.synthetic_out = o.hidden.empty() ? o.synthetic_out : o.hidden.back();
  }
}

/// What to compare and how long.
void resolve_comparison(Options& o) {
  constexpr std::int64_t kUsualSteps = 10;
  o.steps = o.steps > 0 ? o.steps : kUsualSteps;
  if (o.modes.empty()) {
    o.modes = kModes;
    if (o.accum == 1) {
      o.modes.pop_back();  // no_sync, the last: there is nothing to leave out
    }
    if (o.comm_hook != "none") {
      o.modes.erase(o.modes.begin());  // naive, the first: it has nothing to compress
    }
  }
  o.mode = std::count(o.modes.begin(), o.modes.end(), "no_sync") > 0 ? "no_sync" : o.modes.front();
}

}  // namespace

ParseResult parse_options(int argc, const char* const* argv, Program program) {
  const ProgramText about = text_of(program, argv[0]);
  CLI::App app(about.purpose, about.name);
  prepare_command_line(app);
  app.footer(about.examples);
  Options options;
  ShapeFlags shape;
  FlagTable flags(app);
  declare(flags, options, shape, program);
  const auto exit = parse_command_line(app, argc, argv, [&] {
    if (program != Program::lab) {
      resolve_shape(app, shape, options);
    }
    if (program == Program::compare_modes) {
      resolve_comparison(options);
    }
    resolve_options(app, options);
  });
  if (exit) {
    return {.options = {}, .text = exit->text, .exit_code = exit->exit_code};
  }
  options.command_line = as_typed(argc, argv);
  return {.options = std::move(options), .text = {}, .exit_code = 0};
}

}  // namespace brigade::apps
