#include "apps/console.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

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

void write_all(int descriptor, const std::string& text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) {
      return;  // nobody reads any more (`| head`); training goes on and the files get written
    }
    rest.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
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

void Console::warn(const std::string& text) const {
  if (speaks_) {
    write_all(STDERR_FILENO, text + "\n");
  }
}

void Console::result(const std::string& text) const {
  if (speaks_) {
    write_all(STDOUT_FILENO, text);
  }
}

std::string Console::painted(const char* code, const std::string& text) const {
  return color_ ? std::string("\033[") + code + "m" + text + "\033[0m" : text;
}

}  // namespace brigade::apps
