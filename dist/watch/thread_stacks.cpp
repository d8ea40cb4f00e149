#include "dist/watch/thread_stacks.h"

#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>

namespace brigade::dist {

ThreadStacks::ThreadStacks(pid_t process) : output_(memfd_create("stacks", MFD_CLOEXEC)) {
  const std::string pid = std::to_string(process);
  const std::array<const char*, 10> arguments{"gdb",
                                              "-nx",
                                              "-batch",
                                              "-iex",
                                              "set debuginfod enabled off",
                                              "-p",
                                              pid.c_str(),
                                              "-ex",
                                              "thread apply all backtrace 30",
                                              nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0);
  posix_spawn_file_actions_adddup2(&actions, output_.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output_.get(), STDERR_FILENO);
  // posix_spawn takes the arguments as char*, and does not change them.
  if (posix_spawnp(&gdb_, "gdb", &actions, nullptr, const_cast<char**>(arguments.data()),
                   environ) != 0) {
    gdb_ = 0;
  }
  posix_spawn_file_actions_destroy(&actions);
}

ThreadStacks::~ThreadStacks() {
  if (gdb_ > 0) {
    kill(gdb_, SIGKILL);
    waitpid(gdb_, nullptr, 0);
  }
}

std::vector<std::string> ThreadStacks::lines() const {
  if (gdb_ == 0) {
    return {"gdb is not installed"};
  }
  std::string text(std::size_t{1} << 20U, '\0');
  text.resize(static_cast<std::size_t>(
      std::max<ssize_t>(0, pread(output_.get(), text.data(), text.size(), 0))));
  std::istringstream stream(text);
  std::vector<std::string> result;
  std::string last = "gdb has not said anything yet";
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with('#') || line.starts_with("Thread ")) {
      result.push_back(line);
    }
    last = line.empty() ? last : line;
  }
  return result.empty() ? std::vector{last} : result;
}

}  // namespace brigade::dist
