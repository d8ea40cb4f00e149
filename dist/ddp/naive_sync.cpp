#include "dist/ddp/naive_sync.h"

#include "core/runtime/context.h"

namespace brigade::dist {

void NaiveSync::on_backward_end() {
  for (const autograd::Variable& parameter : context_.parameters) {
    const Tensor grad = parameter.grad();
    Stream& compute = compute_stream(grad.device());
    compute.synchronize();
    context_.comm.blocking_all_reduce(grad, parameter.name());
    compute.synchronize();  // the host waits, too: this is what makes it naive
  }
}

}  // namespace brigade::dist
