# orlop_blas: the headers and the shared library of the PyPI package scipy-openblas32 (functions scipy_cblas_…),
# copied beside liborlop in the build tree and in every installation.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "if True:
      import importlib.metadata as metadata
      import scipy_openblas32 as blas
      licenses = [file for file in metadata.files('scipy-openblas32') if file.name.startswith('LICENSE')]
      print(blas.get_include_dir(), blas.get_lib_dir() + '/' + blas.get_library(fullname=True),
            licenses[0].locate(), sep=';', end='')"
  OUTPUT_VARIABLE found RESULT_VARIABLE failed ERROR_VARIABLE reason)
if(failed)
  message(FATAL_ERROR "Orlop needs the PyPI package scipy-openblas32 for ${Python_EXECUTABLE}: "
                      "'pip install scipy-openblas32', or use ./dev, which does it.\n${reason}")
endif()
list(GET found 0 include_dir)
list(GET found 1 library)
list(GET found 2 license)
get_filename_component(library_name ${library} NAME)

file(MAKE_DIRECTORY ${ORLOP_STAGE})
file(COPY_FILE ${library} ${ORLOP_STAGE}/${library_name} ONLY_IF_DIFFERENT)
add_library(orlop_blas INTERFACE)
target_include_directories(orlop_blas SYSTEM INTERFACE ${include_dir})
target_link_libraries(orlop_blas INTERFACE ${ORLOP_STAGE}/${library_name})

install(PROGRAMS ${library} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${license} DESTINATION ${ORLOP_INSTALL_LICENSEDIR} RENAME OpenBLAS.txt)
