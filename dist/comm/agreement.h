#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "dist/comm/communicator.h"

namespace brigade::dist {

/// The first rank whose value differs from rank 0's; 0 if all agree.
template <class Value>
std::size_t first_different(const std::vector<Value>& of_ranks) {
  const auto found =
      std::ranges::find_if(of_ranks, [&](const Value& value) { return value != of_ranks.front(); });
  return found == of_ranks.end() ? 0 : static_cast<std::size_t>(found - of_ranks.begin());
}

/// Collective. Throws VerificationError unless all ranks pass the same lines; shows the first line
/// that differs, rank 0's and the other's. `subject` begins the message.
void check_same_lines(std::string_view subject, const std::vector<std::string>& lines,
                      Communicator& comm);

}  // namespace brigade::dist
