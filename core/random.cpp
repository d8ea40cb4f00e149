#include "core/random.h"

#include <Random123/philox.h>

#include <numeric>
#include <utility>

#include "core/error.h"

namespace brigade {
namespace {

constexpr std::uint32_t low_word(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
constexpr std::uint32_t high_word(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32U);
}

/// Per thread and not per process, because ranks can be threads: each must count its own
/// parameters, or the ranks' weights would depend on how their threads interleave.
thread_local RandomStream next_parameter{.seed = 0, .sequence = sequences::kParameters};
thread_local RandomStream next_dropout{.seed = 0, .sequence = sequences::kDropout};

RandomStream take(RandomStream& next) {
  return {.seed = next.seed, .sequence = next.sequence++};
}

}  // namespace

std::array<std::uint32_t, 4> random_block(RandomStream stream, std::uint64_t block) {
  using Philox = r123::Philox4x32_R<10>;
  const Philox::ctr_type counter = {{low_word(block), high_word(block), stream.sequence, 0}};
  const Philox::key_type key = {{low_word(stream.seed), high_word(stream.seed)}};
  const Philox::ctr_type words = Philox()(counter, key);
  return {words[0], words[1], words[2], words[3]};
}

std::uint32_t random_bits(RandomStream stream, std::uint64_t position) {
  return random_block(stream, position / 4)[position % 4];
}

std::vector<std::int64_t> random_permutation(std::int64_t n, RandomStream stream) {
  // One 32-bit word per draw, scaled by a multiplication: the bias is below n / 2^32, too small to
  // see in a shuffle.
  constexpr std::int64_t kLargest = std::int64_t{1} << 32U;
  BRIGADE_CHECK(n >= 0 && n <= kLargest, "random_permutation: expected 0 to 2^32 elements, got {}",
                n);
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t left = order.size(); left > 1; --left) {
    // Drawn at position `left`, so that the draws of one permutation never share a word.
    const std::uint64_t chosen = (std::uint64_t{random_bits(stream, left)} * left) >> 32U;
    std::swap(order[left - 1], order[chosen]);
  }
  return order;
}

void manual_seed(std::uint64_t seed) {
  next_parameter = {.seed = seed, .sequence = sequences::kParameters};
  next_dropout = {.seed = seed, .sequence = sequences::kDropout};
}

RandomStream next_parameter_stream() {
  return take(next_parameter);
}

RandomStream next_dropout_stream() {
  return take(next_dropout);
}

RandomStream dropout_position() {
  return next_dropout;
}

void set_dropout_position(RandomStream next) {
  next_dropout = next;
}

}  // namespace brigade
