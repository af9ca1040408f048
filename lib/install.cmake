# The library for programs outside: header, both libraries, pkg-config file, CMake package.
install(TARGETS ember_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${CMAKE_SOURCE_DIR}/lib/ember.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# The archive for others is one object whose only global names are the exported ones, so that a program may have a
# model_forward() of its own.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lib/ember.map)
file(READ ${CMAKE_SOURCE_DIR}/lib/ember.map names)
string(REGEX MATCHALL "ember_[a-z0-9_]+" names "${names}")
list(JOIN names "\n" names)
set(package ${CMAKE_BINARY_DIR}/package)
file(CONFIGURE OUTPUT ${package}/symbols CONTENT "${names}\n" @ONLY)
add_custom_command(OUTPUT ${package}/libember.a
                   COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o ${package}/ember.o ${ember_objects}
                   COMMAND ${CMAKE_OBJCOPY} --keep-global-symbols=${package}/symbols ${package}/ember.o
                   COMMAND ${CMAKE_COMMAND} -E rm -f ${package}/libember.a
                   COMMAND ${CMAKE_AR} qcs ${package}/libember.a ${package}/ember.o
                   DEPENDS ${ember_objects} ${package}/symbols VERBATIM COMMAND_EXPAND_LISTS)
add_custom_target(ember_package ALL DEPENDS ${package}/libember.a)
install(FILES ${package}/libember.a DESTINATION ${CMAKE_INSTALL_LIBDIR})

# What the static library needs. The compressors of HDF5 matter to a program that is static throughout.
ember_link_flags(ember_private_libraries ${ember_dependencies})
foreach(name sz aec z)
  find_library(EMBER_HDF5_${name} NAMES ${name})
  if(EMBER_HDF5_${name})
    list(APPEND ember_private_libraries -l${name})
  endif()
endforeach()
list(APPEND ember_private_libraries -lm -ldl)
list(REMOVE_DUPLICATES ember_private_libraries)
list(JOIN ember_private_libraries " " ember_pc_private)

# Both files find their folders from where they lie: the prefix of `cmake --install --prefix` is not known here.
set(folder ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH ember_pc_prefix ${folder} ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" ember_pc_prefix ${ember_pc_prefix})
file(RELATIVE_PATH ember_pc_include ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
file(RELATIVE_PATH ember_pc_lib ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
configure_file(${CMAKE_SOURCE_DIR}/lib/ember.pc.in ${CMAKE_BINARY_DIR}/ember.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/ember.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

include(CMakePackageConfigHelpers)
set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/ember)
configure_package_config_file(${CMAKE_SOURCE_DIR}/lib/ember-config.cmake.in ${CMAKE_BINARY_DIR}/ember-config.cmake INSTALL_DESTINATION ${folder}
                              PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ember-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ember-config.cmake ${CMAKE_BINARY_DIR}/ember-config-version.cmake DESTINATION ${folder})
