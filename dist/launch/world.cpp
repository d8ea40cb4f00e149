#include "dist/launch/world.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/cpu/threads.h"
#include "core/error.h"

namespace brigade::dist {
namespace {

World open_world(const MpiSession& session) {
  const RankInfo& ranks = session.info();
  set_cpu_threads(std::min(ranks.threads, max_cpu_threads()));
  const auto control = make_communicator("mpi", kCpu);
  std::string note;
  const Device device = choose_device("auto", ranks, *control, note);
  if (!note.empty() && ranks.rank == 0) {
    report_line(fmt::format("[rank 0] warning: {}", note));
  }
  constexpr double kTimeout = 600.0;  // seconds, as in PyTorch
  const std::shared_ptr<Communicator> communicator = make_communicator("auto", device);
  return {ranks, device, communicator,
          std::make_shared<Watch>(*communicator, WatchOptions{.end_after = kTimeout})};
}

}  // namespace

World::World(const RankInfo& ranks, Device device, std::shared_ptr<Communicator> communicator,
             std::shared_ptr<Watch> watch)
    : ranks_(ranks),
      device_(device),
      communicator_(std::move(communicator)),
      watch_(std::move(watch)) {}

int World::get(std::string_view name) const {
  const std::map<std::string_view, int> numbers{{"rank", rank()}, {"grank", rank()},
                                                {"ws", size()},   {"lrank", local_rank()},
                                                {"node", node()}, {"pg", 0}};
  const auto number = numbers.find(name);
  BRIGADE_CHECK(number != numbers.end(),
                "World: expected rank, grank, ws, lrank, node or pg, got '{}'", name);
  return number->second;
}

int run_in_world(const std::function<int(World&)>& body) {
  return run_main([&body](const MpiSession& session) {
    World world = open_world(session);
    return body(world);
  });
}

}  // namespace brigade::dist
