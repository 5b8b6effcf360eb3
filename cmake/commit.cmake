# The commit in the program: build/commit.c with lx_commit of common/version.h, written anew when the commit is another.
# Only the program links it, or every test would be linked again after every commit. A source without its repository
# gets its commit by -DLINNET_COMMIT=c7edd00f1234.
#
# Run by itself (cmake -P) it writes the file.
cmake_policy(VERSION 3.25)
if(CMAKE_SCRIPT_MODE_FILE)
  set(commit "${LINNET_COMMIT}")
  if(commit STREQUAL "")
    execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
      OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    # Not the commit of another repository that the source happens to lie in.
    if(failed OR NOT EXISTS ${SOURCE}/.git)
      set(commit "")
    endif()
  endif()
  if(NOT commit MATCHES "^([0-9a-f]+(-dirty)?)?$")
    message(FATAL_ERROR "LINNET_COMMIT: \"${commit}\" is no commit")
  endif()
  file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "/* Made by cmake/commit.cmake. */
#include \"common/version.h\"

const char lx_commit[] = \"@commit@\";
" @ONLY)
  return()
endif()

set(LINNET_COMMIT "" CACHE STRING "The commit this source is; empty: what git says")

# linnet_add_commit(TARGET)
function(linnet_add_commit target)
  add_custom_target(commit BYPRODUCTS ${CMAKE_BINARY_DIR}/commit.c
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${CMAKE_BINARY_DIR}/commit.c
      -DLINNET_COMMIT=${LINNET_COMMIT} -P ${CMAKE_SOURCE_DIR}/cmake/commit.cmake)
  add_dependencies(${target} commit)
  target_sources(${target} PRIVATE ${CMAKE_BINARY_DIR}/commit.c)
endfunction()
