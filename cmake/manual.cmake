# The manual pages and the completions of bash and zsh (build/manual). The program prints them from its tables of
# options whenever it is linked, so they are never older than the program, and the source has none.
#
# Run by itself (cmake -P) it writes them.
if(CMAKE_SCRIPT_MODE_FILE)
  # said(FILE ARGUMENTS...): standard output of the program
  function(said file)
    execute_process(COMMAND ${EMULATOR} ${LINNET} ${ARGN} OUTPUT_FILE ${OUTPUT}/${file} COMMAND_ERROR_IS_FATAL ANY)
  endfunction()
  file(REMOVE_RECURSE ${OUTPUT})
  file(MAKE_DIRECTORY ${OUTPUT}/man1)
  said(man1/linnet.1 --help=man)
  said(linnet.bash --help=bash)
  said(_linnet --help=zsh)
  file(STRINGS ${OUTPUT}/man1/linnet.1 commands REGEX "^\\.BR linnet.*-[a-z]+ \\(1\\)$") # those of the section COMMANDS
  list(TRANSFORM commands REPLACE ".*-([a-z]+) .*" "\\1")
  list(REMOVE_DUPLICATES commands)
  foreach(command IN LISTS commands)
    said(man1/linnet-${command}.1 ${command} --help=man)
  endforeach()
  return()
endif()

# linnet_add_manual(TARGET)
function(linnet_add_manual target)
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM
    COMMAND ${CMAKE_COMMAND} -DLINNET=$<TARGET_FILE:${target}> "-DEMULATOR=${CMAKE_CROSSCOMPILING_EMULATOR}"
      -DOUTPUT=${CMAKE_BINARY_DIR}/manual -P ${CMAKE_SOURCE_DIR}/cmake/manual.cmake)
endfunction()
