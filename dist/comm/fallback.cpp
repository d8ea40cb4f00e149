#include "dist/comm/fallback.h"

#include <set>
#include <string>

#include "core/error.h"
#include "dist/comm/gather.h"

namespace brigade::dist {

std::string complaints_about(Communicator& control, const std::function<void()>& work) {
  constexpr std::size_t kMost = 3;
  std::string complaint;
  try {
    work();
  } catch (const Error& error) {
    complaint = error.what();
  }
  // Where one rank has failed, others may only have waited for it: theirs is another complaint, and
  // the cause may be any of them.
  std::set<std::string> different;
  std::string all;
  int rank = 0;
  for (const std::string& text : all_gather_sequences(control, complaint)) {
    if (!text.empty() && different.size() < kMost && different.insert(text).second) {
      all += fmt::format("{}rank {}: {}", all.empty() ? "" : "; ", rank, text);
    }
    ++rank;
  }
  return all;
}

std::unique_ptr<Communicator> if_all_can(Communicator& control,
                                         const std::function<std::unique_ptr<Communicator>()>& make,
                                         std::string& why) {
  std::unique_ptr<Communicator> made;
  why = complaints_about(control, [&] { made = make(); });
  if (!why.empty() && made) {
    made->abandon();
    made.reset();
  }
  return made;
}

}  // namespace brigade::dist
