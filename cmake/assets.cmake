# Compiles the files of a folder into a library: lx_asset_find() of server/routes/assets.h.
# The assembler includes the bytes (.incbin), so no tool is needed to turn them into C. Texts are there twice, plain and
# packed by gzip.

# Strips pages, scripts and styles of indentation and of comments that begin a line, so that visitors load less.
function(linnet_strip_comments file out)
  file(READ ${file} text)
  string(REGEX REPLACE "\n */\\*([^*]|\\*+[^*/])*\\*+/" "" text "\n${text}")
  string(REGEX REPLACE "\n[ \n]+" "\n" text "${text}")
  file(WRITE ${out} "${text}")
endfunction()

function(linnet_embed_assets target folder)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js ${folder}/*.svg
       ${folder}/*.json ${folder}/*.png)
  set(assembly "${CMAKE_BINARY_DIR}/assets_data.S")
  set(source "${CMAKE_BINARY_DIR}/assets.c")
  set(data ".section .rodata\n")
  set(declarations "")
  set(entries "")
  set(index 0)
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME)
    get_filename_component(extension ${file} LAST_EXT)
    set(stripped OFF)
    if(extension STREQUAL ".html")
      set(type "text/html; charset=utf-8")
      set(stripped ON)
      if(NOT name STREQUAL "index.html") # the template of "/"; another page has a path without an ending
        get_filename_component(name ${file} NAME_WE)
      endif()
    elseif(extension STREQUAL ".css")
      set(type "text/css; charset=utf-8")
      set(stripped ON)
    elseif(extension STREQUAL ".json")
      set(type "application/json")
    elseif(extension STREQUAL ".js")
      set(type "text/javascript; charset=utf-8")
      set(stripped ON)
    elseif(extension STREQUAL ".png")
      set(type "image/png")
    else()
      set(type "image/svg+xml")
    endif()
    if(stripped)
      linnet_strip_comments(${file} ${CMAKE_BINARY_DIR}/web/${name})
      set(file ${CMAKE_BINARY_DIR}/web/${name})
    endif()
    list(APPEND included ${file})
    set(packed "NULL")
    if(NOT extension STREQUAL ".png" AND NOT name STREQUAL "index.html")
      set(gz ${CMAKE_BINARY_DIR}/web/${index}.gz)
      file(ARCHIVE_CREATE OUTPUT ${gz} PATHS ${file} FORMAT raw COMPRESSION GZip)
      set(packed "packed_${index}")
      # The header of ten bytes has the time, and equal sources shall give equal programs.
      string(APPEND data ".global packed_${index}\n.global packed_${index}_end\n"
                         "packed_${index}:\n.byte 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255\n"
                         ".incbin \"${gz}\", 10\npacked_${index}_end:\n.byte 0\n")
      string(APPEND declarations
             "extern const unsigned char packed_${index}[], packed_${index}_end[];\n")
      string(APPEND sizes "        assets[${index}].packed_size = (size_t)(packed_${index}_end - "
                          "packed_${index});\n")
    endif()
    string(APPEND data ".global asset_${index}\n.global asset_${index}_end\n"
                       "asset_${index}:\n.incbin \"${file}\"\nasset_${index}_end:\n.byte 0\n")
    string(APPEND declarations
           "extern const unsigned char asset_${index}[], asset_${index}_end[];\n")
    string(APPEND entries "        {\"/${name}\", \"${type}\", asset_${index}, 0, ${packed}, 0},\n")
    string(APPEND sizes
           "        assets[${index}].size = (size_t)(asset_${index}_end - asset_${index});\n")
    math(EXPR index "${index} + 1")
  endforeach()
  string(APPEND data ".section .note.GNU-stack,\"\",%progbits\n")
  file(CONFIGURE OUTPUT ${assembly} CONTENT "${data}" @ONLY)
  file(CONFIGURE OUTPUT ${source} CONTENT "/* Made by cmake/assets.cmake from web/. */
#include <pthread.h>
#include <string.h>

#include \"server/routes/assets.h\"

${declarations}
enum { N_ASSETS = ${index} };
static lx_asset assets[N_ASSETS] = {
${entries}};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void set_sizes(void)
{
${sizes}}

const lx_asset *lx_asset_find(const char *path)
{
    (void)pthread_once(&once, set_sizes);
    for (int i = 0; i < N_ASSETS; i++)
        if (strcmp(assets[i].path, path) == 0)
            return &assets[i];
    return NULL;
}
" @ONLY)
  set_source_files_properties(${assembly} PROPERTIES OBJECT_DEPENDS "${included}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files}) # to strip them again
  target_sources(${target} PRIVATE ${source} ${assembly})
endfunction()
