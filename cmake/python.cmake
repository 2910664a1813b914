# The extension orlop._core and the staged package around it.
if(NOT Python_Development.Module_FOUND)
  message(FATAL_ERROR "No headers for ${Python_EXECUTABLE}: install python3-dev, or configure with "
                      "-DORLOP_PYTHON=OFF")
endif()
execute_process(
  COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
  OUTPUT_STRIP_TRAILING_WHITESPACE
  OUTPUT_VARIABLE nanobind_ROOT)
find_package(nanobind 3.1 CONFIG REQUIRED)
file(GLOB ORLOP_BINDINGS CONFIGURE_DEPENDS python/bindings/*.cpp)
nanobind_add_module(_core NB_STATIC NOMINSIZE ${ORLOP_BINDINGS})
target_link_libraries(_core PRIVATE orlop)
target_compile_options(_core PRIVATE -Wall -Wextra -Wconversion -Wno-pedantic)
set_target_properties(_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${ORLOP_STAGE} BUILD_WITH_INSTALL_RPATH ON
                                       INSTALL_RPATH ${ORLOP_ORIGIN})
if(SKBUILD)
  install(TARGETS _core LIBRARY DESTINATION .)
endif()

# The Python files are links into the source tree; links whose file is gone go as well.
set(python_source ${CMAKE_CURRENT_SOURCE_DIR}/python/orlop)
file(GLOB_RECURSE staged LIST_DIRECTORIES false RELATIVE ${ORLOP_STAGE} ${ORLOP_STAGE}/*.py ${ORLOP_STAGE}/*.pyi
     ${ORLOP_STAGE}/py.typed)
file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${python_source} ${python_source}/*.py ${python_source}/*.pyi
     ${python_source}/py.typed)
foreach(name ${staged})
  if(NOT name IN_LIST files)
    file(REMOVE ${ORLOP_STAGE}/${name})
  endif()
endforeach()
foreach(name ${files})
  get_filename_component(folder ${ORLOP_STAGE}/${name} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  file(CREATE_LINK ${python_source}/${name} ${ORLOP_STAGE}/${name} SYMBOLIC)
endforeach()
