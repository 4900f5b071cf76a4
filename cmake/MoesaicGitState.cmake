# SPDX-License-Identifier: Apache-2.0
# Writes moesaic_build_info.hpp: version, git commit and dirty flag, compiler. Refreshed at configure time.
# Dirty: a file changed, or is new and not ignored. Files of rows, *.jsonl, say nothing about what is built.

find_package(Git QUIET)
set(MOESAIC_GIT_SHA "unknown")
set(MOESAIC_GIT_DIRTY "false")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --short=12 HEAD WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    OUTPUT_VARIABLE _sha OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE _rc ERROR_QUIET)
  if(_rc EQUAL 0)
    set(MOESAIC_GIT_SHA ${_sha})
    execute_process(COMMAND ${GIT_EXECUTABLE} status --porcelain -- ":/" ":(top,exclude)*.jsonl" WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
      OUTPUT_VARIABLE _dirty OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT _dirty STREQUAL "")
      set(MOESAIC_GIT_DIRTY "true")
    endif()
  endif()
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_info.hpp.in ${PROJECT_BINARY_DIR}/generated/moesaic_build_info.hpp @ONLY)
