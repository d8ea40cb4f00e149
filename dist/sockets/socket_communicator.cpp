#include "dist/sockets/socket_communicator.h"

#include <exception>

#include "core/error.h"
#include "dist/sockets/socket_connect.h"

namespace brigade::dist {

SocketCommunicator::SocketCommunicator(std::unique_ptr<Communicator> control)
    : Communicator(control->rank(), control->size()),
      control_(std::move(control)),
      mesh_(rank(), connect_all(*control_)),
      exceptions_at_start_(std::uncaught_exceptions()),
      stream_(make_comm_stream(kCpu)) {}

SocketCommunicator::~SocketCommunicator() {
  // The worker finishes its queue before it ends. When this rank is failing, its peers may never
  // join the collective at the head of that queue.
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    SocketCommunicator::abandon();
  }
  stream_.reset();
}

void SocketCommunicator::abandon() noexcept {
  mesh_.abandon();
  Communicator::abandon();
}

std::string SocketCommunicator::transport() const {
  return message_of("TCP sockets (", mesh_.addresses(), ")");
}

void SocketCommunicator::do_exchange(std::span<const Message> outgoing,
                                     std::span<const Message> incoming) {
  mesh_.exchange(outgoing, incoming, [](std::size_t) {});
}

void SocketCommunicator::do_reporting_exchange(std::span<const Message> outgoing,
                                               std::span<const Message> incoming,
                                               const OnArrival& on_arrival) {
  mesh_.exchange(outgoing, incoming, on_arrival);
}

}  // namespace brigade::dist
