# orlop_threads: oneTBB. An installed one (Debian libtbb-dev, Homebrew, or wherever TBB_ROOT says) is linked where it
# is; otherwise the PyPI package tbb-devel gives headers and library, which is copied beside liborlop in the build
# tree and in every installation.
add_library(orlop_threads INTERFACE)
# PATH is not followed: it leads into a Python environment, whose library has to be copied.
find_package(TBB 2021 CONFIG QUIET NO_SYSTEM_ENVIRONMENT_PATH)
if(TBB_FOUND)
  target_link_libraries(orlop_threads INTERFACE TBB::tbb)
  return()
endif()

execute_process(
  COMMAND ${Python_EXECUTABLE} -c "if True:
      import importlib.metadata as metadata
      def locate(package, name):
          return next(file.locate().resolve() for file in metadata.files(package) if str(file).endswith('/' + name))
      print(locate('tbb-devel', 'oneapi/tbb.h').parents[1], locate('tbb', 'libtbb.so.12'),
            locate('tbb', 'LICENSE.txt'), locate('tbb', 'third-party-programs.txt'), sep=';', end='')"
  OUTPUT_VARIABLE found RESULT_VARIABLE failed ERROR_VARIABLE reason)
if(failed)
  message(FATAL_ERROR "Orlop needs oneTBB: install libtbb-dev (Debian) or tbb (Homebrew), or on x86-64 the PyPI "
                      "package tbb-devel for ${Python_EXECUTABLE}, as ./dev does.\n${reason}")
endif()
list(GET found 0 include_dir)
list(GET found 1 library)
list(GET found 2 license)
list(GET found 3 notices)
get_filename_component(library_name ${library} NAME)

file(MAKE_DIRECTORY ${ORLOP_STAGE})
file(COPY_FILE ${library} ${ORLOP_STAGE}/${library_name} ONLY_IF_DIFFERENT)
target_include_directories(orlop_threads SYSTEM INTERFACE ${include_dir})
target_link_libraries(orlop_threads INTERFACE ${ORLOP_STAGE}/${library_name})

install(PROGRAMS ${library} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${license} DESTINATION ${ORLOP_INSTALL_LICENSEDIR} RENAME oneTBB.txt)
install(FILES ${notices} DESTINATION ${ORLOP_INSTALL_LICENSEDIR} RENAME oneTBB-third-party.txt)
