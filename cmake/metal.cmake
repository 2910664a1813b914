# The Metal kernels: as text for a device, and translated for the emulator. On Apple the runtime of the system's
# device is built where the metal-cpp headers are found; the variable METAL_CPP_DIR, of CMake or the environment, says where they are.
file(GLOB ORLOP_METAL_KERNELS CONFIGURE_DEPENDS kernels/metal/generated/*.metal)
set(ORLOP_METAL_SOURCES ${CMAKE_BINARY_DIR}/metal/kernel_manifest.cpp ${CMAKE_BINARY_DIR}/metal/emulated_kernels.cpp)
add_custom_command(
  OUTPUT ${ORLOP_METAL_SOURCES}
  COMMAND Python::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/kernels/metal/translate.py ${CMAKE_BINARY_DIR}/metal
  DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels/metal/translate.py ${CMAKE_CURRENT_SOURCE_DIR}/kernels/metal/sizes.py
          ${ORLOP_METAL_KERNELS})

if(APPLE)
  # The emulator's fibers: without the first name their header is but an error, with it alone others are hidden.
  set_property(SOURCE src/carriers/metal/emulated_runtime.cpp APPEND PROPERTY COMPILE_DEFINITIONS _XOPEN_SOURCE=700
               _DARWIN_C_SOURCE)
  find_path(METAL_CPP_DIR Metal/Metal.hpp HINTS "$ENV{METAL_CPP_DIR}" DOC "Folder of the metal-cpp headers")
  if(METAL_CPP_DIR)
    set_property(SOURCE src/carriers/metal/runtime.cpp src/carriers/metal/apple_runtime.cpp
                 APPEND PROPERTY COMPILE_DEFINITIONS ORLOP_METAL_CPP)
    set_property(SOURCE src/carriers/metal/apple_runtime.cpp APPEND PROPERTY INCLUDE_DIRECTORIES ${METAL_CPP_DIR})
    # Without CoreGraphics the system gives a program of the command line no device.
    set(ORLOP_METAL_FRAMEWORKS "-framework Foundation" "-framework Metal" "-framework QuartzCore" "-framework CoreGraphics")
  else()
    message(STATUS "Orlop: no metal-cpp headers (METAL_CPP_DIR), so that Metal has no device runtime")
  endif()
endif()
