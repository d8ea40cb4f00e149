#include "dist/ddp/grad_sync.h"

#include "core/error.h"
#include "dist/ddp/flat_sync.h"
#include "dist/ddp/naive_sync.h"
#include "dist/ddp/reducer.h"

namespace brigade::dist {

SyncMode parse_sync_mode(std::string_view name) {
  for (const SyncMode mode :
       {SyncMode::naive, SyncMode::flat, SyncMode::per_param, SyncMode::overlap}) {
    if (to_string(mode) == name) {
      return mode;
    }
  }
  throw UsageError(
      message_of("mode: expected naive, flat, per_param or overlap, got '", name, "'"));
}

std::string_view to_string(SyncMode mode) {
  switch (mode) {
    case SyncMode::naive:
      return "naive";
    case SyncMode::flat:
      return "flat";
    case SyncMode::per_param:
      return "per_param";
    case SyncMode::overlap:
      break;
  }
  return "overlap";
}

namespace {

/// A hook that compresses sees whole buckets or it sees nothing.
void check_hook(SyncMode mode, const SyncContext& context) {
  const std::string hook = context.hook.name();
  if (hook == PlainAllReduce().name()) {
    return;
  }
  if (mode == SyncMode::naive) {
    throw UsageError(
        message_of("naive: expected communication hook none, got ", hook,
                   ": hooks compress buckets, and naive has none; use flat, per_param or "
                   "overlap"));
  }
  for (const Bucket& bucket : context.buckets) {
    if (bucket.pieces.size() > 1) {
      throw UsageError(message_of("communication hook ", hook, ": compresses whole buckets, but ",
                                  bucket.label, " is split into ", bucket.pieces.size(),
                                  " pieces; leave out --split-tensors"));
    }
  }
}

}  // namespace

std::unique_ptr<GradSync> make_grad_sync(SyncMode mode, SyncContext context) {
  check_hook(mode, context);
  switch (mode) {
    case SyncMode::naive:
      return std::make_unique<NaiveSync>(context);
    case SyncMode::flat:
      return std::make_unique<FlatSync>(context);
    case SyncMode::per_param:
    case SyncMode::overlap:
      break;
  }
  return std::make_unique<Reducer>(context);
}

std::string missing_text(const std::vector<autograd::Variable>& parameters,
                         const std::vector<bool>& arrived, int rank) {
  constexpr std::size_t kShown = 5;
  std::string names;
  std::size_t missing = 0;
  for (std::size_t i = 0; i < arrived.size(); ++i) {
    if (!arrived[i] && ++missing <= kShown) {
      names += message_of(missing > 1 ? ", '" : "'", parameters[i].name(), "'");
    }
  }
  names += missing > kShown ? ", ..." : "";
  return missing == 0
             ? ""
             : message_of(
                   "data parallel: ", missing, " of ", arrived.size(),
                   " parameters got no gradient in this backward on rank ", rank, ": ", names,
                   "; the loss must depend on every parameter, on every rank (or do not wrap "
                   "those parameters, or let unused ones be found: --find-unused)");
}

void check_all_arrived(const SyncContext& context, const std::vector<bool>& arrived) {
  const std::string text = missing_text(context.parameters, arrived, context.comm.rank());
  if (!text.empty()) {
    throw Error(text);
  }
}

}  // namespace brigade::dist
