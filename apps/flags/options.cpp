#include "apps/flags/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "apps/flags/declare_flags.h"
#include "apps/flags/hook_flag.h"
#include "apps/flags/rules.h"
#include "core/error.h"
#include "core/ops.h"
#include "nn/gpt2_files.h"

namespace brigade::apps {

namespace {

struct ProgramText {
  const char* name;  // empty: as typed
  const char* purpose;
  const char* examples;
};

constexpr ProgramText kTrainMlp{
    "train_mlp", "Trains a multilayer perceptron, data parallel over the ranks that mpirun starts.",
    R"(Examples:
  mpirun -np 2 train_mlp --data fashion-mnist --momentum 0.9 --save weights.safetensors
  mpirun -np 4 train_mlp --mode naive --depth 8 --width 1024 --steps 50)"};

constexpr ProgramText kTrainGpt{
    "train_gpt", "Trains a GPT-2 on text, data parallel over the ranks that mpirun starts.",
    R"(Examples:
  mpirun -np 2 train_gpt --epochs 1 --sample 400
  mpirun -np 2 train_gpt --text book.txt --layers 6 --heads 6 --width 384 --context 256)"};

constexpr ProgramText kCompareModes{
    "compare_modes", "Times the synchronisation modes against each other, on the same work.",
    R"(Examples:
  mpirun -np 2 compare_modes --depth 8 --width 1024 --batch 128 --emulate-link auto
  mpirun -np 2 compare_modes --modes overlap,no_sync --accum 4 --bucket-mb 1)"};

constexpr ProgramText kLab{
    "", "Data parallelism, built step by step: apps/labs/README.md tells what to look for.",
    R"(Examples:
  mpirun -np 2 lab5_overlap
  mpirun -np 2 lab5_overlap --trace --emulate-link 50,0.1 --out runs/lab5)"};

/// compare_modes has the flags of both networks.
void refuse_flags_of_other(const CLI::App& app, const std::string& model) {
  const std::set<std::string> of_mlp{"--hidden", "--depth",    "--loss",         "--no-bias",
                                     "--data",   "--data-dir", "--train-samples"};
  const std::set<std::string> of_gpt{"--layers",  "--heads", "--context",
                                     "--dropout", "--text",  "--tokenizer"};
  for (const std::string& flag : model == "gpt" ? of_mlp : of_gpt) {
    const CLI::Option* option = app.get_option_no_throw(flag);
    if (option != nullptr && option->count() > 0) {
      throw UsageError(fmt::format("{}: expected --model {}, got {}; leave it out", flag,
                                   model == "gpt" ? "mlp" : "gpt", model));
    }
  }
}

/// The sizes in the config.json of --init, where no flag says another one.
nn::GPTOptions sizes_of_init(const CLI::App& app, const Options& o) {
  const nn::GPTOptions sizes = nn::load_gpt2_options(o.init, o.gpt);
  for (const auto& [flag, asked, found] : {std::tuple{"--layers", o.gpt.layers, sizes.layers},
                                           std::tuple{"--heads", o.gpt.heads, sizes.heads},
                                           std::tuple{"--width", o.gpt.width, sizes.width}}) {
    if (app.count(flag) > 0 && asked != found) {
      throw UsageError(
          fmt::format("{}: expected {}, which --init has, got {}", flag, found, asked));
    }
  }
  return sizes;
}

/// What is usual for a GPT, where the flags say nothing else.
void resolve_gpt(const CLI::App& app, Options& o) {
  o.data = "text";
  o.loss = "cross_entropy";
  o.gpt.width = app.count("--width") > 0 ? o.width : o.gpt.width;
  o.optimizer = app.count("--optimizer") > 0 ? o.optimizer : "adamw";
  o.batch = app.count("--batch") > 0 ? o.batch : 8;
  o.weight_decay = app.count("--weight-decay") > 0 ? o.weight_decay : 0.1;
  if (app.count("--clip-norm") == 0 && !o.in_flight()) {
    o.clip_norm = 1.0;
  }
  if (!o.init.empty() && nn::has_gpt2_config(o.init)) {  // sizes that are not free
    o.gpt = sizes_of_init(app, o);
    o.context = app.count("--context") > 0 ? o.context : std::min(o.context, o.gpt.context);
  } else {
    o.gpt.context = o.context;
  }
  if (o.context > o.gpt.context) {
    throw UsageError(
        fmt::format("--context: expected at most {}, the positions that --init has, got {}",
                    o.gpt.context, o.context));
  }
  if (o.gpt.width % o.gpt.heads != 0) {
    throw UsageError(
        fmt::format("--heads: expected a divisor of --width {}, got {}", o.gpt.width, o.gpt.heads));
  }
  if (o.gpt.width / o.gpt.heads > ops::kWidestHead) {
    throw UsageError(
        fmt::format("--heads: expected at most {} numbers per head, got --width {} / {}",
                    ops::kWidestHead, o.gpt.width, o.gpt.heads));
  }
}

/// --hidden or --depth and --width.
void resolve_hidden(CLI::App& app, Options& o) {
  keep_last(app, {{"--hidden"}, {"--depth", "--width"}});
  const bool depth = app.count("--depth") > 0;
  if (depth != (app.count("--width") > 0)) {
    throw UsageError(fmt::format("--depth and --width: expected both, got only {}",
                                 depth ? "--depth" : "--width"));
  }
  if (depth) {
    o.hidden.assign(static_cast<std::size_t>(o.depth - 1), o.width);
    o.synthetic_in = o.synthetic_out = o.width;
  } else if (app.count("--hidden") > 0) {
    o.synthetic_in = o.hidden.empty() ? o.synthetic_in : o.hidden.front();
    o.synthetic_out = o.hidden.empty() ? o.synthetic_out : o.hidden.back();
  }
}

/// What to compare and how long.
void resolve_comparison(Options& o) {
  constexpr std::int64_t kUsualSteps = 10;
  o.steps = o.steps > 0 ? o.steps : kUsualSteps;
  if (o.modes.empty()) {
    o.modes = {kModes.begin(), kModes.end()};
    if (o.accum == 1) {
      o.modes.pop_back();  // no_sync, the last: there is nothing to leave out
    }
    if (o.comm_hook != "none") {
      o.modes.erase(o.modes.begin());  // naive, the first: it has nothing to compress
    }
  }
  o.mode = std::count(o.modes.begin(), o.modes.end(), "no_sync") > 0 ? "no_sync" : o.modes.front();
}

void resolve(CLI::App& app, Program program, Options& o) {
  if (program != Program::lab) {
    keep_last(app, {{"--batch"}, {"--global-batch"}});
    o.global_batch = app.count("--global-batch") > 0 ? o.global_batch : 0;
    refuse_flags_of_other(app, o.model);
    o.model == "gpt" ? resolve_gpt(app, o) : resolve_hidden(app, o);
  }
  o.config = config_lines(app);
  if (program == Program::compare_modes) {
    resolve_comparison(o);
  }
  if (o.cross_step && app.count("--bucket-mb") == 0) {
    o.bucket_mb = 1.0;  // the next forward waits for a layer at a time, not for 25 MiB of them
  }
  check_combinations(o);
  if (o.lr == 0.0) {
    o.lr = o.optimizer == "sgd" ? 0.1 : 0.001;
  }
}

std::size_t bytes_of(double mib) {
  constexpr double kMostMib = 1U << 20U;
  return static_cast<std::size_t>(std::min(mib, kMostMib) * 0x1p20);
}

}  // namespace

std::optional<dist::UpdateDeadline> Options::in_flight() const {
  if (cross_step) {
    return dist::UpdateDeadline::next_read;
  }
  return optimizer_overlap ? std::optional(dist::UpdateDeadline::end_of_backward) : std::nullopt;
}

dist::DataParallelOptions Options::data_parallel() const {
  dist::DataParallelOptions result;
  result.mode = deferred_sync() ? dist::SyncMode::overlap : dist::parse_sync_mode(mode);
  result.bucket_bytes = bytes_of(bucket_mb);
  result.hook = make_comm_hook(comm_hook);
  result.init_sync = init_sync == "verify" ? dist::InitSync::verify : dist::InitSync::broadcast;
  result.find_unused_parameters = find_unused;
  return result;
}

const char* program_name(const Options& options) {
  return options.model == "gpt" ? kTrainGpt.name : kTrainMlp.name;
}

std::vector<std::string> Options::agreement() const {
  // Names of files, which hosts may keep in other places (what is in them is compared), and how a
  // rank uses its own cores.
  const std::set<std::string> of_each_rank{"data-dir", "init", "threads",
                                           "prefetch", "text", "tokenizer"};
  std::vector<std::string> lines = config;
  std::erase_if(lines, [&](const std::string& line) {
    const std::size_t begin = line.starts_with('#') ? 2 : 0;
    return of_each_rank.contains(line.substr(begin, line.find(' ', begin) - begin));
  });
  return lines;
}

void Options::share_global_batch(int ranks) {
  if (global_batch == 0) {
    return;
  }
  const std::int64_t parts = accum * ranks;
  batch = global_batch / parts;
  if (batch * parts == global_batch) {
    return;
  }
  std::vector<std::int64_t> divisors;
  for (std::int64_t divisor = 1; divisor <= std::min(global_batch, 2 * parts); ++divisor) {
    if (global_batch % divisor == 0) {
      divisors.push_back(divisor);
    }
  }
  throw UsageError(fmt::format(
      "--global-batch: expected a multiple of ranks x --accum = {} x {} = {}, got {}; use {}{}, or "
      "make ranks x --accum one of {}",
      ranks, accum, parts, global_batch, batch > 0 ? fmt::format("{} or ", batch * parts) : "",
      (batch + 1) * parts, fmt::join(divisors, ", ")));
}

Parsed<Options> parse_options(int argc, const char* const* argv, Program program) {
  const ProgramText& text = program == Program::train_mlp       ? kTrainMlp
                            : program == Program::train_gpt     ? kTrainGpt
                            : program == Program::compare_modes ? kCompareModes
                                                                : kLab;
  CLI::App app(text.purpose, text.name);
  if (program == Program::lab) {
    app.name(std::filesystem::path(argv[0]).filename().string());
  }
  prepare_command_line(app);
  app.footer(text.examples);
  Parsed<Options> result;
  Options& options = result.options;
  options.model = program == Program::train_gpt ? "gpt" : "mlp";
  declare_flags(app, program, options);
  result.exit = parse_command_line(app, argc, argv, [&] { resolve(app, program, options); });
  options.command_line = fmt::format("{}", fmt::join(argv, argv + argc, " "));
  return result;
}

}  // namespace brigade::apps
