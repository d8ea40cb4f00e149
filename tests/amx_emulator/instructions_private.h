#pragma once

#include <sys/ucontext.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace amx {

/// An instruction with a three-byte VEX prefix of map 0F38 (Intel 64 Software Developer's Manual,
/// volume 2, section 2.3).
struct Instruction {
  unsigned opcode, prefix;         // prefix: 0, 1 for 66, 2 for F3, 3 for F2
  unsigned reg, rm, third;         // register numbers; rm only without memory
  std::uint8_t* memory = nullptr;  // base + displacement
  std::ptrdiff_t stride = 0;       // index · scale
  std::ptrdiff_t length = 5;
};

/// The instruction at `code`, which has such a prefix. `registers`: for its operand's address.
Instruction decoded(const std::uint8_t* code, const greg_t* registers);

bool is_amx(const Instruction& instruction);

/// Executes it on this thread's tiles. Returns false for what is not one of AMX's instructions.
bool execute(const Instruction& instruction);

/// How many products of tiles have been computed.
std::uint64_t products_done();

/// Ends the program.
[[noreturn]] void fail(std::string_view why);

}  // namespace amx
