#include "apps/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <limits>

#include "apps/flag_values.h"
#include "core/config.h"
#include "core/error.h"

namespace brigade::apps {

namespace {

constexpr const char* kExamples = R"(Examples:
  mpirun -np 2 train_mlp --data fashion-mnist --lr 0.1 --momentum 0.9
  mpirun -np 4 train_mlp --mode naive --depth 8 --width 1024 --steps 50
  train_mlp --data fashion-mnist --loss cross_entropy --optimizer adam --save weights.safetensors)";

constexpr std::int64_t kMany = 1'000'000'000;
constexpr std::int64_t kLargeBatch = 1'000'000;
constexpr double kNoLimit = std::numeric_limits<double>::max();

/// Declares flags, each in the current group. CLI11 hands over text; flag_values.h converts it.
class FlagTable {
 public:
  explicit FlagTable(CLI::App& app) : app_(app) {}

  void group(const char* name) { group_ = name; }

  void text(const char* flag, const char* type, std::string& target, const char* help) {
    option(flag, type, help, [&target](const std::string& value) { target = value; });
  }

  void toggle(const char* flag, const char* help, std::function<void()> set) {
    app_.add_flag_callback(flag, std::move(set), help)->group(group_);
  }

  void choice(const char* flag, std::string& target, const std::vector<std::string>& allowed,
              const char* help) {
    option(flag, "NAME", help, [flag, &target, allowed](const std::string& value) {
      check_choice(flag, value, allowed);
      target = value;
    });
  }

  template <class T>
  void number(const char* flag, T& target, T least, T most, const char* help) {
    option(flag, std::is_floating_point_v<T> ? "X" : "N", help,
           [flag, &target, least, most](const std::string& value) {
             target = parse_number(flag, value, least, most);
           });
  }

  void count(const char* flag, std::int64_t& target, std::int64_t least, const char* help) {
    number(flag, target, least, kMany, help);
  }

  void widths(const char* flag, std::vector<std::int64_t>& target, const char* help) {
    option(flag, "A,B,..", help,
           [flag, &target](const std::string& value) { target = parse_widths(flag, value); });
  }

 private:
  void option(const char* flag, const char* type, const char* help,
              const std::function<void(const std::string&)>& assign) {
    app_.add_option_function<std::string>(flag, assign, help)->group(group_)->type_name(type);
  }

  CLI::App& app_;
  std::string group_;
};

/// How the flags describe the network's shape.
struct ShapeFlags {
  std::vector<std::int64_t> hidden;
  std::int64_t depth = 0;
  std::int64_t width = 0;
};

void declare_sync_and_data(FlagTable& flags, Options& o) {
  flags.group("Synchronisation");
  flags.choice("--mode", o.mode, {"naive", "flat", "per_param", "overlap", "no_sync"},
               "naive | flat | per_param | overlap | no_sync (overlap)");
  flags.number("--accum", o.accum, std::int64_t{1}, kLargeBatch, "micro-batches per step (1)");
  flags.number("--bucket-mb", o.bucket_mb, 0.0, kNoLimit, "bucket capacity in MiB (25)");
  flags.choice("--init-sync", o.init_sync, {"verify", "broadcast"},
               "initial weights: verify | broadcast rank 0's (verify)");

  flags.group("Data");
  flags.choice("--data", o.data, {"synthetic", "fashion-mnist"},
               "synthetic | fashion-mnist (synthetic)");
  flags.text("--data-dir", "DIR", o.data_dir, "where the idx.gz files are");
  flags.count("--train-samples", o.train_samples, 1, "use N samples (all; synthetic: 8192)");
  flags.toggle("--no-shuffle", "file order in every epoch", [&o] { o.shuffle = false; });
  flags.number("--batch", o.batch, std::int64_t{1}, kLargeBatch,
               "samples per rank and micro-batch (64)");
  flags.count("--epochs", o.epochs, 1, "passes over the data (2)");
  flags.count("--steps", o.steps, 1, "optimizer steps; overrides --epochs");
}

void declare_model(FlagTable& flags, Options& o, ShapeFlags& shape) {
  flags.group("Model");
  flags.widths("--hidden", shape.hidden, "widths of the hidden layers, or none (512,512)");
  flags.count("--depth", shape.depth, 1, "instead of --hidden: D Linear layers ...");
  flags.count("--width", shape.width, 1, "... this wide; the last of these flags wins");
  flags.toggle("--no-bias", "Linear layers without bias", [&o] { o.bias = false; });
  flags.choice("--loss", o.loss, {"mse", "cross_entropy"}, "mse | cross_entropy (mse)");
  flags.text("--init", "FILE", o.init, "start from these .safetensors weights");
  flags.text("--save", "FILE", o.save, "write the trained weights, PyTorch names");

  flags.group("Optimizer");
  flags.choice("--optimizer", o.optimizer, {"sgd", "adam", "adamw"}, "sgd | adam | adamw (sgd)");
  flags.number("--lr", o.lr, kAboveZero, kNoLimit, "learning rate (sgd 0.1, adam 0.001)");
  flags.number("--momentum", o.momentum, 0.0, kNoLimit, "of sgd; adam has its own (0)");
  flags.toggle("--nesterov", "Nesterov momentum", [&o] { o.nesterov = true; });
  flags.number("--weight-decay", o.weight_decay, 0.0, kNoLimit, "decoupled with adamw (0)");
  flags.number("--seed", o.seed, std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max(),
               "of weights, sample order, synthetic data (0)");
}

void declare_running(FlagTable& flags, Options& o) {
  flags.group("Machine");
  flags.choice("--device", o.device, {"auto", "cpu", "cuda"}, "auto | cpu | cuda (auto)");
  flags.choice("--comm", o.comm, {"auto", "mpi", "nccl"}, "auto | mpi | nccl (auto)");
  flags.number("--threads", o.threads, std::int64_t{1}, std::int64_t{4096},
               "per rank (the cores it is bound to)");

  flags.group("Output");
  flags.count("--log-every", o.log_every, 1, "steps between progress lines (20 lines)");
  flags.count("--eval-every", o.eval_every, 0, "epochs between tests (1); 0: at the end only");
  flags.count("--warmup", o.warmup, 0, "first steps left out of the medians (5, <= 1/4)");
  flags.toggle("--trace", "write trace.json.gz (Perfetto) and timeline.html",
               [&o] { o.trace = true; });
  flags.count("--trace-steps", o.trace_steps, 1, "steps to record (3)");
  flags.count("--trace-skip", o.trace_skip, 1, "steps before them, the last as warm-up (5)");
  flags.text("--out", "DIR", o.out, "for metrics.jsonl and summary.json (runs/<n>)");
  flags.choice("--color", o.color, {"auto", "always", "never"}, "auto | always | never (auto)");
  flags.toggle("--json", "stdout is the summary alone", [&o] { o.json = true; });
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

void resolve(Options& o) {
  if (o.mode == "no_sync" && o.accum == 1) {
    throw UsageError(
        "--mode no_sync: expected --accum K with K > 1, got 1: with one micro-batch per step there "
        "is no synchronisation to leave out; add for instance --accum 4");
  }
  if (o.nesterov && o.optimizer == "sgd" && o.momentum == 0.0) {
    throw UsageError(
        "--nesterov: expected --momentum greater than 0, got 0; add for instance --momentum 0.9");
  }
  if (o.nesterov && o.optimizer != "sgd") {
    throw UsageError(concat("--nesterov: expected --optimizer sgd, got ", o.optimizer));
  }
  if (o.lr == 0.0) {
    o.lr = o.optimizer == "sgd" ? 0.1 : 0.001;
  }
}

/// CLI11 puts two blank lines between groups; with one, all of --help fits on a screen.
std::string without_double_blank_lines(std::string text) {
  for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) {
    text.erase(at, 1);
  }
  return text;
}

void reject_unknown(const CLI::App& app) {
  const std::vector<std::string> unknown = app.remaining();
  if (unknown.empty()) {
    return;
  }
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    known.push_back(option->get_name());
  }
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  const std::string hint = suggestion(word, known);
  throw UsageError(concat("unknown ", word.rfind('-', 0) == 0 ? "flag " : "argument ", word,
                          hint.empty() ? "; --help lists the flags" : hint));
}

}  // namespace

dist::DataParallelOptions Options::data_parallel() const {
  constexpr double kMostMib = 1U << 20U;
  dist::DataParallelOptions result;
  result.mode = deferred_sync() ? dist::SyncMode::overlap : dist::parse_sync_mode(mode);
  result.bucket_bytes = static_cast<std::size_t>(std::min(bucket_mb, kMostMib) * 0x1p20);
  result.init_sync = init_sync == "verify" ? dist::InitSync::verify : dist::InitSync::broadcast;
  return result;
}

std::vector<std::string> Options::agreement() const {
  const auto flag = [](const char* name, const auto&... value) {
    return concat("--", name, ' ', value...);
  };
  std::string widths;
  for (const std::int64_t width : hidden) {
    widths += concat(widths.empty() ? "" : ",", width);
  }
  return {flag("mode", mode),
          flag("accum", accum),
          flag("bucket-mb", bucket_mb),
          flag("init-sync", init_sync),
          flag("data", data),
          flag("train-samples", train_samples),
          flag("no-shuffle", shuffle ? "off" : "on"),
          flag("batch", batch),
          flag("epochs", epochs),
          flag("steps", steps),
          flag("hidden", widths),
          flag("width", synthetic_in, " -> ", synthetic_out),
          flag("no-bias", bias ? "off" : "on"),
          flag("loss", loss),
          flag("optimizer", optimizer),
          flag("lr", lr),
          flag("momentum", momentum),
          flag("nesterov", nesterov ? "on" : "off"),
          flag("weight-decay", weight_decay),
          flag("seed", seed),
          flag("device", device),
          flag("comm", comm),
          flag("log-every", log_every),
          flag("eval-every", eval_every),
          flag("warmup", warmup),
          flag("trace", trace ? "on" : "off"),
          flag("trace-steps", trace_steps),
          flag("trace-skip", trace_skip)};
}

ParseResult parse_options(int argc, const char* const* argv) {
  CLI::App app("Trains a multilayer perceptron, data parallel over the ranks that mpirun starts.",
               "train_mlp");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.allow_extras();
  app.footer(kExamples);
  app.get_formatter()->column_width(26);
  app.set_version_flag("--version", std::string("train_mlp (Brigade) ") + kVersion);
  Options options;
  ShapeFlags shape;
  FlagTable flags(app);
  declare_sync_and_data(flags, options);
  declare_model(flags, options, shape);
  declare_running(flags, options);
  try {
    app.parse(argc, argv);
    reject_unknown(app);
    resolve_shape(app, shape, options);
    resolve(options);
  } catch (const CLI::CallForHelp&) {
    return {.options = {}, .text = without_double_blank_lines(app.help()), .exit_code = 0};
  } catch (const CLI::CallForVersion& version) {
    return {.options = {}, .text = std::string(version.what()) + "\n", .exit_code = 0};
  } catch (const std::exception& error) {
    return {.options = {}, .text = concat("train_mlp: ", error.what(), "\n"), .exit_code = 2};
  }
  for (int i = 0; i < argc; ++i) {
    options.command_line += (i == 0 ? "" : " ") + std::string(argv[i]);
  }
  return {.options = std::move(options), .text = {}, .exit_code = 0};
}

}  // namespace brigade::apps
