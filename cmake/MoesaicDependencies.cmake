# SPDX-License-Identifier: Apache-2.0
# Finds what is optional and says what was found. Nothing here downloads anything.

find_package(Threads REQUIRED)

# The reference, and checks against it, run on all cores with it and on one without.
find_package(OpenMP COMPONENTS CXX)

set(MOESAIC_HAVE_ONEDNN OFF)
if(NOT MOESAIC_ONEDNN STREQUAL "OFF")
  find_package(dnnl CONFIG QUIET)
  if(dnnl_FOUND AND OpenMP_CXX_FOUND)
    set(MOESAIC_HAVE_ONEDNN ON)
  elseif(MOESAIC_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "MOESAIC_ONEDNN=ON, but oneDNN or OpenMP was not found (Debian: libdnnl-dev)")
  endif()
endif()

set(MOESAIC_HAVE_CUDA OFF)
if(NOT MOESAIC_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90a-real)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    # CMake 3.25 does not know nvcc's flag for C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    find_package(CUDAToolkit REQUIRED)
    if(CUDAToolkit_VERSION VERSION_LESS 12.8)
      if(MOESAIC_CUDA STREQUAL "ON")
        message(FATAL_ERROR "MOESAIC_CUDA=ON needs CUDA 12.8 or later, found ${CUDAToolkit_VERSION}")
      endif()
    else()
      set(MOESAIC_HAVE_CUDA ON)
    endif()
  elseif(MOESAIC_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MOESAIC_CUDA=ON, but no nvcc was found")
  endif()
endif()

message(STATUS "moesaic: oneDNN ${MOESAIC_HAVE_ONEDNN}, CUDA ${MOESAIC_HAVE_CUDA}")
