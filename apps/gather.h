#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "dist/communicator.h"

namespace brigade::apps {

/// The vectors of all ranks, in rank order. They must have equal lengths. Collective.
template <class T>
std::vector<std::vector<T>> gather_vectors(dist::Communicator& comm, const std::vector<T>& mine) {
  const std::vector<std::byte> bytes = comm.all_gather(std::as_bytes(std::span(mine)));
  std::vector<std::vector<T>> all(static_cast<std::size_t>(comm.size()),
                                  std::vector<T>(mine.size()));
  const std::byte* from = bytes.data();
  for (std::vector<T>& one : all) {
    if (!one.empty()) {
      std::memcpy(one.data(), from, one.size() * sizeof(T));
      from += one.size() * sizeof(T);
    }
  }
  return all;
}

}  // namespace brigade::apps
