#pragma once

#include <mpi.h>

#include <array>
#include <string>

#include "core/error.h"

namespace brigade::dist {

inline std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace brigade::dist

/// Throws Error with MPI's own text unless the call returned MPI_SUCCESS. Private to the files that
/// include mpi.h.
#define MPI_CHECK(call)                                                               \
  do {                                                                                \
    if (const int mpi_code = (call); mpi_code != MPI_SUCCESS) {                       \
      ::brigade::throw_error(__FILE__, __LINE__,                                      \
                             #call ": " + ::brigade::dist::mpi_error_text(mpi_code)); \
    }                                                                                 \
  } while (false)
