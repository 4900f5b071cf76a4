# SPDX-License-Identifier: Apache-2.0
# Every public header and every math header must compile alone, twice in a row, with the C++ compiler
# of the build and, where there is one, with clang; none but interop/cuda.hpp with CUDA's headers in sight.

# moesaic_header_alone_check(): the object library `moesaic_header_alone` (part of `all`), and the
# tests «headers alone: …». Call it once, after enable_testing().
function(moesaic_header_alone_check)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/include/moesaic/*.hpp ${PROJECT_SOURCE_DIR}/include/moesaic/*.h
    ${PROJECT_SOURCE_DIR}/src/math/*.hpp)
  set(interop include/moesaic/interop/cuda.hpp)
  if(NOT MOESAIC_HAVE_CUDA)
    list(REMOVE_ITEM headers ${interop})
  endif()

  set(sources "")
  set(plain_sources "")
  foreach(header IN LISTS headers)
    string(REGEX REPLACE "^(include|src)/" "" spelling ${header})
    string(REGEX REPLACE "[/.]" "_" name ${spelling})
    set(source ${PROJECT_BINARY_DIR}/header_alone/${name}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${spelling}\"\n#include \"${spelling}\"\n" @ONLY)
    list(APPEND sources ${source})
    if(header STREQUAL interop)
      set_source_files_properties(${source} PROPERTIES INCLUDE_DIRECTORIES "${CUDAToolkit_INCLUDE_DIRS}")
    else()
      list(APPEND plain_sources ${source})
    endif()
  endforeach()

  add_library(moesaic_header_alone OBJECT ${sources})
  target_include_directories(moesaic_header_alone PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(moesaic_header_alone PRIVATE moesaic_build_options)

  set(flags -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror
    -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src)
  find_program(MOESAIC_CLANGXX NAMES clang++-14 clang++)
  if(MOESAIC_CLANGXX)
    add_test(NAME "headers alone: clang++"
      COMMAND ${MOESAIC_CLANGXX} -std=c++20 ${flags} ${plain_sources})
  endif()
  foreach(header c_api c_api_exchange)
    add_test(NAME "headers alone: ${header}.h as C"
      COMMAND ${CMAKE_CXX_COMPILER} -x c -std=c11 ${flags} ${PROJECT_BINARY_DIR}/header_alone/moesaic_${header}_h.cpp)
  endforeach()
endfunction()
