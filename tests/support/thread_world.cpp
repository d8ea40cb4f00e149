#include "tests/support/thread_world.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace brigade::test {

void thread_world(int ranks, const std::function<void(dist::Communicator&)>& fn) {
  const auto group = std::make_shared<dist::ThreadGroup>(ranks);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        dist::ThreadCommunicator comm(group, rank);
        fn(comm);
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

}  // namespace brigade::test
