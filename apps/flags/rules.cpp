#include "apps/flags/rules.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/error.h"

namespace brigade::apps {

namespace {

struct Rule {
  bool applies;
  std::string message;
};

bool runs_naive(const Options& o) {
  return o.mode == "naive" || std::count(o.modes.begin(), o.modes.end(), "naive") > 0;
}

/// The flag with which a step can use its gradients once only; empty without one.
std::string used_once(const Options& o) {
  return o.cross_step          ? "--cross-step"
         : o.optimizer_overlap ? "--optimizer-overlap"
         : o.shard_optimizer   ? "--shard-optimizer"
                               : "";
}

bool compresses_by_bucket(const Options& o) {
  return o.comm_hook.starts_with("powersgd") || o.comm_hook.starts_with("topk");
}

std::vector<Rule> refused(const Options& o) {
  const bool in_flight = o.in_flight().has_value();
  const std::string flight = used_once(o);
  const bool once = !flight.empty();
  const bool by_bucket = compresses_by_bucket(o);
  return {
      {std::filesystem::path(o.graph).extension() == ".svg",
       fmt::format("--graph: expected a file for Graphviz' language, such as graph.dot, got {}, "
                   "which is the picture's name",
                   o.graph)},
      {o.deferred_sync() && o.accum == 1,
       "no_sync: expected --accum K with K > 1, got 1: with one micro-batch per step there is no "
       "synchronisation to leave out; add for instance --accum 4"},
      {once && o.accum > 1 && !o.deferred_sync(),
       fmt::format("{}: expected --mode no_sync with --accum {}, got {}, which synchronises after "
                   "every micro-batch; {} needs one synchronisation per step",
                   flight, o.accum, o.mode, flight)},
      {o.shard_optimizer && (in_flight || o.comm_hook != "none" || o.check_reduce),
       fmt::format("--shard-optimizer: expected plain sums and one update after backward, got {}",
                   in_flight               ? flight
                   : o.comm_hook != "none" ? fmt::format("--comm-hook {}", o.comm_hook)
                                           : "--check-reduce")},
      {o.choose_buckets && (once || o.comm_hook != "none" || o.no_all_reduce ||
                            (o.mode != "overlap" && o.mode != "no_sync")),
       fmt::format("--bucket-mb auto: expected all-reduces of buckets during backward, got {}",
                   once                    ? flight
                   : o.no_all_reduce       ? "--no-all-reduce"
                   : o.comm_hook != "none" ? fmt::format("--comm-hook {}", o.comm_hook)
                                           : fmt::format("--mode {}", o.mode))},
      {once && (o.mode == "naive" || o.no_all_reduce),
       fmt::format("{}: expected buckets that arrive, got {}", flight,
                   o.no_all_reduce ? "--no-all-reduce" : "--mode naive; use --mode overlap")},
      {in_flight && (o.clip_norm > 0.0 || o.find_unused),
       fmt::format("{}: expected no {}: what it needs is known only when backward is over, and by "
                   "then the first gradients are used up; leave one of them out",
                   flight, o.clip_norm > 0.0 ? "--clip-norm" : "--find-unused")},
      {in_flight && o.low_memory,
       fmt::format("--low-memory: expected gradients that are used when a step ends, got {}",
                   flight)},
      {o.no_all_reduce && (!o.save.empty() || o.verify_every > 0 || o.checkpoints()),
       fmt::format("--no-all-reduce: expected no {}: the ranks end with different weights; leave "
                   "one of them out",
                   !o.save.empty()      ? "--save"
                   : o.verify_every > 0 ? "--verify-every"
                                        : "checkpoints")},
      {o.reduce == "deterministic" && (o.comm == "hierarchical" || by_bucket),
       fmt::format("--reduce deterministic: expected sums in rank order, got {}",
                   by_bucket ? fmt::format("--comm-hook {}, whose result depends on the buckets",
                                           o.comm_hook)
                             : "--comm hierarchical, which adds within the hosts first")},
      {o.comm_hook != "none" && runs_naive(o),
       fmt::format("--comm-hook {}: expected a mode with buckets to compress, got naive; use flat, "
                   "per_param, overlap or no_sync",
                   o.comm_hook)}};
}

std::vector<Rule> refused_with_model_or_optimizer(const Options& o) {
  return {
      {o.inject && o.inject->kind == FaultKind::nan && o.model == "gpt",
       "--inject nan: expected a model of numbers, got one of tokens; use train_mlp"},
      {o.loss == "cross_entropy" && o.data == "synthetic" && o.synthetic_out < 2,
       "--loss cross_entropy: expected 2 classes or more, got 1; use a wider last layer"},
      {o.nesterov && o.optimizer != "sgd",
       fmt::format("--nesterov: expected --optimizer sgd, got {}; leave it out", o.optimizer)},
      {o.nesterov && o.momentum == 0.0,
       "--nesterov: expected --momentum greater than 0, got 0; add for instance --momentum 0.9"}};
}

std::vector<Rule> refused_with_shrink(const Options& o) {
  const std::string flight = used_once(o);
  const bool by_bucket = compresses_by_bucket(o);
  return {
      {o.shrinks() && (!flight.empty() || by_bucket || o.no_all_reduce),
       fmt::format(
           "--on-failure shrink: expected a step that can be dropped, got {}",
           o.shard_optimizer ? "--shard-optimizer, which loses the state that a dead rank kept"
           : !flight.empty() ? flight + ", which updates weights before all gradients have arrived"
           : by_bucket ? fmt::format("--comm-hook {}, whose error feedback is lost", o.comm_hook)
                       : "--no-all-reduce, whose ranks do not need each other")},
      {o.shrinks() && (o.emulated_link || o.choose_link),
       "--on-failure shrink: expected the network that there is, got --emulate-link"},
      {o.shrinks() &&
           std::ranges::count(std::array{"mpi", "shared", "hierarchical", "nccl"}, o.comm) > 0,
       fmt::format("--on-failure shrink: expected --comm ring, halving or tree, got {}: it cannot "
                   "be used with a rank that is gone",
                   o.comm)}};
}

}  // namespace

void check_combinations(const Options& options) {
  for (const std::vector<Rule>& rules :
       {refused(options), refused_with_model_or_optimizer(options), refused_with_shrink(options)}) {
    for (const Rule& rule : rules) {
      if (rule.applies) {
        throw UsageError(rule.message);
      }
    }
  }
}

std::vector<std::string> idle_flags(const Options& o) {
  const Options usual;
  const bool samples =
      o.prompt != usual.prompt || o.temperature != usual.temperature || o.top_k != usual.top_k;
  const Rule rules[]{
      {samples && o.sample == 0,
       "--prompt, --temperature, --top-k: no text is written without --sample"},
      {o.momentum > 0.0 && o.optimizer != "sgd",
       fmt::format("--momentum: --optimizer {} has its own", o.optimizer)},
      {o.data == "synthetic" && o.data_dir != usual.data_dir,
       "--data-dir: synthetic data has no files"},
      {o.no_all_reduce && (o.emulated_link || o.choose_link || o.comm_hook != "none" ||
                           o.reduce != "fast" || o.find_unused || o.check_finite || o.check_reduce),
       "with --no-all-reduce no gradient leaves its rank: --emulate-link, --comm-hook, --reduce, "
       "--find-unused, --check-finite, --check-reduce"},
      {o.keep != usual.keep && !o.checkpoints(),
       "--keep: there are no checkpoints without --checkpoint-every or --resume"},
      {o.keep_global_batch && !o.shrinks(),
       "--keep-global-batch: no rank is lost without --on-failure shrink"},
      {o.inject && o.inject->kind == FaultKind::other_seed && !o.init.empty(),
       "--inject other_seed: the weights are those of --init"},
      {o.matmul_precision != "highest" && o.dtype == "bf16" && o.model == "mlp",
       "--matmul-precision: with --dtype bf16 no layer multiplies f32"}};
  std::vector<std::string> idle;
  for (const Rule& rule : rules) {
    if (rule.applies) {
      idle.push_back(rule.message);
    }
  }
  return idle;
}

}  // namespace brigade::apps
