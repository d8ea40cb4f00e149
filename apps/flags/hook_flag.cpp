#include "apps/flags/hook_flag.h"

#include <string_view>

#include "apps/flags/flag_values.h"
#include "core/error.h"
#include "dist/hooks/half_hook.h"
#include "dist/hooks/power_sgd.h"
#include "dist/hooks/top_k.h"

namespace brigade::apps {

namespace {

constexpr std::string_view kPowerSgd = "powersgd:rank=";
constexpr std::string_view kTopK = "topk:ratio=";

}  // namespace

std::shared_ptr<dist::CommHook> make_comm_hook(const std::string& text) {
  constexpr std::int64_t kLargestRank = 1'000;
  if (text == "none") {
    return std::make_shared<dist::PlainAllReduce>();
  }
  if (text == "fp16" || text == "bf16") {
    return std::make_shared<dist::HalfHook>(text == "fp16" ? DType::f16 : DType::bf16);
  }
  if (text.starts_with(kPowerSgd)) {
    return std::make_shared<dist::PowerSgd>(parse_number<std::int64_t>(
        "--comm-hook powersgd:rank", text.substr(kPowerSgd.size()), 1, kLargestRank));
  }
  if (text.starts_with(kTopK)) {
    return std::make_shared<dist::TopK>(
        parse_number("--comm-hook topk:ratio", text.substr(kTopK.size()), kAboveZero, 1.0));
  }
  const std::string word = text.substr(0, text.find(':'));
  const std::string match = closest_match(word, {"none", "fp16", "bf16", "powersgd", "topk"});
  const std::string meant = match == "powersgd" ? "powersgd:rank=4"
                            : match == "topk"   ? "topk:ratio=0.01"
                                                : match;
  throw UsageError(fmt::format(
      "--comm-hook: expected none, fp16, bf16, powersgd:rank=R or topk:ratio=X, got \"{}\"{}", text,
      meant.empty() ? "" : fmt::format("; did you mean {}?", meant)));
}

std::optional<DType> wire_type(const std::string& text) {
  if (text == "none" || text == "fp16" || text == "bf16") {
    return text == "none" ? DType::f32 : text == "fp16" ? DType::f16 : DType::bf16;
  }
  return std::nullopt;
}

std::string comm_hook_text(const std::string& text) {
  if (text == "fp16" || text == "bf16") {
    return text + ": 16 bits per number on the wire, added up in float";
  }
  return text.starts_with(kPowerSgd)
             ? text + ": matrices travel as a product of two thin ones; error feedback"
             : text + ": only the largest numbers of each bucket travel; error feedback";
}

double compression_ratio(int ranks, double handed, double sent) {
  return sent > 0.0 ? 2.0 * (ranks - 1) / ranks * handed / sent : 0.0;
}

}  // namespace brigade::apps
