#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace brigade {

/// Names a stream of random words.
struct RandomStream {
  std::uint64_t seed = 0;
  std::uint32_t sequence = 0;
};

/// Counter-based random numbers: Philox 4x32-10 (Salmon et al., SC'11), from Random123.
///
/// A number is a pure function of (seed, sequence, position). There is no state to keep or to
/// broadcast: every rank, on CPU or GPU, computes the same number wherever it needs it, whatever
/// the number of ranks. A use that must not repeat another's numbers takes its own `sequence`.
///
/// Word `position` of the stream: block position / 4 of the counter {block low, block high,
/// sequence, 0} under the key {seed low, seed high}, element position % 4.
std::uint32_t random_bits(RandomStream stream, std::uint64_t position);
/// The four words of one block: those at positions 4 block to 4 block + 3.
std::array<std::uint32_t, 4> random_block(RandomStream stream, std::uint64_t block);

/// fn(i, word first + i of `stream`) for i < n.
template <class Fn>
void for_each_word(RandomStream stream, std::int64_t first, std::int64_t n, const Fn& fn) {
  for (std::int64_t block = first / 4; 4 * block < first + n; ++block) {
    const auto words = random_block(stream, static_cast<std::uint64_t>(block));
    const std::int64_t end = std::min(4 * block + 4, first + n);
    for (std::int64_t i = std::max(4 * block, first); i < end; ++i) {
      fn(i - first, words[static_cast<std::size_t>(i % 4)]);
    }
  }
}

/// The upper 24 bits as a number in [0, 1), exact in float.
constexpr float unit_float(std::uint32_t bits) {
  return static_cast<float>(bits >> 8U) * 0x1p-24F;
}

/// A permutation of 0 … n-1 (Fisher-Yates), the same for every rank.
std::vector<std::int64_t> random_permutation(std::int64_t n, RandomStream stream);

/// Who draws from which sequence. Parameters use kParameters + their index.
namespace sequences {
inline constexpr std::uint32_t kShuffle = 0x1000'0000;     ///< + epoch
inline constexpr std::uint32_t kSynthetic = 0x2000'0000;   ///< + part of the synthetic data set
inline constexpr std::uint32_t kParameters = 0x3000'0000;  ///< + index of the parameter
inline constexpr std::uint32_t kDropout = 0x4000'0000;     ///< + number of the call
inline constexpr std::uint32_t kGenerate = 0x5000'0000;    ///< word i draws token i
}  // namespace sequences

/// Seeds this thread's parameter and dropout streams, as torch.manual_seed does: the next parameter
/// and the next dropout get their streams number 0. Ranks that call it with one seed and construct
/// the same layers in the same order start with the same weights. A thread that never calls it has
/// seed 0.
void manual_seed(std::uint64_t seed);

/// The next parameter stream of this thread: sequences kParameters + 0, + 1, … since manual_seed.
/// No two parameters share one, so two layers of equal shape start different.
RandomStream next_parameter_stream();

/// The next dropout stream of this thread: sequences kDropout + 0, + 1, … since manual_seed. It is
/// counted apart from the parameters, so dropout does not change the weights of layers made later.
RandomStream next_dropout_stream();

/// The stream that the next dropout will get, and the way back to it, for checkpoints.
RandomStream dropout_position();
void set_dropout_position(RandomStream next);

}  // namespace brigade
