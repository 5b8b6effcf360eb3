# What `cmake --install` puts where: the program, the models where it looks for them (server/cli/places.c), the
# manual, completions, the licence.
# The cuda back end, where it is built, is installed by cmake/cuda.cmake.
install(TARGETS linnet)
foreach(model couplet mnist poem digits-spoken strip race-linear race-softmax)
  install(DIRECTORY weights/${model} DESTINATION ${CMAKE_INSTALL_DATADIR}/linnet/models
    FILES_MATCHING PATTERN config.json PATTERN model.safetensors PATTERN vocab.txt PATTERN tokenizer.json PATTERN rhymes.txt
      PATTERN generation_config.json PATTERN README.md)
endforeach()
install(FILES LICENSE LICENSE.Apache-2.0 LICENSE.Unicode CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(DIRECTORY ${CMAKE_BINARY_DIR}/manual/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} FILES_MATCHING PATTERN "*.1")
install(FILES ${CMAKE_BINARY_DIR}/manual/linnet.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME linnet)
if(LINNET_PACKAGE) # as Debian's policy has it
  set(zsh zsh/vendor-completions)
else()
  set(zsh zsh/site-functions)
endif()
install(FILES ${CMAKE_BINARY_DIR}/manual/_linnet DESTINATION ${CMAKE_INSTALL_DATADIR}/${zsh})
