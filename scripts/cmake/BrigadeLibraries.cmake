# Everything here comes from the distribution's packages (scripts/setup.sh); nothing is downloaded.
set(MPI_CXX_SKIP_MPICXX ON) # not the C++ bindings that MPI-3 removed
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(ZLIB REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_path(PCRE2_INCLUDE_DIR pcre2.h REQUIRED)
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)

# The pthread flavour by name: the OpenMP flavour ignores the core binding that mpirun sets.
find_path(OPENBLAS_INCLUDE_DIR cblas.h
          HINTS ENV OPENBLAS_ROOT PATH_SUFFIXES include x86_64-linux-gnu/openblas-pthread openblas-pthread openblas
          REQUIRED)
find_library(OPENBLAS_LIBRARY openblas
             HINTS ENV OPENBLAS_ROOT PATH_SUFFIXES lib x86_64-linux-gnu/openblas-pthread openblas-pthread REQUIRED)

# Optional. By hand, because its CMake package wants an OpenCL development package. Version 3 has another interface.
find_path(ONEDNN_INCLUDE_DIR dnnl.hpp HINTS ENV ONEDNN_ROOT PATH_SUFFIXES include)
find_library(ONEDNN_LIBRARY dnnl HINTS ENV ONEDNN_ROOT PATH_SUFFIXES lib)
set(BRIGADE_ONEDNN_WHY "${ONEDNN_LIBRARY}")
if(NOT ONEDNN_INCLUDE_DIR OR NOT ONEDNN_LIBRARY)
  set(ONEDNN_LIBRARY "")
  set(BRIGADE_ONEDNN_WHY "not found (libdnnl-dev): OpenBLAS computes everything")
else()
  file(STRINGS "${ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" onednn_version REGEX "define DNNL_VERSION_MAJOR")
  if(NOT onednn_version MATCHES " 2$")
    set(ONEDNN_LIBRARY "")
    set(BRIGADE_ONEDNN_WHY "not version 2: OpenBLAS computes everything")
  endif()
endif()
