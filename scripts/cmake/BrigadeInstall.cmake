# brigade::brigade, all of the library behind <brigade/brigade.h>, and install(), so that another project can write
# find_package(brigade) and link that target. `cmake --install DIR --component library` leaves the programs out.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

configure_file("${CMAKE_SOURCE_DIR}/apps/brigade.h" "${CMAKE_BINARY_DIR}/generated/brigade/brigade.h" COPYONLY)
add_library(brigade_brigade INTERFACE)
add_library(brigade::brigade ALIAS brigade_brigade)
set_target_properties(brigade_brigade PROPERTIES EXPORT_NAME brigade)
target_include_directories(brigade_brigade INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(brigade_brigade INTERFACE brigade::nn brigade::optim brigade::dist)

install(TARGETS brigade_brigade brigade_core brigade_autograd brigade_nn brigade_optim brigade_dist EXPORT brigade
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
foreach(room core autograd nn optim dist)
  install(DIRECTORY ${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/brigade COMPONENT library
          FILES_MATCHING PATTERN "*.h" PATTERN "mpi_check.h" EXCLUDE PATTERN "nccl_check.h" EXCLUDE
          PATTERN "*_private.h" EXCLUDE PATTERN "cuda" EXCLUDE)
endforeach()
install(FILES "${CMAKE_BINARY_DIR}/generated/core/config.h" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/brigade/core
        COMPONENT library)
install(FILES apps/brigade.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/brigade COMPONENT library)
install(EXPORT brigade NAMESPACE brigade:: FILE brigade-targets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/brigade COMPONENT library)
configure_package_config_file("${CMAKE_SOURCE_DIR}/scripts/cmake/brigade-config.cmake.in"
  "${CMAKE_BINARY_DIR}/brigade-config.cmake" INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/brigade)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/brigade-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/brigade-config.cmake" "${CMAKE_BINARY_DIR}/brigade-config-version.cmake"
              "${CMAKE_SOURCE_DIR}/scripts/cmake/FindNCCL.cmake"
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/brigade COMPONENT library)
