#pragma once

#include <memory>

#include "core/tensor.h"

namespace brigade {

/// Memory that is lent out while its owner has no use for it.
///
/// A gradient is empty between the optimizer's step and the kernel of backward that writes it;
/// until then an activation can lie there, and a training step needs no other memory for it. What
/// is lent looks like any other tensor. If somebody still holds it when the memory is called in, it
/// moves to memory of its own, and every handle and view of it with it; that costs an allocation
/// and a copy, and nothing where nobody holds it.
///
/// What does not follow: bare pointers into it (Tensor::data), and work on other streams than the
/// compute stream that has not been waited for. Who enqueues such work calls end_loan() first, as
/// dist::Communicator does for what it is to send; not in a repeatable() (core/runtime/recording.h), which
/// finds nothing to move when it is repeated.
class Loan {
 public:
  /// A tensor of `shape` in the first bytes of `lender`, whose memory it keeps alive; undefined
  /// when what was lent before still lies there, has no room, or the loan is closed. Its values are
  /// whatever is there.
  Tensor lend(const Tensor& lender, const Shape& shape);

  /// The memory is needed: must be called before anything else is enqueued that writes to it. What
  /// is still held moves, with a copy on the compute stream.
  void call_in() {
    if (borrower_.use_count() > 0) {
      move_out();
    }
  }

  /// Nothing is lent from now on: somebody may still be writing to the memory.
  void close() noexcept { closed_ = true; }

 private:
  void move_out();

  std::weak_ptr<Storage> borrower_;
  bool closed_ = false;
};

/// Moves `tensor` to memory of its own if its memory is lent, as Loan::call_in does.
void end_loan(const Tensor& tensor);

}  // namespace brigade
