#include "core/runtime/loan.h"

#include "core/dispatch.h"
#include "core/runtime/context.h"
#include "core/runtime/recording.h"

namespace brigade {
namespace {

void move_to_own_memory(Storage& borrower) {
  const Device device = borrower.device();
  Storage place(Context::current().allocator(device), borrower.bytes());
  dispatch(device, [&]<class K>(K) {
    call(compute_stream(device), K::copy, place.data(), borrower.data(), borrower.bytes());
  });
  borrower.swap(place);
}

}  // namespace

Tensor Loan::lend(const Tensor& lender, const Shape& shape) {
  const std::shared_ptr<Storage> earlier = borrower_.lock();
  if (closed_ || (earlier && earlier->lent()) || shape.numel() > lender.numel()) {
    return {};
  }
  Tensor lent = lender.lent(shape);
  borrower_ = lent.storage();
  return lent;
}

void Loan::move_out() {
  const std::shared_ptr<Storage> borrower = borrower_.lock();
  if (borrower && borrower->lent()) {  // another thread may have held the last handle
    move_to_own_memory(*borrower);     // may throw, and then it still lies here
  }
  borrower_.reset();
}

void end_loan(const Tensor& tensor) {
  if (tensor.defined() && tensor.storage()->lent()) {
    move_to_own_memory(*tensor.storage());
  }
}

}  // namespace brigade
