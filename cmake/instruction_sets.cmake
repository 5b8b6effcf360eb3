# Which instruction sets of kernels/cpu a build holds.
#   LINNET_INSTRUCTION_SETS=all     every one of this architecture. Packages, images and tests hold all.
#   LINNET_INSTRUCTION_SETS=native  only the sets for this machine's processor, one per precision and those whose loops they
#                                   share, in a third of the compiler's time. The first build of scripts/serve is one; it is
#                                   for this machine only.
set(LINNET_INSTRUCTION_SETS all CACHE STRING "Instruction sets of the cpu back end: all, or native, those of this machine")
set_property(CACHE LINNET_INSTRUCTION_SETS PROPERTY STRINGS all native)

# linnet_choose_instruction_sets(TARGET): leaves out of the target what kernels/cpu/choose.c would not choose here: sets, and
# of a set that it would choose for f32 alone the products of weights that are whole numbers. That file decides when the
# program starts, so it is asked, with tables that have only a name.
function(linnet_choose_instruction_sets target)
  if(LINNET_INSTRUCTION_SETS STREQUAL "all")
    return()
  elseif(NOT LINNET_INSTRUCTION_SETS STREQUAL "native")
    message(FATAL_ERROR "LINNET_INSTRUCTION_SETS is \"${LINNET_INSTRUCTION_SETS}\"; it can be all or native")
  elseif(CMAKE_CROSSCOMPILING)
    message(FATAL_ERROR "LINNET_INSTRUCTION_SETS is native, but the program is built for another machine")
  endif()
  file(GLOB files RELATIVE ${CMAKE_SOURCE_DIR}/kernels/cpu ${CMAKE_SOURCE_DIR}/kernels/cpu/isa_*.c)
  list(TRANSFORM files REPLACE "isa_(.*)\\.c" "\\1" OUTPUT_VARIABLE names)
  list(JOIN names ", lx_cpu_" declared)
  set(tables "extern const lx_cpu_isa lx_cpu_${declared};\n")
  foreach(name IN LISTS names)
    # A set that has products only needs the table with the rest.
    file(STRINGS ${CMAKE_SOURCE_DIR}/kernels/cpu/isa_${name}.c others REGEX "^#define BODY_OTHERS ")
    string(REGEX REPLACE "^#define BODY_OTHERS (.*)" ".others = &\\1" others "${others}")
    string(APPEND tables "const lx_cpu_isa lx_cpu_${name} = {.name = \"${name}\", ${others}};\n")
  endforeach()
  set(program ${CMAKE_BINARY_DIR}/chosen)
  file(WRITE ${program}.c "#include <stdio.h>
#include \"kernels/cpu/choose.c\"
${tables}
int main(void)
{
    lx_cpu_isa isa;
    lx_backend_options options = {.n_threads = 1};
    const char *of_f32 = \"\", *floats_only = \"\";
    for (options.precision = LX_PRECISION_F32; options.precision <= LX_PRECISION_INT4; options.precision++) {
        if (lx_cpu_choose(&options, &isa, NULL) != LX_OK)
            continue;
        for (const lx_cpu_isa *table = &isa; table != NULL; table = table->others)
            (void)printf(\"%s;\", table->name);
        if (options.precision == LX_PRECISION_F32)
            of_f32 = floats_only = isa.name;
        else if (isa.name == of_f32)
            floats_only = \"\";
    }
    (void)printf(\"floats:%s\", floats_only);
    return 0;
}
")
  execute_process(COMMAND ${CMAKE_C_COMPILER} -std=gnu17 -D_GNU_SOURCE -I${CMAKE_SOURCE_DIR} -o ${program} ${program}.c
    ${CMAKE_SOURCE_DIR}/common/status.c COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${program} OUTPUT_VARIABLE chosen COMMAND_ERROR_IS_FATAL ANY)
  list(REMOVE_DUPLICATES chosen)
  string(REGEX REPLACE ".*floats:" "" floats_only "${chosen}")
  list(FILTER chosen EXCLUDE REGEX "^floats:")
  string(REPLACE ";" " " text "${chosen}")
  message(STATUS "Instruction sets: ${text} (LINNET_INSTRUCTION_SETS=native)")
  get_target_property(sources ${target} SOURCES)
  foreach(name IN LISTS names)
    if(NOT name IN_LIST chosen)
      list(REMOVE_ITEM sources ${CMAKE_SOURCE_DIR}/kernels/cpu/isa_${name}.c)
      set_property(SOURCE kernels/cpu/choose.c APPEND PROPERTY COMPILE_DEFINITIONS lx_cpu_${name}=lx_cpu_left_out)
    elseif(name STREQUAL floats_only)
      set_property(SOURCE kernels/cpu/isa_${name}.c APPEND PROPERTY COMPILE_DEFINITIONS BODY_FLOATS_ONLY=1)
    endif()
  endforeach()
  set_property(TARGET ${target} PROPERTY SOURCES ${sources})
endfunction()
