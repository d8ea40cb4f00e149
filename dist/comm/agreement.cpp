#include "dist/comm/agreement.h"

#include "core/error.h"
#include "dist/comm/gather.h"

namespace brigade::dist {
namespace {

/// The line of `text` that contains position `at`, without its '\n'.
std::string line_at(const std::string& text, std::size_t at) {
  const std::size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

}  // namespace

void check_same_lines(std::string_view subject, const std::vector<std::string>& lines,
                      Communicator& comm) {
  std::string mine;
  for (const std::string& line : lines) {
    mine += line + '\n';
  }
  const std::vector<std::string> all = all_gather_sequences(comm, mine);
  if (const std::size_t rank = first_different(all); rank > 0) {
    const auto at = std::ranges::mismatch(all[rank], all[0]).in1 - all[rank].begin();
    const auto differs = static_cast<std::size_t>(at);
    throw VerificationError(
        fmt::format("{}: the ranks disagree: rank 0 has '{}', rank {} has '{}'; start every rank "
                    "with the same program and flags",
                    subject, line_at(all[0], differs), rank, line_at(all[rank], differs)));
  }
}

}  // namespace brigade::dist
