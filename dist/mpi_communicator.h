#pragma once

#include <atomic>
#include <memory>

#include "dist/communicator.h"

namespace brigade::dist {

/// All ranks of MPI_COMM_WORLD; sums CPU tensors with MPI.
///
/// A collective runs on a thread of its own as MPI_Iallreduce plus MPI_Test and short sleeps.
/// Measured on two hosts with one core each and a 1 Gbit/s link, that hides 85 to 97 % of the
/// transfer behind GEMMs for a tenth of the CPU time of a blocking MPI_Allreduce in the thread,
/// which spins on the core that computes and hides nothing. While somebody is blocked on the
/// result, nobody computes, and the thread polls without sleeping.
///
/// Needs MPI_THREAD_MULTIPLE and an MpiSession (dist/launch.h) that outlives it.
class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator();
  ~MpiCommunicator() override;

  void barrier() override;
  std::vector<std::byte> all_gather(std::span<const std::byte> mine) override;
  void broadcast(std::span<std::byte> bytes, int root) override;

 protected:
  std::string transport() const override;
  Stream& comm_stream() override { return *stream_; }
  void do_sum(const Tensor& tensor) override;
  void do_exchange(std::span<const Message> outgoing, std::span<const Message> incoming) override;

 private:
  struct Handles;  // MPI communicators: one for the stream's collectives, one for the host's

  template <class Test>
  void poll(Test finished);

  std::unique_ptr<Handles> handles_;
  std::atomic<bool> abandoned_ = false;  // the program is failing: stop waiting for peers
  std::unique_ptr<Stream> stream_;       // last: its thread uses the others and ends first
};

}  // namespace brigade::dist
