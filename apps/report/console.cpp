#include "apps/report/console.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/error.h"
#include "dist/launch/stop_signals.h"

namespace brigade::apps {

namespace {

bool set_in_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool wants_color(const std::string& request, int descriptor) {
  if (request != "auto") {
    return request == "always";
  }
  const char* term = std::getenv("TERM");
  return !set_in_environment("NO_COLOR") && !set_in_environment("OMPI_COMM_WORLD_RANK") &&
         term != nullptr && std::string_view(term) != "dumb" && isatty(descriptor) == 1;
}

}  // namespace

int write_all(int descriptor, const std::string& text) {
  constexpr int kPauseMs = 100;
  std::string_view rest = text;
  while (!rest.empty()) {
    // mpirun no longer reads when it ends a job; a rank that waited for that would not get to
    // write its last checkpoint. So much fits into a pipe that poll() calls writable.
    pollfd room{.fd = descriptor, .events = POLLOUT, .revents = 0};
    while (::poll(&room, 1, kPauseMs) <= 0) {
      if (dist::StopSignals::asked_to_end()) {
        return 0;
      }
    }
    const ssize_t written =
        ::write(descriptor, rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR && errno != EAGAIN) {
      return errno == EPIPE ? 0 : errno;
    }
  }
  return 0;
}

Console::Console(bool speaks, Target target, const std::string& color)
    : speaks_(speaks),
      descriptor_(target == Target::out ? STDOUT_FILENO : STDERR_FILENO),
      color_(wants_color(color, descriptor_)) {}

void Console::line(const std::string& text) const {
  if (speaks_) {
    write_all(descriptor_, text + "\n");
  }
}

void Console::lines(const std::vector<std::string>& texts, const std::string& before) const {
  for (const std::string& text : texts) {
    line(before + text);
  }
}

void Console::note(const std::string& text) const {
  if (speaks_) {
    write_all(STDERR_FILENO, "[rank 0] " + text + "\n");
  }
}

void Console::result(const std::string& text) const {
  if (const int error = speaks_ ? write_all(STDOUT_FILENO, text) : 0; error != 0) {
    throw Error(fmt::format("stdout: cannot write the result: {}", std::strerror(error)));
  }
}

std::string Console::painted(const char* code, const std::string& text) const {
  return color_ ? std::string("\033[") + code + "m" + text + "\033[0m" : text;
}

}  // namespace brigade::apps
