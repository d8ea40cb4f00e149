#include "dist/sockets/socket_control.h"

#include <algorithm>
#include <array>

#include "core/runtime/trace.h"

namespace brigade::dist {
namespace {

/// A view of bytes that stay where they are until the exchange is over.
Tensor view_of(std::span<const std::byte> bytes) {
  return Tensor::over(nullptr, const_cast<std::byte*>(bytes.data()), {std::ssize(bytes)},
                      DType::u8);  // a message that is sent is only read
}

}  // namespace

void SocketControl::barrier() {
  const ScopeName scope(kBarrier);
  gather(std::array{std::byte{}});
}

std::vector<std::byte> SocketControl::all_gather_bytes(std::span<const std::byte> mine) {
  const ScopeName scope(kAllGather);
  return gather(mine);
}

std::vector<std::byte> SocketControl::gather(std::span<const std::byte> mine) {
  std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(size()));
  const auto part_of = [&](int rank) {
    return std::span(all).subspan(static_cast<std::size_t>(rank) * mine.size(), mine.size());
  };
  std::ranges::copy(mine, part_of(rank()).begin());
  std::vector<Message> outgoing;
  std::vector<Message> incoming;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) {
      outgoing.push_back({.peer = peer, .tensor = view_of(mine)});
      incoming.push_back({.peer = peer, .tensor = view_of(part_of(peer))});
    }
  }
  exchange(outgoing, incoming);
  return all;
}

void SocketControl::broadcast(std::span<std::byte> bytes, int root) {
  const ScopeName scope(kBroadcast);
  std::vector<Message> messages;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank() && (peer == root || rank() == root)) {
      messages.push_back({.peer = peer, .tensor = view_of(bytes)});
    }
  }
  rank() == root ? exchange(messages, {}) : exchange({}, messages);
}

}  // namespace brigade::dist
