#include "apps/report/graph.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "autograd/graph_dot.h"
#include "core/error.h"

namespace brigade::apps {

std::string graph_of(const autograd::Variable& loss, const dist::GradAverager& data_parallel) {
  constexpr std::size_t kColors = 12;  // of Graphviz' scheme set312
  std::map<const autograd::GradState*, std::string> attributes;
  std::size_t place = 0;
  std::size_t number = 0;
  for (const dist::Bucket& bucket : data_parallel.buckets()) {
    for (const std::size_t member : bucket.members) {
      const autograd::Variable& parameter = data_parallel.parameters()[member];
      attributes[parameter.grad_state().get()] =
          fmt::format(R"(label="{}\n{}\nready {}, bucket {}", colorscheme=set312, fillcolor={})",
                      parameter.name(), parameter.shape(), ++place, number, number % kColors + 1);
    }
    ++number;
  }
  return autograd::graph_dot(loss, [&](const autograd::GradState& leaf) {
    const auto found = attributes.find(&leaf);
    return found == attributes.end() ? "label=\"" + leaf.name() + "\"" : found->second;
  });
}

std::optional<std::filesystem::path> draw_graph(const std::filesystem::path& file) {
  std::filesystem::path picture = file;
  picture.replace_extension(".svg");
  const std::string to = "-o" + picture.string();
  const std::string from = std::filesystem::absolute(file).string();  // begins with no dash
  const char* arguments[] = {"dot", "-Tsvg", to.c_str(), from.c_str(), nullptr};
  posix_spawn_file_actions_t silence;
  posix_spawn_file_actions_init(&silence);
  posix_spawn_file_actions_addopen(&silence, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t dot = 0;
  const bool started = posix_spawnp(&dot, arguments[0], &silence, nullptr,
                                    const_cast<char**>(arguments), environ) == 0;
  posix_spawn_file_actions_destroy(&silence);
  int status = 1;
  return started && waitpid(dot, &status, 0) == dot && status == 0 ? std::optional(picture)
                                                                   : std::nullopt;
}

}  // namespace brigade::apps
