#include "dist/sockets/socket_communicator.h"

#include <exception>

#include "dist/sockets/socket_connect.h"

namespace brigade::dist {

SocketCommunicator::SocketCommunicator(std::unique_ptr<Communicator> control)
    : Communicator(control->rank(), control->size()),
      control_(std::move(control)),
      mesh_(rank(), connect_all(*control_)),
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
  control_->abandon();
  Communicator::abandon();
}

}  // namespace brigade::dist
