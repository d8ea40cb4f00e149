// What AMX's instructions do (Intel 64 Software Developer's Manual, volume 1, chapter 18).
#include <sys/ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/amx_emulator/instructions_private.h"

namespace amx {
namespace {

constexpr unsigned kTiles = 8;
constexpr unsigned kRows = 16;
constexpr unsigned kRowBytes = 64;

/// The operand of LDTILECFG.
struct Configuration {
  std::uint8_t palette, start_row;
  std::array<std::uint8_t, 14> reserved;
  std::array<std::uint16_t, 16> row_bytes;
  std::array<std::uint8_t, 16> rows;
};
static_assert(sizeof(Configuration) == 64);

using Tile = std::array<std::array<std::uint8_t, kRowBytes>, kRows>;

/// The registers of one thread. In a library the usual model may allocate, which a signal handler
/// must not.
__attribute__((tls_model("initial-exec"))) thread_local Configuration configuration;
__attribute__((tls_model("initial-exec"))) thread_local std::array<Tile, kTiles> tiles;

std::atomic<std::uint64_t> products;

/// Numbers below 2⁻¹²⁶ are 0 for the unit.
float flushed(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return (bits & 0x7f800000U) == 0 ? std::bit_cast<float>(bits & 0x80000000U) : x;
}

float bf16_at(const std::uint8_t* place) {
  std::uint16_t upper = 0;
  std::memcpy(&upper, place, sizeof(upper));
  return flushed(std::bit_cast<float>(static_cast<std::uint32_t>(upper) << 16U));
}

/// TDPBF16PS: c [m, n] += a [m, 2k] b, where row i of b has the numbers of rows 2i and 2i + 1 in
/// pairs. Products of two bf16 numbers are exact, as far as f32 reaches.
void add_product(std::size_t c, std::size_t a, std::size_t b) {
  const auto& [palette, start_row, reserved, row_bytes, rows] = configuration;
  const std::size_t m = rows[c];
  const std::size_t n = row_bytes[c] / 4U;
  const std::size_t k = row_bytes[a] / 4U;
  if (m == 0 || rows[a] != m || rows[b] != k || row_bytes[b] != row_bytes[c]) {
    fail("amx_emulator: tdpbf16ps of tiles whose shapes do not fit\n");
  }
  for (std::size_t row = 0; row < m; ++row) {
    std::array<float, kRowBytes / 4> even{};
    std::array<float, kRowBytes / 4> odd{};
    for (std::size_t i = 0; i < k; ++i) {
      const float a0 = bf16_at(&tiles[a][row][4 * i]);
      const float a1 = bf16_at(&tiles[a][row][4 * i + 2]);
      for (std::size_t col = 0; col < n; ++col) {
        even[col] = flushed(even[col] + a0 * bf16_at(&tiles[b][i][4 * col]));
        odd[col] = flushed(odd[col] + a1 * bf16_at(&tiles[b][i][4 * col + 2]));
      }
    }
    for (std::size_t col = 0; col < n; ++col) {
      float sum = 0.0F;
      std::memcpy(&sum, &tiles[c][row][4 * col], sizeof(sum));
      sum = flushed(flushed(sum) + flushed(even[col] + odd[col]));
      std::memcpy(&tiles[c][row][4 * col], &sum, sizeof(sum));
    }
  }
  products.fetch_add(1, std::memory_order_relaxed);
}

void load(std::size_t tile, const std::uint8_t* memory, std::ptrdiff_t stride) {
  tiles[tile] = {};
  for (std::size_t row = 0; row < configuration.rows[tile]; ++row, memory += stride) {
    std::copy_n(memory, configuration.row_bytes[tile], tiles[tile][row].begin());
  }
}

void store(std::size_t tile, std::uint8_t* memory, std::ptrdiff_t stride) {
  for (std::size_t row = 0; row < configuration.rows[tile]; ++row, memory += stride) {
    std::copy_n(tiles[tile][row].begin(), configuration.row_bytes[tile], memory);
  }
}

greg_t general_register(const greg_t* registers, unsigned number) {
  static constexpr std::array kOrder{REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                     REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                     REG_R12, REG_R13, REG_R14, REG_R15};
  return registers[kOrder[number]];
}

}  // namespace

[[noreturn]] void fail(std::string_view why) {
  static_cast<void>(!write(STDERR_FILENO, why.data(), why.size()));
  std::abort();
}

std::uint64_t products_done() {
  return products;
}

Instruction decoded(const std::uint8_t* code, const greg_t* registers) {
  const unsigned r = (~code[1] >> 7U & 1U) << 3U;
  const unsigned x = (~code[1] >> 6U & 1U) << 3U;
  const unsigned b = (~code[1] >> 5U & 1U) << 3U;
  const unsigned mod = code[4] >> 6U;
  const unsigned rm = code[4] & 7U;
  Instruction result{.opcode = code[3],
                     .prefix = code[2] & 3U,
                     .reg = r | (code[4] >> 3U & 7U),
                     .rm = b | rm,
                     .third = ~code[2] >> 3U & 15U};
  if (mod == 3) {
    return result;
  }
  if (mod == 0 && rm == 5) {
    fail("amx_emulator: an operand relative to the instruction is not emulated\n");
  }
  unsigned base = rm;
  if (rm == 4) {  // a SIB byte follows
    const std::uint8_t sib = code[result.length++];
    base = sib & 7U;
    const unsigned index = x | (sib >> 3U & 7U);
    if (index != 4) {
      result.stride = general_register(registers, index) << (sib >> 6U);
    }
  }
  const bool no_base = mod == 0 && base == 5;
  auto address = no_base ? 0 : general_register(registers, b | base);
  if (mod == 1) {
    address += static_cast<std::int8_t>(code[result.length++]);
  } else if (mod == 2 || no_base) {
    std::int32_t displacement = 0;
    std::memcpy(&displacement, code + result.length, sizeof(displacement));
    address += displacement;
    result.length += 4;
  }
  result.memory = reinterpret_cast<std::uint8_t*>(address);
  return result;
}

bool is_amx(const Instruction& i) {
  return i.opcode == 0x49 || i.opcode == 0x4b || i.opcode == 0x5c;
}

bool execute(const Instruction& i) {
  if (i.opcode == 0x49 && i.prefix == 0) {  // LDTILECFG; without memory TILERELEASE
    configuration = {};
    tiles = {};
    if (i.memory != nullptr) {
      std::memcpy(&configuration, i.memory, sizeof(configuration));
    }
  } else if (i.opcode == 0x49 && i.prefix == 1) {
    std::memcpy(i.memory, &configuration, sizeof(configuration));  // STTILECFG
  } else if (i.opcode == 0x49 && i.prefix == 3) {
    tiles[i.reg] = {};  // TILEZERO
  } else if (i.opcode == 0x4b && (i.prefix == 3 || i.prefix == 1)) {
    load(i.reg, i.memory, i.stride);  // TILELOADD, TILELOADDT1
  } else if (i.opcode == 0x4b && i.prefix == 2) {
    store(i.reg, i.memory, i.stride);  // TILESTORED
  } else if (i.opcode == 0x5c && i.prefix == 2) {
    add_product(i.reg, i.rm, i.third);  // TDPBF16PS
  } else {
    return false;
  }
  return true;
}

}  // namespace amx
