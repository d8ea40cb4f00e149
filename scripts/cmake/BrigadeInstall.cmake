# install() so that another project can write find_package(brigade) and link brigade::dist.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS brigade_core brigade_autograd brigade_nn brigade_optim brigade_dist EXPORT brigade
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET train_mlp)
  install(TARGETS train_mlp RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
foreach(room core autograd nn optim dist)
  install(DIRECTORY ${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/brigade
          FILES_MATCHING PATTERN "*.h" PATTERN "mpi_check.h" EXCLUDE PATTERN "nccl_check.h" EXCLUDE
          PATTERN "*_private.h" EXCLUDE PATTERN "cuda" EXCLUDE)
endforeach()
install(FILES "${CMAKE_BINARY_DIR}/generated/core/config.h" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/brigade/core)
install(EXPORT brigade NAMESPACE brigade:: FILE brigade-targets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/brigade)
configure_package_config_file("${CMAKE_SOURCE_DIR}/scripts/cmake/brigade-config.cmake.in"
  "${CMAKE_BINARY_DIR}/brigade-config.cmake" INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/brigade)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/brigade-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/brigade-config.cmake" "${CMAKE_BINARY_DIR}/brigade-config-version.cmake"
              "${CMAKE_SOURCE_DIR}/scripts/cmake/FindNCCL.cmake"
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/brigade)
