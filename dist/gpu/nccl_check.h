#pragma once

// Private to the sources that call NCCL: no public header may include it.
#include <nccl.h>

#include "core/error.h"

/// Throws brigade::Error naming the call and NCCL's own reason, the last error of `comm` included
/// (comm may be null).
#define NCCL_CHECK(comm, call)                                                                 \
  do {                                                                                         \
    const ncclResult_t nccl_status = (call);                                                   \
    if (nccl_status != ncclSuccess) [[unlikely]] {                                             \
      ::brigade::throw_error(__FILE__, __LINE__,                                               \
                             fmt::format("{}: {}: {}", #call, ncclGetErrorString(nccl_status), \
                                         ncclGetLastError(comm)));                             \
    }                                                                                          \
  } while (false)
