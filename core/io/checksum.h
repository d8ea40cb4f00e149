#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace brigade {

/// Number of bytes in a file and their XXH3 hash: finds bytes that a disk lost or changed.
struct Checksum {
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;

  bool operator==(const Checksum&) const = default;
};

/// The Checksum of bytes that come one piece after another.
class ChecksumOfPieces {
 public:
  ChecksumOfPieces() { XXH3_64bits_reset(state_.get()); }

  void add(std::span<const std::byte> piece) {
    XXH3_64bits_update(state_.get(), piece.data(), piece.size());
    bytes_ += piece.size();
  }
  Checksum result() const { return {.bytes = bytes_, .xxh3 = XXH3_64bits_digest(state_.get())}; }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_{XXH3_createState(),
                                                                  XXH3_freeState};
  std::uint64_t bytes_ = 0;
};

}  // namespace brigade
