# SPDX-License-Identifier: Apache-2.0
# Compiler warnings and sanitizers, and the one function by which a layer becomes a target.

add_library(moesaic_build_options INTERFACE)
target_compile_options(moesaic_build_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion>
  # g++ 12 sees overlaps in libstdc++'s own string concatenation (GCC bug 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
  $<$<AND:$<BOOL:${MOESAIC_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>)
if(MOESAIC_SANITIZE)
  target_compile_options(moesaic_build_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${MOESAIC_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(moesaic_build_options INTERFACE -fsanitize=${MOESAIC_SANITIZE})
endif()

# moesaic_layer(<name> [SOURCES ...] [LINK ...]): a static library `moesaic_<name>` that sees only the
# public headers, the private headers under src/ and what it names in LINK. scripts/check_layers.py
# holds the finer rule: which folder may include which.
function(moesaic_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  add_library(moesaic_${name} STATIC ${ARG_SOURCES})
  target_include_directories(moesaic_${name}
    PUBLIC ${PROJECT_SOURCE_DIR}/include
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(moesaic_${name} PUBLIC ${ARG_LINK} PRIVATE moesaic_build_options ${ARG_PRIVATE_LINK})
endfunction()
