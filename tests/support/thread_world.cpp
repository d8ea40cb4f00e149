#include "tests/support/thread_world.h"

#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "dist/comm/gather.h"
#include "dist/sockets/socket_communicator.h"

namespace brigade::test {
namespace {

using Wrap =
    std::function<std::unique_ptr<dist::Communicator>(std::unique_ptr<dist::Communicator>)>;

void world(int ranks, const Wrap& wrap, const std::function<void(dist::Communicator&)>& fn) {
  const auto mailbox = std::make_shared<dist::Mailbox>();
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto comm = wrap(std::make_unique<dist::ThreadCommunicator>(mailbox, rank, ranks));
        fn(*comm);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) {
          first = std::current_exception();
        }
        mailbox->break_up();
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

std::uint64_t sum_over_ranks(dist::Communicator& comm, std::uint64_t mine) {
  const std::vector<std::uint64_t> all = dist::all_gather_values(comm, mine);
  return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
}

}  // namespace brigade::test
