#include "apps/flags/resolve_options.h"

#include <CLI/CLI.hpp>

#include "apps/flags/bucket_flags.h"
#include "apps/flags/hook_flag.h"
#include "core/error.h"

namespace brigade::apps {

namespace {

void resolve_sync(const Options& o) {
  if (o.never_syncs() && o.inject && o.inject->kind == FaultKind::skip_param) {
    throw UsageError(concat("--inject ", o.inject->text,
                            ": expected --sync auto, got never: a gradient is missed by those who "
                            "wait for its bucket, and nobody waits"));
  }
  if (o.never_syncs() && o.find_unused) {
    throw UsageError(
        "--sync never: no gradient leaves its rank, so the ranks cannot agree on unused "
        "parameters; leave out --find-unused");
  }
  if (o.never_syncs() && (o.emulated_link || o.reduce == "deterministic")) {
    throw UsageError(concat("--sync never: no gradient leaves its rank; leave out ",
                            o.emulated_link ? "--emulate-link" : "--reduce deterministic"));
  }
  if (o.never_syncs() && !o.save.empty()) {
    throw UsageError(
        "--sync never: the ranks end with different weights, so there are none to "
        "save; leave out --save " +
        o.save);
  }
}

/// Updates in flight: what they need, and what they cannot do.
void resolve_in_flight(const CLI::App& app, Options& o) {
  if (o.cross_step) {
    // The next forward waits for a layer at a time, so a layer is what should arrive; small pieces
    // let an urgent one overtake. Only where the user has not chosen.
    const bool own_buckets = o.mode == "naive" || o.mode == "per_param" || o.first_bucket_mb ||
                             o.last_bucket_mb || app.count("--bucket-mb") > 0;
    if (!own_buckets && app.count("--bucket-by") == 0) {
      o.bucket_by = "layer";
    }
    if (!o.split_tensors && o.comm_hook == "none") {  // hooks take whole buckets
      o.split_tensors = true;
      o.piece_mb = 1.0;
    }
  }
  if (!o.in_flight()) {
    return;
  }
  const std::string flag = o.cross_step ? "--cross-step" : "--optimizer-overlap";
  if (o.accum > 1 && !o.deferred_sync()) {
    throw UsageError(concat(flag, " with --accum ", o.accum, ": in mode ", o.mode,
                            " every micro-batch synchronises, and would be a step of the "
                            "optimizer; use --mode no_sync, or leave out --accum"));
  }
  if (o.mode == "naive") {
    throw UsageError(flag + ": expected a mode with buckets, got naive; use --mode overlap");
  }
  if (o.clip_norm > 0.0) {
    throw UsageError(flag +
                     ": expected no --clip-norm: the norm of all gradients is known only when "
                     "the last has arrived, and by then the first are used up");
  }
  if (o.find_unused) {
    throw UsageError(flag +
                     ": expected no --find-unused: which parameters are unused is known only when "
                     "backward is over");
  }
  if (o.never_syncs()) {
    throw UsageError(flag + ": expected --sync auto, got never: nothing ever arrives");
  }
}

}  // namespace

void resolve_options(const CLI::App& app, Options& o) {
  if (o.mode == "no_sync" && o.accum == 1) {
    throw UsageError(
        "no_sync: expected --accum K with K > 1, got 1: with one micro-batch per step there "
        "is no synchronisation to leave out; add for instance --accum 4");
  }
  resolve_sync(o);
  if (o.nesterov && o.optimizer == "sgd" && o.momentum == 0.0) {
    throw UsageError(
        "--nesterov: expected --momentum greater than 0, got 0; add for instance --momentum 0.9");
  }
  if ((o.nesterov || o.momentum > 0.0) && o.optimizer != "sgd") {
    throw UsageError(concat(o.nesterov ? "--nesterov" : "--momentum",
                            ": expected --optimizer sgd, got ", o.optimizer));
  }
  if (o.data == "synthetic" && o.data_dir != Options().data_dir) {
    throw UsageError(
        "--data-dir: expected --data fashion-mnist, got synthetic, which has no files");
  }
  if (o.inject && o.inject->kind == FaultKind::other_seed && !o.init.empty()) {
    throw UsageError("--inject other_seed: expected weights made from --seed, got --init " +
                     o.init);
  }
  resolve_in_flight(app, o);
  if (o.reduce == "deterministic" && o.comm == "hierarchical") {
    throw UsageError(
        "--reduce deterministic: expected a --comm that can add in rank order, got hierarchical: "
        "it adds within the hosts first");
  }
  if (o.tf32 && o.dtype == "bf16") {
    throw UsageError(
        "--tf32 and --dtype bf16: expected one of them: both say to what layers round before they "
        "multiply");
  }
  check_bucket_flags(o);
  check_hook_flag(o);
  if (o.lr == 0.0) {
    o.lr = o.optimizer == "sgd" ? 0.1 : 0.001;
  }
}

}  // namespace brigade::apps
