#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda_emulator/emulator_private.h"

namespace {

constexpr int kMaxRanks = 8;
constexpr std::size_t kPart = std::size_t{1} << 18U;  // bytes that travel at a time

/// What one rank has for another to read.
struct Letter {
  std::atomic<bool> full = false;
  alignas(64) std::array<std::byte, kPart> bytes;
};

/// In memory that the ranks share, at first full of zeros.
struct Meeting {
  std::atomic<int> joined;
  std::atomic<int> arrived;
  std::atomic<unsigned> round;
  alignas(64) std::array<std::array<std::byte, kPart>, kMaxRanks> addends;
  std::array<std::array<Letter, kMaxRanks>, kMaxRanks> letters;  // [from][to]
};

}  // namespace

struct ncclComm {
  int rank, size;
  Meeting* meeting;
  const int gpu = emulator::current_gpu();
  std::atomic<bool> aborted = false;
  std::function<bool()> unsettled =
      {};         ///< what the last call has left to do; true when it is done
  int polls = 0;  ///< that are answered "in progress" before it is done

  /// A call of a non-blocking communicator returns at once, and `rest` is done by a thread of
  /// NCCL's; here by ncclCommGetAsyncError, so that it is never done for those who do not ask.
  ncclResult_t begin(std::function<bool()> rest) {
    if (unsettled) {
      return ncclInvalidUsage;
    }
    constexpr int kPolls = 3;
    polls = kPolls;
    unsettled = std::move(rest);
    return ncclInProgress;
  }

  void wait_until(const auto& condition) const {
    while (!condition() && !aborted) {
      std::this_thread::yield();
    }
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
    const auto addend = [this](int of) {
      return meeting->addends[static_cast<std::size_t>(of)].data();
    };
    for (std::size_t begin = 0; begin < bytes && !aborted; begin += kPart) {
      const std::size_t part = std::min(kPart, bytes - begin);
      std::memcpy(addend(rank), in + begin, part);
      barrier();
      auto* sums = reinterpret_cast<T*>(out + begin);
      for (std::size_t i = 0; i < part / sizeof(T); ++i) {
        T total{};
        for (int other = 0; other < size; ++other) {
          total += reinterpret_cast<const T*>(addend(other))[i];
        }
        sums[i] = total;
      }
      barrier();
    }
  }
};

namespace {

/// A message, of which `done` bytes have been sent or received.
struct Transfer {
  bool sends;
  std::size_t peer;
  std::byte* memory;
  std::size_t bytes;
  std::size_t done = 0;

  bool complete() const { return done == bytes; }

  /// The next part, if the other side is ready for it.
  void proceed(const ncclComm& comm) {
    const auto me = static_cast<std::size_t>(comm.rank);
    Letter& letter = sends ? comm.meeting->letters[me][peer] : comm.meeting->letters[peer][me];
    if (letter.full == sends) {
      return;
    }
    const std::size_t part = std::min(kPart, bytes - done);
    sends ? std::memcpy(letter.bytes.data(), memory + done, part)
          : std::memcpy(memory + done, letter.bytes.data(), part);
    letter.full = sends;
    done += part;
  }
};

/// From ncclGroupStart() to ncclGroupEnd(), on one thread.
struct Group {
  bool open = false;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Transfer> transfers;
  ncclResult_t result = ncclSuccess;
};
thread_local Group group;

ncclResult_t add(bool sends, const void* memory, std::size_t bytes, int peer, ncclComm_t comm,
                 cudaStream_t stream) {
  if (!group.open || !emulator::on_gpu(memory, bytes, comm->gpu)) {
    return group.result = ncclInvalidUsage;
  }
  group.comm = comm;
  group.stream = stream;
  auto* begin = static_cast<std::byte*>(const_cast<void*>(memory));
  group.transfers.push_back({sends, static_cast<std::size_t>(peer), begin, bytes});
  return ncclSuccess;
}

/// All at once; of those with one peer and one direction the first goes first.
void carry_out(const ncclComm& comm, std::vector<Transfer> transfers) {
  comm.wait_until([&] {
    std::set<std::pair<bool, std::size_t>> busy;
    for (Transfer& transfer : transfers) {
      if (!transfer.complete() && busy.emplace(transfer.sends, transfer.peer).second) {
        transfer.proceed(comm);
      }
    }
    return busy.empty();
  });
}

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
  *id = {};
  std::random_device random;
  std::snprintf(id->internal, sizeof id->internal, "/brigade-nccl-%08x%08x", random(), random());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) {
    return ncclInvalidUsage;  // not emulated
  }
  const int file = shm_open(id.internal, O_CREAT | O_RDWR, 0600);
  if (size > kMaxRanks || file < 0 || ftruncate(file, sizeof(Meeting)) != 0) {
    return ncclSystemError;
  }
  void* memory = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) {
    return ncclSystemError;
  }
  auto* meeting = static_cast<Meeting*>(memory);
  *comm = new ncclComm{rank, size, meeting};
  ++meeting->joined;
  return (*comm)->begin([=] {
    if (meeting->joined < size) {
      return false;
    }
    shm_unlink(id.internal);
    return true;
  });
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return comm->begin([] { return true; });
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  munmap(comm->meeting, sizeof(Meeting));  // and it stays, or the next one might be taken for it
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->aborted = true;  // and it stays: a stream may still be in a collective
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  if (comm->unsettled && comm->polls-- <= 0 && comm->unsettled()) {
    comm->unsettled = nullptr;
  }
  *result = comm->unsettled ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * (type == ncclFloat64 ? sizeof(double) : sizeof(float));
  if (operation != ncclSum || (type != ncclFloat32 && type != ncclFloat64) ||
      !emulator::on_gpu(in, bytes, comm->gpu) || !emulator::on_gpu(out, bytes, comm->gpu)) {
    return ncclInvalidArgument;
  }
  return comm->begin([=] {
    emulator::submit(stream, [=] {
      const auto* from = static_cast<const std::byte*>(in);
      auto* to = static_cast<std::byte*>(out);
      type == ncclFloat64 ? comm->sum<double>(from, to, bytes) : comm->sum<float>(from, to, bytes);
    });
    return true;
  });
}

ncclResult_t ncclGroupStart() {
  group = {};
  group.open = true;
  return ncclSuccess;
}
ncclResult_t ncclSend(const void* memory, size_t bytes, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return type == ncclUint8 ? add(true, memory, bytes, peer, comm, stream) : ncclInvalidArgument;
}
ncclResult_t ncclRecv(void* memory, size_t bytes, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return type == ncclUint8 ? add(false, memory, bytes, peer, comm, stream) : ncclInvalidArgument;
}
ncclResult_t ncclGroupEnd() {
  const Group ended = std::exchange(group, {});
  if (ended.result != ncclSuccess || ended.transfers.empty()) {
    return ended.result;
  }
  return ended.comm->begin([ended] {
    emulator::submit(ended.stream, [comm = ended.comm, transfers = ended.transfers] {
      carry_out(*comm, transfers);
    });
    return true;
  });
}

}  // extern "C"
