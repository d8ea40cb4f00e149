#include "dist/fallback.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/error.h"

namespace brigade::dist {

std::unique_ptr<Communicator> if_all_can(Communicator& control,
                                         const std::function<std::unique_ptr<Communicator>()>& make,
                                         std::string& why) {
  std::unique_ptr<Communicator> made;
  std::array<char, 512> complaint{};  // empty: none
  try {
    made = make();
  } catch (const Error& error) {
    const std::string text = error.what();
    std::copy_n(text.begin(), std::min(text.size(), complaint.size() - 1), complaint.begin());
  }
  const auto complaints = all_gather_values(control, complaint);
  const auto first =
      std::ranges::find_if(complaints, [](const auto& one) { return one.front() != '\0'; });
  if (first == complaints.end()) {
    return made;
  }
  if (made) {
    made->abandon();
  }
  why = concat("rank ", first - complaints.begin(), ": ", first->data());
  return nullptr;
}

}  // namespace brigade::dist
