# liborlop, its installation and its CMake package.
file(GLOB_RECURSE ORLOP_SOURCES CONFIGURE_DEPENDS src/*.cpp)
file(GLOB_RECURSE ORLOP_HEADERS CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} include/orlop/*.hpp)

# <orlop/orlop.hpp> brings everything: it is written here, so that no header can be forgotten.
set(everything "// Everything that Orlop offers.\n#pragma once\n\n")
foreach(header ${ORLOP_HEADERS})
  string(REGEX REPLACE "^include/" "" name ${header})
  string(APPEND everything "#include \"${name}\"\n")
endforeach()
set(ORLOP_GENERATED ${CMAKE_BINARY_DIR}/include)
file(CONFIGURE OUTPUT ${ORLOP_GENERATED}/orlop/orlop.hpp CONTENT "${everything}" @ONLY)

# A source named …_x86_64_v2.cpp, …_v3.cpp or …_v4.cpp is compiled for that instruction set, on that architecture
# only; which of the units runs is chosen at run time.
foreach(level v2 v3 v4)
  set(units ${ORLOP_SOURCES})
  list(FILTER units INCLUDE REGEX "_x86_64_${level}\\.cpp$")
  if(units AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set_property(SOURCE ${units} APPEND PROPERTY COMPILE_OPTIONS -march=x86-64-${level})
  elseif(units)
    list(REMOVE_ITEM ORLOP_SOURCES ${units})
  endif()
endforeach()

# Kernels are loops worth the compiler's time; nobody reads errno or floating-point traps, and values stay the same.
set(kernels ${ORLOP_SOURCES})
list(FILTER kernels INCLUDE REGEX
     "/src/(carriers/[^/]*/kernels/|operation/(cache_lines|elementwise_functions|reference/))[^/]*\\.cpp$")
set_property(SOURCE ${kernels} APPEND PROPERTY COMPILE_OPTIONS -O3 -fno-math-errno -fno-trapping-math)
# GCC orders instructions after it has given out registers only, unless asked: too late to mix two computations.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(FILTER kernels INCLUDE REGEX "/elementwise_functions[^/]*\\.cpp$")
  set_property(SOURCE ${kernels} APPEND PROPERTY COMPILE_OPTIONS -fschedule-insns -fsched-pressure)
endif()

if(ORLOP_SANITIZE)
  set_property(SOURCE src/base/task_arena.cpp APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=thread)
endif()

add_library(orlop SHARED ${ORLOP_SOURCES} ${ORLOP_METAL_SOURCES})
add_library(orlop::orlop ALIAS orlop)
target_sources(orlop PUBLIC FILE_SET HEADERS BASE_DIRS include ${ORLOP_GENERATED} FILES ${ORLOP_HEADERS}
                                     ${ORLOP_GENERATED}/orlop/orlop.hpp)
target_include_directories(orlop PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
target_compile_features(orlop PUBLIC cxx_std_20)
target_compile_definitions(orlop PRIVATE ORLOP_BUILDING)
target_compile_options(orlop PRIVATE ${ORLOP_WARNINGS})
target_link_libraries(orlop PRIVATE $<BUILD_INTERFACE:orlop_blas> $<BUILD_INTERFACE:orlop_threads> ${ORLOP_METAL_FRAMEWORKS})
set_target_properties(
  orlop
  PROPERTIES CXX_VISIBILITY_PRESET hidden
             VISIBILITY_INLINES_HIDDEN ON
             SOVERSION ${PROJECT_VERSION_MAJOR}
             LIBRARY_OUTPUT_DIRECTORY ${ORLOP_STAGE}
             BUILD_WITH_INSTALL_RPATH ON
             INSTALL_RPATH ${ORLOP_ORIGIN}
             # Every public header compiles alone: the target all_verify_interface_header_sets proves it.
             VERIFY_INTERFACE_HEADER_SETS ON)
if(SKBUILD)
  set(no_link NAMELINK_SKIP)  # a wheel holds no symbolic links
else()
  set_target_properties(orlop PROPERTIES VERSION ${PROJECT_VERSION})
endif()

install(
  TARGETS orlop
  EXPORT orlopTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${no_link}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT orlopTargets NAMESPACE orlop:: DESTINATION ${ORLOP_INSTALL_CMAKEDIR})
include(CMakePackageConfigHelpers)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/orlopConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/orlopConfig.cmake ${CMAKE_BINARY_DIR}/orlopConfigVersion.cmake
        DESTINATION ${ORLOP_INSTALL_CMAKEDIR})
install(FILES LICENSE DESTINATION ${ORLOP_INSTALL_LICENSEDIR} RENAME Orlop.txt)
