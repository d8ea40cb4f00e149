#pragma once

#include <memory>
#include <optional>
#include <string>

#include "dist/ddp/comm_hook.h"

/// --comm-hook: how gradients are compressed on their way.
namespace brigade::apps {

/// A new hook (they keep state, so each DataParallel needs its own) for "none", "fp16", "bf16",
/// "powersgd:rank=R" or "topk:ratio=X"; UsageError for anything else.
std::shared_ptr<dist::CommHook> make_comm_hook(const std::string& text);

/// The type as which the hook's numbers travel; none where its result is not the ranks' sum.
std::optional<DType> wire_type(const std::string& text);

/// What a hook other than "none" does, for people.
std::string comm_hook_text(const std::string& text);

/// How many times less a rank sends than an uncompressed all-reduce would have to: of `handed`
/// bytes that is 2 (N-1)/N. 0 where nothing was sent.
double compression_ratio(int ranks, double handed, double sent);

}  // namespace brigade::apps
