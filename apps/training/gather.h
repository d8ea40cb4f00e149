#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "dist/comm/communicator.h"

namespace brigade::apps {

/// The vectors of all ranks, in rank order, of any lengths. Collective.
template <class T>
std::vector<std::vector<T>> gather_vectors(dist::Communicator& comm, std::vector<T> mine) {
  const std::vector<std::size_t> lengths = dist::all_gather_values(comm, mine.size());
  const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
  mine.resize(longest);  // MPI's all-gather wants as much from everybody
  const std::vector<std::byte> bytes = comm.all_gather(std::as_bytes(std::span(mine)));
  std::vector<std::vector<T>> all;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    std::vector<T>& one = all.emplace_back(lengths[rank]);
    if (!one.empty()) {
      std::memcpy(one.data(), bytes.data() + rank * longest * sizeof(T), one.size() * sizeof(T));
    }
  }
  return all;
}

/// The texts of all ranks, in rank order, of any lengths. Collective.
inline std::vector<std::string> gather_texts(dist::Communicator& comm, std::string mine) {
  const std::vector<std::size_t> lengths = dist::all_gather_values(comm, mine.size());
  const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
  mine.resize(longest);
  const std::vector<std::byte> bytes = comm.all_gather(std::as_bytes(std::span(mine)));
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()) + rank * longest, lengths[rank]);
  }
  return texts;
}

}  // namespace brigade::apps
