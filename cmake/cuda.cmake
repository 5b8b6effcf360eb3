# The cuda back end: libkernels_cuda.so, a library the program loads when it is asked for (kernels/plugin.h).
# Nothing links to it, and it takes nothing from the program, so it holds its own copy of a few files.
#
#   LINNET_CUDA=AUTO  built when a CUDA compiler is there and no sanitizer is asked for
#   LINNET_CUDA=ON    an error without a CUDA compiler        LINNET_CUDA=OFF  never

set(LINNET_CUDA AUTO CACHE STRING "Build the CUDA back end: AUTO, ON or OFF")
set_property(CACHE LINNET_CUDA PROPERTY STRINGS AUTO ON OFF)

# Shared files that a back end needs.
set(linnet_plugin_sources
  ${CMAKE_SOURCE_DIR}/common/status.c ${CMAKE_SOURCE_DIR}/kernels/objects.c ${CMAKE_SOURCE_DIR}/kernels/step.c
  ${CMAKE_SOURCE_DIR}/kernels/op.c ${CMAKE_SOURCE_DIR}/kernels/formats.c)
file(GLOB linnet_cuda_host CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.c
  ${CMAKE_SOURCE_DIR}/kernels/ops/*/op.c ${CMAKE_SOURCE_DIR}/kernels/ops/*/cuda*.c)
file(GLOB linnet_cuda_device CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu
  ${CMAKE_SOURCE_DIR}/kernels/ops/*/cuda*.cu)

# linnet_plugin(TARGET OBJECTS INCLUDES...): the library of the objects OBJECTS (its device code) and
# the host's part; also for the twin without a GPU (tests/CMakeLists.txt).
function(linnet_plugin target device)
  add_library(${target}_host OBJECT ${linnet_cuda_host} ${linnet_plugin_sources})
  target_include_directories(${target}_host SYSTEM BEFORE PRIVATE ${ARGN})
  target_link_libraries(${target}_host PRIVATE flags)
  add_library(${target} MODULE $<TARGET_OBJECTS:${device}> $<TARGET_OBJECTS:${target}_host>)
  target_link_libraries(${target} PRIVATE Threads::Threads m)
  target_link_options(${target} PRIVATE LINKER:-z,relro,-z,now)
  if(LINNET_SANITIZE) # whose functions are in the program
    target_link_options(${target} PRIVATE -fsanitize=${LINNET_SANITIZE})
  else()
    target_link_options(${target} PRIVATE LINKER:--no-undefined)
  endif()
  set_target_properties(${device} ${target}_host PROPERTIES LINNET_PLUGIN ON
    POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
    CUDA_VISIBILITY_PRESET hidden)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME kernels_cuda INSTALL_RPATH "$ORIGIN")
endfunction()

if(LINNET_CUDA STREQUAL "OFF")
  return()
endif()
if(LINNET_CUDA STREQUAL "AUTO" AND LINNET_SANITIZE)
  message(STATUS "The cuda back end is not built: its kernels cannot be sanitized; tests/simt can")
  return()
endif()
if(CMAKE_CROSSCOMPILING)
  if(LINNET_CUDA STREQUAL "ON")
    message(FATAL_ERROR "LINNET_CUDA is ON: the cuda back end is built on a machine of the processor it is for")
  endif()
  message(STATUS "The cuda back end is not built: nvcc is for the processor of this machine")
  return()
endif()
find_program(LINNET_NVCC nvcc HINTS ${CUDAToolkit_ROOT}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
if(LINNET_NVCC)
  set(CMAKE_CUDA_COMPILER ${LINNET_NVCC})
elseif(LINNET_CUDA STREQUAL "ON")
  message(FATAL_ERROR "LINNET_CUDA is ON, and there is no nvcc")
else()
  message(STATUS "The cuda back end is not built: no nvcc")
  return()
endif()

# Machine code for these, and PTX of the last for what comes after. An nvcc before 12.8 refuses 100.
execute_process(COMMAND ${LINNET_NVCC} --list-gpu-arch OUTPUT_VARIABLE linnet_known ERROR_QUIET)
set(linnet_architectures 80-real 90)
if(linnet_known MATCHES "compute_100")
  set(linnet_architectures 80-real 90-real 100)
endif()
set(LINNET_CUDA_ARCHITECTURES ${linnet_architectures} CACHE STRING "GPU architectures")
set(CMAKE_CUDA_ARCHITECTURES ${LINNET_CUDA_ARCHITECTURES})
enable_language(CUDA)
# Debian 12's CMake (3.25.1) sets a property of this target without looking whether it is there; CUDA 13 has
# no such library. Nothing uses it.
if(CMAKE_VERSION VERSION_LESS 3.26 AND NOT TARGET CUDA::nvToolsExt)
  add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
endif()
find_package(CUDAToolkit REQUIRED)
add_library(kernels_cuda_device OBJECT ${linnet_cuda_device})
target_include_directories(kernels_cuda_device PRIVATE ${CMAKE_SOURCE_DIR})
set_target_properties(kernels_cuda_device PROPERTIES CUDA_STANDARD 17)
# -fmad=false: a fused multiply-add is written as one, as everywhere.
target_compile_options(kernels_cuda_device PRIVATE -fmad=false -Xcompiler=-Wall,-Wextra,-Wshadow)
if(LINNET_WERROR)
  target_compile_options(kernels_cuda_device PRIVATE -Werror=all-warnings -Xcompiler=-Werror)
endif()
linnet_plugin(kernels_cuda kernels_cuda_device ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(kernels_cuda PRIVATE CUDA::cudart_static CUDA::cublasLt)
# The loader finds CUDA's own libraries next to this one or in the toolkit.
set_target_properties(kernels_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  INSTALL_RPATH "$ORIGIN;${CUDAToolkit_LIBRARY_DIR}")
install(TARGETS kernels_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

# Further measurements of tests/gpu.sh.
if(LINNET_TESTS)
  add_executable(gpu_copy tests/bench/gpu_copy.c)
  target_include_directories(gpu_copy SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(gpu_copy PRIVATE flags CUDA::cudart_static)
endif()
