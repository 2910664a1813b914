# find_package(orlop CONFIG) gives the target orlop::orlop; nothing else is needed beside it.
include(${CMAKE_CURRENT_LIST_DIR}/orlopTargets.cmake)
