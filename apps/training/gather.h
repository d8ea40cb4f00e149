#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "dist/comm/communicator.h"

namespace brigade::apps {

/// The vectors (or strings) of all ranks, in rank order, of any lengths. Collective.
template <class Vector>
std::vector<Vector> gather_vectors(dist::Communicator& comm, Vector mine) {
  using Value = typename Vector::value_type;
  const std::vector<std::size_t> lengths = dist::all_gather_values(comm, mine.size());
  const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
  mine.resize(longest);  // MPI's all-gather wants as much from everybody
  const std::vector<std::byte> bytes = comm.all_gather(std::as_bytes(std::span(mine)));
  std::vector<Vector> all;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    Vector& one = all.emplace_back(lengths[rank], Value{});
    if (!one.empty()) {
      const std::byte* begin = bytes.data() + rank * longest * sizeof(Value);
      std::memcpy(one.data(), begin, one.size() * sizeof(Value));
    }
  }
  return all;
}

}  // namespace brigade::apps
