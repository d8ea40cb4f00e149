#include "dist/comm/mpi_communicator.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <limits>

#include "core/error.h"
#include "core/runtime/trace.h"
#include "dist/comm/gather.h"
#include "dist/comm/mpi_check.h"

namespace brigade::dist {
namespace {

/// Sleep between two tests of a request, so that the core can compute.
constexpr useconds_t kPoliteSleepUs = 100;

/// Calls an MPI function whose last argument is its result.
template <class Result, class Function, class... Arguments>
Result result_of(Function function, Arguments... arguments) {
  Result result{};
  MPI_CHECK(function(arguments..., &result));
  return result;
}

int to_count(std::size_t count) {
  BRIGADE_CHECK(count <= static_cast<std::size_t>(std::numeric_limits<int>::max()),
                "mpi: {} elements in one message exceed MPI's 32-bit counts", count);
  return static_cast<int>(count);
}

}  // namespace

struct MpiCommunicator::Handles {
  /// Takes over `group`.
  explicit Handles(MPI_Comm group)
      : data(group), control(result_of<MPI_Comm>(MPI_Comm_dup, group)) {
    MPI_CHECK(MPI_Comm_set_errhandler(data, MPI_ERRORS_RETURN));
    MPI_CHECK(MPI_Comm_set_errhandler(control, MPI_ERRORS_RETURN));
  }

  MPI_Comm data;
  MPI_Comm control;
};

MpiCommunicator::MpiCommunicator(std::unique_ptr<Handles> handles, std::shared_ptr<Thread> thread)
    : Communicator(result_of<int>(MPI_Comm_rank, handles->data),
                   result_of<int>(MPI_Comm_size, handles->data)),
      handles_(std::move(handles)),
      thread_(std::move(thread)) {}

MpiCommunicator::MpiCommunicator()
    : MpiCommunicator(std::make_unique<Handles>(result_of<MPI_Comm>(MPI_Comm_dup, MPI_COMM_WORLD)),
                      std::make_shared<Thread>()) {}

MpiCommunicator::MpiCommunicator(const MpiCommunicator& parent, int color, int key)
    : MpiCommunicator(std::make_unique<Handles>(result_of<MPI_Comm>(
                          MPI_Comm_split, parent.handles_->control, color, key)),
                      parent.thread_) {}

MpiCommunicator::~MpiCommunicator() {
  finish();
  // MPI_Comm_free is collective: where this rank or another has failed it could hang.
  if (!thread_->abandoned) {
    MPI_Comm_free(&handles_->data);
    MPI_Comm_free(&handles_->control);
  }
}

void MpiCommunicator::finish() noexcept {
  // The thread finishes its queue before it goes on. When this rank is failing, its peers may never
  // join the all-reduce at the head of that queue, so the thread is told to give up first.
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    MpiCommunicator::abandon();
  }
  try {
    thread_->stream->synchronize();
  } catch (...) {
    // Whoever waited for the collective that failed has seen this already.
  }
}

void MpiCommunicator::abandon() noexcept {
  thread_->abandoned = true;
  Communicator::abandon();
}

void MpiCommunicator::check_not_abandoned() const {
  BRIGADE_CHECK(!thread_->abandoned, "mpi: collective abandoned because this rank failed");
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  return std::make_unique<MpiCommunicator>(*this, color, key);
}

std::vector<int> MpiCommunicator::host_of_ranks() {
  auto host = result_of<MPI_Comm>(MPI_Comm_split_type, handles_->control, MPI_COMM_TYPE_SHARED, 0,
                                  MPI_INFO_NULL);
  int lowest = rank();  // of this host: a name for it that is different from all others
  MPI_CHECK(MPI_Bcast(&lowest, 1, MPI_INT, 0, host));
  MPI_CHECK(MPI_Comm_free(&host));
  return all_gather_values(*this, lowest);
}

std::string MpiCommunicator::transport() const {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_CHECK(MPI_Get_library_version(text, &length));
  const std::string version(text, static_cast<std::size_t>(length));
  return "MPI (" + version.substr(0, version.find(',')) + ")";
}

void MpiCommunicator::do_sum(const Tensor& tensor) {
  constexpr std::int64_t kLargestPiece = std::int64_t{1} << 30;  // MPI counts are int
  const MPI_Datatype type = tensor.dtype() == DType::f64 ? MPI_DOUBLE : MPI_FLOAT;
  BRIGADE_CHECK(tensor.dtype() == DType::f32 || tensor.dtype() == DType::f64, "mpi: cannot sum {}",
                tensor.dtype());
  for (std::int64_t begin = 0; begin < tensor.numel(); begin += kLargestPiece) {
    const std::int64_t count = std::min(kLargestPiece, tensor.numel() - begin);
    void* values = tensor.flat_view(begin, {count}).bytes();
    // Not MPI_Allreduce: Open MPI spins while it waits, on the core that computes the next
    // gradient. poll() sleeps between two tests of the request.
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_CHECK(MPI_Iallreduce(MPI_IN_PLACE, values, static_cast<int>(count), type, MPI_SUM,
                             handles_->data, &request));
    poll([&request](int& done) { return MPI_Test(&request, &done, MPI_STATUS_IGNORE); });
  }
}

void MpiCommunicator::do_exchange(std::span<const Message> outgoing,
                                  std::span<const Message> incoming, const OnArrival& /*arrived*/) {
  std::vector<MPI_Request> requests;
  for (const Message& message : incoming) {
    const Tensor& tensor = message.tensor;
    MPI_CHECK(MPI_Irecv(tensor.bytes(), to_count(tensor.nbytes()), MPI_BYTE, message.peer, 0,
                        handles_->data, &requests.emplace_back()));
  }
  for (const Message& message : outgoing) {
    const Tensor& tensor = message.tensor;
    MPI_CHECK(MPI_Isend(tensor.bytes(), to_count(tensor.nbytes()), MPI_BYTE, message.peer, 0,
                        handles_->data, &requests.emplace_back()));
  }
  poll([&requests](int& done) {
    return MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done,
                       MPI_STATUSES_IGNORE);
  });
}

/// Calls `finished` until it sets done. Sleeps between two calls, unless the rank's own thread is
/// blocked on the result.
template <class Test>
void MpiCommunicator::poll(Test finished) {
  for (int done = 0; done == 0;) {
    MPI_CHECK(finished(done));
    check_not_abandoned();
    if (done == 0 && !someone_waits()) {
      usleep(kPoliteSleepUs);
    }
  }
}

void MpiCommunicator::barrier() {
  const ScopeName scope(kBarrier);
  MPI_CHECK(MPI_Barrier(handles_->control));
}

std::vector<std::byte> MpiCommunicator::all_gather_bytes(std::span<const std::byte> mine) {
  const ScopeName scope(kAllGather);
  std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(size()));
  const int count = to_count(mine.size());
  MPI_CHECK(
      MPI_Allgather(mine.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, handles_->control));
  return all;
}

void MpiCommunicator::broadcast(std::span<std::byte> bytes, int root) {
  const ScopeName scope(kBroadcast);
  constexpr std::size_t kLargestPiece = std::size_t{1} << 30U;
  for (std::size_t begin = 0; begin < bytes.size(); begin += kLargestPiece) {
    const std::span<std::byte> piece =
        bytes.subspan(begin, std::min(kLargestPiece, bytes.size() - begin));
    MPI_CHECK(MPI_Bcast(piece.data(), to_count(piece.size()), MPI_BYTE, root, handles_->control));
  }
}

}  // namespace brigade::dist
