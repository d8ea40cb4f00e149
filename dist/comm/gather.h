#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "dist/comm/communicator.h"

/// The host-side calls of a Communicator, for values in place of bytes.
namespace brigade::dist {

/// Rank 0's; every rank has as many.
template <class T>
std::vector<T> broadcast_from_rank0(Communicator& comm, std::vector<T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  comm.broadcast(std::as_writable_bytes(std::span(values)), 0);
  return values;
}

/// all_gather_bytes of one trivially copyable value per rank.
template <class T>
std::vector<T> all_gather_values(Communicator& comm, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::vector<std::byte> bytes = comm.all_gather_bytes(std::as_bytes(std::span(&mine, 1)));
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// all_gather_bytes of one sequence per rank, of any length: a std::string, or a std::vector of
/// trivially copyable values.
template <class Sequence>
std::vector<Sequence> all_gather_sequences(Communicator& comm, Sequence mine) {
  const std::vector<std::size_t> lengths = all_gather_values(comm, mine.size());
  mine.resize(*std::max_element(lengths.begin(), lengths.end()));
  const std::vector<std::byte> bytes = comm.all_gather_bytes(std::as_bytes(std::span(mine)));
  std::vector<Sequence> all(lengths.size(), mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::size_t size = bytes.size() / all.size();
    std::ranges::copy(std::span(bytes).subspan(rank * size, size),
                      std::as_writable_bytes(std::span(all[rank])).begin());
    all[rank].resize(lengths[rank]);
  }
  return all;
}

}  // namespace brigade::dist
