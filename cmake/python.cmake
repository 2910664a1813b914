# The extension orlop._core and the staged package around it.
if(NOT Python_Development.Module_FOUND)
  message(FATAL_ERROR "No headers for ${Python_EXECUTABLE}: install python3-dev, or configure with "
                      "-DORLOP_PYTHON=OFF")
endif()
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "if True:
      import importlib.metadata as metadata
      import nanobind
      licenses = [file for file in metadata.files('nanobind') if file.name.startswith('LICENSE')]
      print(nanobind.cmake_dir(), licenses[0].locate(), sep=';', end='')"
  OUTPUT_VARIABLE found RESULT_VARIABLE failed ERROR_VARIABLE reason)
if(failed)
  message(FATAL_ERROR "The extension needs the PyPI package nanobind for ${Python_EXECUTABLE}: "
                      "'pip install nanobind', or use ./dev, which does it.\n${reason}")
endif()
list(GET found 0 nanobind_ROOT)
list(GET found 1 nanobind_license)
find_package(nanobind 3.1 CONFIG REQUIRED)
file(GLOB ORLOP_BINDINGS CONFIGURE_DEPENDS python/bindings/*.cpp)
nanobind_add_module(_core NB_STATIC NOMINSIZE ${ORLOP_BINDINGS})
target_link_libraries(_core PRIVATE orlop)
target_include_directories(_core PRIVATE src)
target_compile_options(_core PRIVATE -Wall -Wextra -Wconversion -Wno-pedantic)
set_target_properties(_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${ORLOP_STAGE} BUILD_WITH_INSTALL_RPATH ON
                                       INSTALL_RPATH ${ORLOP_ORIGIN})
if(SKBUILD)
  install(TARGETS _core LIBRARY DESTINATION .)
  install(FILES ${nanobind_license} DESTINATION ${ORLOP_INSTALL_LICENSEDIR} RENAME nanobind.txt)
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
