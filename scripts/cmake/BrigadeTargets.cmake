# brigade_options: warnings, include root and sanitizers for every target of ours (and only ours).
add_library(brigade_options INTERFACE)
target_compile_features(brigade_options INTERFACE cxx_std_20)
set(brigade_warnings -Wall -Wextra -Wconversion -Wshadow)
set(brigade_cxx_warnings ${brigade_warnings} -Wpedantic -Wold-style-cast -Wnon-virtual-dtor -Woverloaded-virtual)
if(BRIGADE_WERROR)
  list(APPEND brigade_cxx_warnings -Werror)
  list(APPEND brigade_warnings -Werror)
  set(brigade_nvcc_werror "-Werror=all-warnings") # nvcc's own, beside the host compiler's
endif()
list(JOIN brigade_warnings "," brigade_host_warnings)
# The prefix map makes __FILE__ in an error read "core/ops.cpp", not the path of a build machine.
set(brigade_prefix_map "-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=")
target_compile_options(brigade_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:${brigade_cxx_warnings};${brigade_prefix_map}>
  # A launch without a stream would land on the legacy stream and silently end all overlap.
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${brigade_host_warnings};-Xcompiler=${brigade_prefix_map};-Werror=default-stream-launch;${brigade_nvcc_werror}>)
if(BRIGADE_SANITIZE)
  set(brigade_sanitize -fsanitize=${BRIGADE_SANITIZE} -fno-omit-frame-pointer)
  if(BRIGADE_SANITIZE MATCHES "address")
    # AddressSanitizer finds most of what these three checks of "undefined" would, except for a misaligned access that
    # the CPU forgives, and without them the code compiles in half the time. BRIGADE_SANITIZE=undefined has them.
    list(APPEND brigade_sanitize -fno-sanitize=null,object-size,alignment)
  endif()
  # g++ 12 warns of its own <regex> when it is instrumented (GCC bug 105562).
  target_compile_options(brigade_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:${brigade_sanitize};$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>>)
  target_link_options(brigade_options INTERFACE ${brigade_sanitize})
endif()

# brigade_add_library(name SOURCES... ): one static library per folder, alias brigade::name.
function(brigade_add_library name)
  add_library(brigade_${name} STATIC ${ARGN})
  add_library(brigade::${name} ALIAS brigade_${name})
  set_target_properties(brigade_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(brigade_${name} PRIVATE $<BUILD_INTERFACE:brigade_options>)
  target_compile_features(brigade_${name} PUBLIC cxx_std_20)
  target_include_directories(brigade_${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/generated>
    $<INSTALL_INTERFACE:include/brigade>)
endfunction()
