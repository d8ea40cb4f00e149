# Everything here comes from the distribution's packages (scripts/setup.sh); nothing is downloaded.
set(MPI_CXX_SKIP_MPICXX ON) # not the C++ bindings that MPI-3 removed
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(ZLIB REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)

# The pthread flavour by name: the OpenMP flavour ignores the core binding that mpirun sets.
find_path(OPENBLAS_INCLUDE_DIR cblas.h
          HINTS ENV OPENBLAS_ROOT PATH_SUFFIXES include x86_64-linux-gnu/openblas-pthread openblas-pthread openblas
          REQUIRED)
find_library(OPENBLAS_LIBRARY openblas
             HINTS ENV OPENBLAS_ROOT PATH_SUFFIXES lib x86_64-linux-gnu/openblas-pthread openblas-pthread REQUIRED)
