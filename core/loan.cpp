#include "core/loan.h"

#include "core/context.h"
#include "core/dispatch.h"
#include "core/recording.h"

namespace brigade {

Tensor Loan::lend(const Tensor& lender, const Shape& shape) {
  if (!borrower_.expired() || shape.numel() > lender.numel()) {
    return {};
  }
  const Tensor lent = lender.with_own_storage(shape);
  borrower_ = lent.storage();
  return lent;
}

void Loan::move_out() {
  const std::shared_ptr<Storage> borrower = borrower_.lock();
  borrower_.reset();
  const Device device = borrower->device();
  Storage place(Context::current().allocator(device), borrower->bytes());
  dispatch(device, [&]<class K>(K) {
    call(compute_stream(device), K::copy, place.data(), borrower->data(), borrower->bytes());
  });
  borrower->swap(place);
}

}  // namespace brigade
