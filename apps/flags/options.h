#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/flags/command_line.h"
#include "apps/flags/fault_flag.h"
#include "dist/comm/emulated_link_communicator.h"
#include "dist/ddp/grad_averager.h"
#include "dist/overlap/bucket_optimizer.h"
#include "nn/data/fashion_mnist.h"
#include "nn/gpt.h"
#include "optim/optimizer.h"

namespace brigade::apps {

/// Whose flags: the programs share most of them.
enum class Program : std::uint8_t { train_mlp, train_gpt, compare_modes, lab };

/// What the user asked for; --help-all of the program explains each. Complete and consistent once
/// parsed: defaults that depend on other flags are filled in, except for those that need the data
/// set (0 = decide later) or the number of ranks (--global-batch).
struct Options {
  std::string mode = "overlap";
  std::vector<std::string> modes;  // compare_modes: what to compare
  std::int64_t rounds = 5;         // compare_modes: times each mode has its turn
  std::int64_t accum = 1;
  double bucket_mb = 25.0;
  bool choose_buckets = false;  // --bucket-mb auto: later, from measured times
  std::string comm_hook = "none";
  std::string init_sync = "verify";
  bool optimizer_overlap = false;
  bool cross_step = false;
  bool shard_optimizer = false;
  bool no_all_reduce = false;  // each rank steps on its own gradients
  bool find_unused = false;
  std::int64_t verify_every = 0;  // steps; 0: only before the first and after the last
  bool check_finite = false;
  bool check_reduce = false;
  std::string on_failure = "abort";
  bool keep_global_batch = false;
  std::string reduce = "fast";

  std::string data = "synthetic";
  std::string data_dir = data::fashion_mnist_directory();
  std::int64_t train_samples = 0;  // 0: all images, or enough synthetic samples
  bool shuffle = true;
  std::string uneven = "join";
  std::string prefetch = "auto";
  std::int64_t batch = 64;        // per rank and micro-batch
  std::int64_t global_batch = 0;  // instead of it: share_global_batch()
  std::int64_t epochs = 2;
  std::int64_t steps = 0;  // 0: as many as the epochs have

  std::string model = "mlp";   // or "gpt"
  nn::GPTOptions gpt;          // vocabulary and precision follow from the text and --dtype
  std::int64_t context = 128;  // tokens of a sequence, at most gpt.context
  std::string text;            // empty: the sources of this project
  std::string tokenizer;       // empty: tokens are bytes
  std::int64_t sample = 0;     // tokens to write in the end
  std::string prompt = "\n";
  double temperature = 0.8;
  std::int64_t top_k = 40;

  std::vector<std::int64_t> hidden{512, 512};
  std::int64_t depth = 0;           // as typed, like `width`; resolved into `hidden`
  std::int64_t width = 0;           // a GPT's is resolved into gpt.width
  std::int64_t synthetic_in = 512;  // width of the synthetic data
  std::int64_t synthetic_out = 512;
  bool bias = true;
  std::string dtype = "f32";
  std::string loss = "mse";
  std::string init;
  std::string save;

  std::string optimizer = "sgd";
  double lr = 0.0;
  double momentum = 0.0;
  bool nesterov = false;
  double weight_decay = 0.0;
  double clip_norm = 0.0;  // 0: no clipping
  std::string schedule = "constant";
  std::int64_t lr_warmup = 0;  // steps
  std::uint64_t seed = 0;

  std::string device = "auto";
  std::string comm = "auto";
  std::string matmul_precision = "highest";
  bool low_memory = false;   // memory goes back to the system while it is not in use
  std::int64_t threads = 0;  // 0: the cores of this rank's binding
  std::optional<dist::LinkModel> emulated_link;
  bool choose_link = false;  // --emulate-link auto
  std::optional<Fault> inject;

  std::int64_t log_every = 0;   // 0: about 20 lines, at least every 200 steps
  std::int64_t eval_every = 1;  // epochs; 0: only at the end
  std::int64_t warmup = 5;
  bool trace = false;
  std::int64_t trace_steps = 3;
  std::string out;           // empty: runs/<n>
  std::string graph;         // empty: none is drawn
  double stall_warn = 10.0;  // seconds; 0: never
  double timeout = 120.0;
  std::int64_t checkpoint_steps = 0;  // between two checkpoints; 0: none by steps
  double checkpoint_minutes = 0.0;
  std::int64_t keep = 2;
  std::string resume;  // "latest" or a directory; empty: from the beginning
  std::string color = "auto";
  bool json = false;

  std::string command_line;         // as typed, for summary.json
  std::vector<std::string> config;  // config.toml: a line per flag

  /// With --mode no_sync the first K-1 micro-batches run inside DataParallel::no_sync().
  bool deferred_sync() const { return mode == "no_sync"; }
  /// Whether buckets are updated as they arrive, and how late they may.
  std::optional<dist::UpdateDeadline> in_flight() const;
  bool checkpoints() const {
    return checkpoint_steps > 0 || checkpoint_minutes > 0.0 || !resume.empty();
  }
  optim::GradMemory grad_memory() const {
    return low_memory ? optim::GradMemory::discard : optim::GradMemory::keep;
  }
  /// When a rank is lost, the others go on.
  bool shrinks() const { return on_failure == "shrink"; }
  dist::DataParallelOptions data_parallel() const;
  /// The lines of `config` that all ranks must have alike: with another --accum or --steps on one
  /// of them the others would wait for it for ever.
  std::vector<std::string> agreement() const;
  /// Divides --global-batch among `ranks` and micro-batches. UsageError if that leaves a remainder.
  void share_global_batch(int ranks);
};

/// "train_mlp", "train_gpt" or, of compare_modes, which of them would train that model.
const char* program_name(const Options& options);

Parsed<Options> parse_options(int argc, const char* const* argv,
                              Program program = Program::train_mlp);

}  // namespace brigade::apps
