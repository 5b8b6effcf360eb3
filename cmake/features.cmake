# Features that a build may leave out, with the libraries that only they need. A feature is whole files. Where it is left out,
# the files after INSTEAD take their place; each of these refuses the feature in one error. TESTS need the feature.

set(linnet_left_out "")       # names of options that are off
set(linnet_files_left_out "") # relative to the source
set(linnet_tests_left_out "") # names of unit tests

# linnet_feature(OPTION TITLE FILES... INSTEAD... TESTS... LIBRARIES pkg-config's modules...)
# Sets ${OPTION}_LIBRARIES for target_link_libraries; empty where the feature is left out. Only FILES see the libraries' headers, so
# that every other file is compiled as in a build without the feature.
macro(linnet_feature option title)
  cmake_parse_arguments(feature "" "" "FILES;INSTEAD;TESTS;LIBRARIES" ${ARGN})
  option(${option} "${title}" ON)
  set(${option}_LIBRARIES "")
  if(NOT LINNET_SERVER)
  elseif(${option})
    list(APPEND linnet_files_left_out ${feature_INSTEAD})
    if(feature_LIBRARIES)
      pkg_check_modules(${option}_PACKAGES REQUIRED IMPORTED_TARGET ${feature_LIBRARIES})
      set(${option}_LIBRARIES $<LINK_ONLY:PkgConfig::${option}_PACKAGES>)
      list(TRANSFORM ${option}_PACKAGES_CFLAGS REPLACE "^-I" "-isystem")
      set_property(SOURCE ${feature_FILES} APPEND PROPERTY COMPILE_OPTIONS ${${option}_PACKAGES_CFLAGS})
    endif()
  else()
    list(APPEND linnet_files_left_out ${feature_FILES})
    list(APPEND linnet_tests_left_out ${feature_TESTS})
    list(APPEND linnet_left_out ${option})
  endif()
endmacro()

if(LINNET_SERVER)
  find_package(PkgConfig REQUIRED)
endif()

linnet_feature(LINNET_SPEECH "Models of speech: sound files in, text out"
  FILES model/ctc.c model/mel.c model/transcribe.c model/formats/flac.c model/formats/halve.c model/formats/ogg.c
    model/formats/sound.c model/formats/wav.c server/speech/hearing.c server/speech/transcriber.c
    server/api/transcriptions.c server/json/transcription_answers.c server/cli/cmd_transcribe.c server/cli/eval_speech.c
  INSTEAD model/without_speech.c server/cli/without_speech.c
  TESTS test_ctc test_encoder test_hearing test_json_transcripts test_mel test_ogg test_sound test_speech test_transcribe
    test_transcriber
  LIBRARIES sndfile>=1.1 vorbis>=1.3 ogg>=1.3 samplerate>=0.2 kissfft-float)
linnet_feature(LINNET_LINK_PICTURES "Pictures of the page's links for other sites"
  FILES model/formats/font.c server/routes/card.c server/routes/link_picture.c server/routes/link_text.c
    server/routes/painter.c
  INSTEAD server/routes/without_link_pictures.c
  TESTS test_card test_painter
  LIBRARIES freetype2>=24) # 2.12, by its own number
linnet_feature(LINNET_REDIS "A store of states in Redis"
  FILES server/states/redis.c server/states/state_redis.c
  INSTEAD server/states/without_redis.c
  TESTS test_redis test_redis_bytes test_state_redis
  LIBRARIES hiredis>=0.14)
linnet_feature(LINNET_SQLITE "A store of states in a file"
  FILES server/states/sqlite.c server/states/state_sqlite.c server/states/prefix_store.c server/cli/cmd_states.c
  INSTEAD server/states/without_sqlite.c server/cli/without_sqlite.c
  TESTS test_prefix_store test_state_sqlite
  LIBRARIES sqlite3>=3.37)
linnet_feature(LINNET_TLS "HTTPS, for the server and for linnet health"
  FILES server/auth/digest.c server/cli/probe_tls.c server/http/tls.c
  INSTEAD server/auth/sha256.c server/cli/probe_without_tls.c server/http/without_tls.c
  LIBRARIES gnutls>=3.6)
linnet_feature(LINNET_LINE_EDITOR "Lines that can be edited in linnet chat and linnet generate"
  FILES server/cli/line_editor.c
  INSTEAD server/cli/without_line_editor.c
  LIBRARIES libedit>=3.1)
linnet_feature(LINNET_UNICODE "Tokenizers that need Unicode's normal forms or classes of characters"
  FILES model/tokenizers/unicode.c
  INSTEAD model/tokenizers/without_unicode.c
  TESTS test_tokenizers)
if(LINNET_SERVER AND LINNET_UNICODE)
  find_library(UNISTRING unistring REQUIRED) # has no .pc file
  set(LINNET_UNICODE_LIBRARIES ${UNISTRING})
endif()

list(TRANSFORM linnet_files_left_out PREPEND ${CMAKE_SOURCE_DIR}/)
list(JOIN linnet_left_out ", " names)
set_source_files_properties(common/features.c PROPERTIES COMPILE_DEFINITIONS "LX_LEFT_OUT=\"${names}\"")
if(linnet_left_out)
  message(STATUS "Left out: ${names}")
endif()
