// A CPU with AMX, for oneDNN (README.md). Before oneDNN looks at the CPU, its CPUID instructions
// are replaced by ones that raise SIGILL, and so does later every AMX instruction of the code that
// it generates. The handler of that signal does what the instruction would have done.
#include <cpuid.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "tests/amx_emulator/instructions_private.h"

namespace {

/// CPUID, with AMX among the features: 8 tiles of 16 rows of 64 bytes.
void execute_cpuid(greg_t* registers) {
  const auto leaf = static_cast<unsigned>(registers[REG_RAX]);
  const auto part = static_cast<unsigned>(registers[REG_RCX]);
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  __cpuid_count(leaf, part, a, b, c, d);
  if (leaf == 0) {
    a = std::max(a, 0x1eU);
  } else if (leaf == 7 && part == 0) {
    d |= 1U << 22U | 1U << 24U | 1U << 25U;  // AMX-BF16, AMX-TILE, AMX-INT8
  } else if (leaf == 0x1d) {                 // the one palette
    a = part == 0 ? 1 : 1024U << 16U | 8 * 1024U;
    b = 8U << 16U | 64U;
    c = 16;
    d = 0;
  }
  registers[REG_RAX] = a;
  registers[REG_RBX] = b;
  registers[REG_RCX] = c;
  registers[REG_RDX] = d;
}

/// Overwrites an instruction of 5 to 10 bytes by one that does nothing: what takes the rest of the
/// time can then be measured. For one thread: another could execute half of it.
void leave_out(std::uint8_t* code, std::ptrdiff_t length) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(code) / page * page;
  mprotect(reinterpret_cast<void*>(begin), 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC);
  const std::ptrdiff_t nop = length >= 8 ? 8 : length == 7 ? 7 : 5;  // the rest are prefixes
  std::fill_n(code, length, std::uint8_t{0});
  std::fill_n(code, length - nop, std::uint8_t{0x66});
  code += length - nop;
  code[0] = 0x0f;
  code[1] = 0x1f;
  code[2] = nop == 8 ? 0x84 : nop == 7 ? 0x80 : 0x44;
}

constexpr std::array<std::uint8_t, 2> kCpuid{0x0f, 0xa2};
constexpr std::array<std::uint8_t, 2> kUndefined{0x0f, 0x0b};  // UD2, which oneDNN never executes

/// Where oneDNN's library executes CPUID, from its beginning on; the build makes this list
/// (CMakeLists.txt). The 0 is none of them.
constexpr std::array kCpuidPlaces{
#include <cpuid_places.inc>
    std::uintptr_t{0}};

std::uintptr_t onednn = 0;  // where that library begins in memory

void on_illegal_instruction(int signal, siginfo_t* /*info*/, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  auto* code = reinterpret_cast<std::uint8_t*>(registers[REG_RIP]);
  const std::uintptr_t place = reinterpret_cast<std::uintptr_t>(code) - onednn;
  if (std::ranges::find(kCpuidPlaces, place) != kCpuidPlaces.end()) {
    execute_cpuid(registers);
    registers[REG_RIP] += kUndefined.size();
    return;
  }
  static const bool leaves_out = std::getenv("AMX_EMULATOR_LEAVES_OUT") != nullptr;
  if (code[0] == 0xc4 && (code[1] & 0x1fU) == 2) {
    const amx::Instruction instruction = amx::decoded(code, registers);
    if (leaves_out && amx::is_amx(instruction)) {
      leave_out(code, instruction.length);
      return;  // to there
    }
    if (amx::execute(instruction)) {
      registers[REG_RIP] += instruction.length;
      return;
    }
  }
  std::signal(signal, SIG_DFL);  // the program's own fault: it happens again and ends the program
}

int find_onednn(dl_phdr_info* library, std::size_t /*size*/, void* /*nothing*/) {
  if (std::string_view(library->dlpi_name).find("libdnnl.so") != std::string_view::npos) {
    onednn = library->dlpi_addr;
  }
  return 0;
}

/// Ends the program before it begins, and makes ctest report the test as skipped.
[[noreturn]] void skip(std::string_view why) {
  _exit(write(STDOUT_FILENO, why.data(), why.size()) > 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

/// Replaces every CPUID by an instruction that ends in the signal handler.
void take_over_cpuid() {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const std::uintptr_t place : std::span(kCpuidPlaces).first(kCpuidPlaces.size() - 1)) {
    auto* code = reinterpret_cast<std::uint8_t*>(onednn + place);
    if (!std::equal(kCpuid.begin(), kCpuid.end(), code)) {
      amx::fail("amx_emulator: expected the libdnnl.so of this build, got another\n");
    }
    const std::uintptr_t begin = (onednn + place) / page * page;
    auto* pages = reinterpret_cast<void*>(begin);
    const std::size_t size = onednn + place + kCpuid.size() - begin;
    if (mprotect(pages, size, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
      skip("amx_emulator: SKIPPED: code in memory may not be changed here\n");
    }
    std::copy(kUndefined.begin(), kUndefined.end(), code);
    mprotect(pages, size, PROT_READ | PROT_EXEC);
  }
}

bool has_amx() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 24U & 1U) != 0;
}

long (*next_syscall)(long, ...) = nullptr;

/// Runs before libc's own constructors (CMakeLists.txt): neither stdio nor getenv works yet.
__attribute__((constructor)) void begin() {
  next_syscall = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
  dl_iterate_phdr(find_onednn, nullptr);
  if (onednn == 0) {
    return;  // another program of the test, sh or mpirun
  }
  __builtin_cpu_init();
  if (has_amx()) {
    skip("amx_emulator: SKIPPED: this CPU has AMX, so all other tests use it\n");
  }
  if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512vnni")) {
    skip("amx_emulator: SKIPPED: oneDNN's code for AMX needs AVX512_BF16 as well\n");
  }
  if (kCpuidPlaces.size() == 1) {
    skip("amx_emulator: SKIPPED: objdump found no CPUID in oneDNN's library\n");
  }
  struct sigaction action {};
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGILL, &action, nullptr);
  take_over_cpuid();
}

}  // namespace

extern "C" {

/// How many products of tiles have been computed. The tests look for this name.
std::uint64_t amx_emulator_products() {
  return amx::products_done();
}

/// Instead of libc's: oneDNN asks the kernel for permission to use AMX in this way.
long syscall(long number, ...) {
  std::array<long, 6> args{};
  va_list list;
  va_start(list, number);
  for (long& arg : args) {
    arg = va_arg(list, long);
  }
  va_end(list);
  constexpr long kGetPermission = 0x1022;
  constexpr long kRequestPermission = 0x1023;
  if (number == SYS_arch_prctl && args[0] == kGetPermission) {
    *reinterpret_cast<std::uint64_t*>(args[1]) = 0x600e7;  // all state of AVX-512 and AMX
    return 0;
  }
  if (number == SYS_arch_prctl && args[0] == kRequestPermission) {
    return 0;
  }
  return next_syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}
}
