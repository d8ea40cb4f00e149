# BRIGADE_CUDA=EMULATED: core/cuda and the GPU communicators over tests/cuda_emulator, for machines without a GPU. Needs the headers of
# CUDA and NCCL, but no nvcc.
if(NOT BRIGADE_TESTS)
  message(FATAL_ERROR "BRIGADE_CUDA=EMULATED is for tests: expected BRIGADE_TESTS=ON")
endif()
find_program(EMULATED_NVCC nvcc HINTS ENV CUDACXX PATHS /usr/local/cuda/bin) # only to find what lies beside it
get_filename_component(toolkit "${EMULATED_NVCC}" DIRECTORY)
find_path(EMULATED_CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS "${toolkit}/.." PATHS /usr/local/cuda PATH_SUFFIXES include REQUIRED)
find_path(EMULATED_NCCL_INCLUDE_DIR nccl.h HINTS "${NCCL_ROOT}" ENV NCCL_ROOT ENV NCCL_HOME "${toolkit}/.." PATHS /usr/local/cuda
          PATH_SUFFIXES include)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(BRIGADE_HAS_CUDA ON)
if(EMULATED_NCCL_INCLUDE_DIR AND NOT BRIGADE_NCCL STREQUAL "OFF")
  set(BRIGADE_HAS_NCCL ON)
endif()
set(BRIGADE_CUDA_WHY "emulated on the CPU, see tests/cuda_emulator")
set(BRIGADE_NCCL_WHY "emulated, over ${EMULATED_NCCL_INCLUDE_DIR}/nccl.h")

set(BRIGADE_EMULATOR_DIR "${CMAKE_BINARY_DIR}/lib")
set(include_dirs "${EMULATED_CUDA_INCLUDE_DIR}")
if(BRIGADE_HAS_NCCL)
  list(APPEND include_dirs "${EMULATED_NCCL_INCLUDE_DIR}")
endif()
foreach(library CUDA::cudart CUDA::cublas CUDA::cublasLt NCCL::nccl)
  add_library(${library} SHARED IMPORTED GLOBAL)
  set_target_properties(${library} PROPERTIES
    IMPORTED_LOCATION "${BRIGADE_EMULATOR_DIR}/libcuda_emulator.so"
    INTERFACE_INCLUDE_DIRECTORIES "${include_dirs}")
  add_dependencies(${library} cuda_emulator)
endforeach()

# Adds the kernels of folder cuda/ to `target`, as C++ of which launch_to_call.py has made calls.
function(brigade_emulate_kernels target)
  set(emulator "${CMAKE_SOURCE_DIR}/tests/cuda_emulator")
  set(emulated "${CMAKE_BINARY_DIR}/emulated")
  file(GLOB kernels CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/cuda/*.cu" "${CMAKE_CURRENT_SOURCE_DIR}/cuda/*.cuh")
  foreach(kernel IN LISTS kernels)
    file(RELATIVE_PATH name "${CMAKE_SOURCE_DIR}" "${kernel}")
    string(REGEX REPLACE "\\.cu$" ".cpp" name "${name}")
    add_custom_command(
      OUTPUT "${emulated}/${name}"
      COMMAND Python3::Interpreter "${emulator}/launch_to_call.py" "${kernel}" "${emulated}/${name}"
      DEPENDS "${kernel}" "${emulator}/launch_to_call.py")
    target_sources(${target} PRIVATE "${emulated}/${name}")
    # A kernel is written for nvcc: what the host's compiler would warn about is not its concern.
    set_source_files_properties("${emulated}/${name}" PROPERTIES COMPILE_OPTIONS "-include;${emulator}/device_private.h;-w")
  endforeach()
  target_include_directories(${target} BEFORE PRIVATE "${emulated}")
endfunction()
