#include "apps/flags/hook_flag.h"

#include <algorithm>

#include "apps/flags/flag_table.h"
#include "apps/flags/options.h"
#include "core/error.h"
#include "dist/hooks/half_hook.h"
#include "dist/hooks/power_sgd.h"
#include "dist/hooks/top_k.h"

namespace brigade::apps {

namespace {

constexpr const char* kPowerSgd = "powersgd:rank=";
constexpr const char* kTopK = "topk:ratio=";

/// What follows `prefix` in `text`; nothing if `text` does not begin with it.
std::optional<std::string> behind(const std::string& prefix, const std::string& text) {
  return text.rfind(prefix, 0) == 0 ? std::optional(text.substr(prefix.size())) : std::nullopt;
}

bool runs_naive(const Options& o) {
  return o.mode == "naive" || std::count(o.modes.begin(), o.modes.end(), "naive") > 0;
}

}  // namespace

std::shared_ptr<dist::CommHook> make_comm_hook(const std::string& flag, const std::string& text) {
  constexpr std::int64_t kLargestRank = 1'000;
  if (text == "none") {
    return std::make_shared<dist::PlainAllReduce>();
  }
  if (text == "fp16" || text == "bf16") {
    return std::make_shared<dist::HalfHook>(text == "fp16" ? DType::f16 : DType::bf16);
  }
  if (const auto rank = behind(kPowerSgd, text)) {
    return std::make_shared<dist::PowerSgd>(
        parse_number<std::int64_t>(flag + " powersgd:rank", *rank, 1, kLargestRank));
  }
  if (const auto ratio = behind(kTopK, text)) {
    return std::make_shared<dist::TopK>(
        parse_number(flag + " topk:ratio", *ratio, kAboveZero, 1.0));
  }
  const std::string word = text.substr(0, text.find(':'));
  const std::string match = closest_match(word, {"none", "fp16", "bf16", "powersgd", "topk"});
  const std::string meant = match == "powersgd" ? concat(kPowerSgd, 4)
                            : match == "topk"   ? concat(kTopK, 0.01)
                                                : match;
  throw UsageError(concat(flag,
                          ": expected none, fp16, bf16, powersgd:rank=R or topk:ratio=X, got \"",
                          text, "\"", meant.empty() ? "" : concat("; did you mean ", meant, "?")));
}

std::string comm_hook_text(const std::string& text) {
  if (text == "none") {
    return "none: gradients travel as they are";
  }
  if (text == "fp16" || text == "bf16") {
    return text + ": 16 bits per number on the wire, added up in float";
  }
  return behind(kPowerSgd, text)
             ? text + ": matrices travel as a product of two thin ones; error feedback"
             : text + ": only the largest numbers of each bucket travel; error feedback";
}

void declare_hook_flag(FlagTable& flags, Options& o) {
  const auto checked = [](const std::string& flag, const std::string& text) {
    make_comm_hook(flag, text);
    return text;
  };
  flags.value("--comm-hook", "HOOK", o.comm_hook, checked,
              "none | fp16 | bf16 | powersgd:rank=R | topk:ratio=X");
}

void check_hook_flag(const Options& o) {
  if (o.comm_hook == "none") {
    return;
  }
  if (runs_naive(o)) {
    throw UsageError(concat("--comm-hook ", o.comm_hook,
                            ": expected another mode than naive, which has no buckets to compress; "
                            "use flat, per_param, overlap or no_sync"));
  }
  if (o.split_tensors) {
    throw UsageError(concat("--comm-hook ", o.comm_hook,
                            ": compresses whole buckets; leave out --split-tensors"));
  }
  const bool depends_on_buckets = o.comm_hook != "fp16" && o.comm_hook != "bf16";
  if (o.reduce == "deterministic" && depends_on_buckets) {
    throw UsageError(concat("--reduce deterministic: expected --comm-hook none, fp16 or bf16, got ",
                            o.comm_hook, ", whose result depends on the buckets"));
  }
  if (o.never_syncs()) {
    throw UsageError(concat("--comm-hook ", o.comm_hook,
                            ": with --sync never there is nothing to compress; leave one of them "
                            "out"));
  }
}

double compression_ratio(int ranks, double handed, double sent) {
  return sent > 0.0 ? 2.0 * (ranks - 1) / ranks * handed / sent : 0.0;
}

}  // namespace brigade::apps
