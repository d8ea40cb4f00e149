#include "tests/support/thread_world.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "dist/sockets/socket_communicator.h"

namespace brigade::test {
namespace {

using Wrap =
    std::function<std::unique_ptr<dist::Communicator>(std::unique_ptr<dist::Communicator>)>;

void world(int ranks, const Wrap& wrap, const std::function<void(dist::Communicator&)>& fn) {
  const auto group = std::make_shared<dist::ThreadGroup>(ranks);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto comm = wrap(std::make_unique<dist::ThreadCommunicator>(group, rank));
        fn(*comm);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) {
          first = std::current_exception();
        }
        group->break_up();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

}  // namespace

void thread_world(int ranks, const std::function<void(dist::Communicator&)>& fn) {
  world(
      ranks, [](auto comm) { return comm; }, fn);
}

void socket_world(int ranks, const std::function<void(dist::Communicator&)>& fn) {
  world(
      ranks, [](auto comm) { return std::make_unique<dist::SocketCommunicator>(std::move(comm)); },
      fn);
}

}  // namespace brigade::test
