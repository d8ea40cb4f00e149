#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda_emulator/emulator_private.h"

namespace {

constexpr int kMaxRanks = 8;
constexpr std::size_t kSlot = std::size_t{32} << 20U;  // bytes per rank, and per turn of a sum
constexpr std::size_t kLetter = kSlot / kMaxRanks;     // the longest message

/// In memory that the ranks share; the slots of the ranks follow it.
struct Meeting {
  std::atomic<int> joined = 0;
  std::atomic<int> arrived = 0;
  std::atomic<unsigned> round = 0;
  std::array<std::array<std::atomic<bool>, kMaxRanks>, kMaxRanks> letter = {};  // [from][to]
};

void wait_until(const auto& condition) {
  while (!condition()) {
    std::this_thread::yield();
  }
}

}  // namespace

struct ncclComm {
  int rank, size;
  Meeting* meeting;

  std::byte* slot(int of) const {
    return reinterpret_cast<std::byte*>(meeting + 1) + static_cast<std::size_t>(of) * kSlot;
  }

  void barrier() const {
    const unsigned round = meeting->round;
    if (++meeting->arrived == size) {
      meeting->arrived = 0;
      ++meeting->round;
    } else {
      wait_until([&] { return meeting->round != round; });
    }
  }

  /// The sum over the ranks, in their order.
  template <class T>
  void sum(const std::byte* in, std::byte* out, std::size_t bytes) const {
    for (std::size_t begin = 0; begin < bytes; begin += kSlot) {
      const std::size_t part = std::min(kSlot, bytes - begin);
      std::memcpy(slot(rank), in + begin, part);
      barrier();
      auto* sums = reinterpret_cast<T*>(out + begin);
      for (std::size_t i = 0; i < part / sizeof(T); ++i) {
        T total{};
        for (int other = 0; other < size; ++other) {
          total += reinterpret_cast<const T*>(slot(other))[i];
        }
        sums[i] = total;
      }
      barrier();
    }
  }
};

namespace {

/// Of ncclGroupStart() to ncclGroupEnd(), on one thread.
struct Group {
  cudaStream_t stream = nullptr;
  std::vector<emulator::Work> sends, receives;
};
thread_local Group group;

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t /*result*/) {
  return "refused by the emulator";
}
const char* ncclGetLastError(ncclComm_t /*comm*/) {
  return "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> count = 0;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "/brigade-nccl-%d-%d", getpid(), ++count);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* /*config*/) {
  const std::size_t bytes = sizeof(Meeting) + kSlot * static_cast<std::size_t>(size);
  const int file = shm_open(id.internal, O_CREAT | O_RDWR, 0600);
  if (size > kMaxRanks || file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    return ncclSystemError;
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) {
    return ncclSystemError;
  }
  auto* meeting = static_cast<Meeting*>(memory);  // zeros, as a new Meeting
  *comm = new ncclComm{rank, size, meeting};
  ++meeting->joined;
  wait_until([&] { return meeting->joined == size; });
  shm_unlink(id.internal);
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t /*comm*/) {
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  munmap(comm->meeting, sizeof(Meeting) + kSlot * static_cast<std::size_t>(comm->size));
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t /*comm*/) {
  return ncclSuccess;  // a stream may still be in a collective
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t /*comm*/, ncclResult_t* result) {
  *result = ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclSystemError;
}
ncclResult_t ncclMemFree(void* memory) {
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclSystemError;
}
ncclResult_t ncclCommWindowRegister(ncclComm_t /*comm*/, void* memory, size_t bytes,
                                    ncclWindow_t* window, int /*flags*/) {
  *window = static_cast<ncclWindow_t>(memory);
  return emulator::on_gpu(memory, bytes) ? ncclSuccess : ncclInvalidArgument;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t /*comm*/, ncclWindow_t /*window*/) {
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * (type == ncclFloat64 ? sizeof(double) : sizeof(float));
  if (operation != ncclSum || (type != ncclFloat32 && type != ncclFloat64) ||
      !emulator::on_gpu(in, bytes) || !emulator::on_gpu(out, bytes)) {
    return ncclInvalidArgument;
  }
  emulator::submit(stream, "ncclAllReduce", [=] {
    const auto* from = static_cast<const std::byte*>(in);
    auto* to = static_cast<std::byte*>(out);
    type == ncclFloat64 ? comm->sum<double>(from, to, bytes) : comm->sum<float>(from, to, bytes);
  });
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  group = {};
  return ncclSuccess;
}
ncclResult_t ncclSend(const void* memory, size_t bytes, ncclDataType_t /*type*/, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  if (bytes > kLetter || !emulator::on_gpu(memory, bytes)) {
    return ncclInvalidArgument;
  }
  group.stream = stream;
  group.sends.emplace_back([=] {
    auto& full =
        comm->meeting->letter[static_cast<std::size_t>(comm->rank)][static_cast<std::size_t>(peer)];
    wait_until([&] { return !full; });
    std::memcpy(comm->slot(comm->rank) + static_cast<std::size_t>(peer) * kLetter, memory, bytes);
    full = true;
  });
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* memory, size_t bytes, ncclDataType_t /*type*/, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  if (bytes > kLetter || !emulator::on_gpu(memory, bytes)) {
    return ncclInvalidArgument;
  }
  group.stream = stream;
  group.receives.emplace_back([=] {
    auto& full =
        comm->meeting->letter[static_cast<std::size_t>(peer)][static_cast<std::size_t>(comm->rank)];
    wait_until([&] { return full.load(); });
    std::memcpy(memory, comm->slot(peer) + static_cast<std::size_t>(comm->rank) * kLetter, bytes);
    full = false;
  });
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  const Group ended = std::exchange(group, {});
  if (ended.stream != nullptr) {
    emulator::submit(ended.stream, "nccl group", [ended] {
      for (const auto& works : {ended.sends, ended.receives}) {
        for (const emulator::Work& work : works) {
          work();
        }
      }
    });
  }
  return ncclSuccess;
}

}  // extern "C"
