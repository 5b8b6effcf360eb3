# What `cmake --install` puts where: the program, the models where it looks for them (server/cli/places.h), the licence.
# The cuda back end, where it is built, is installed by cmake/cuda.cmake.
install(TARGETS linnet)
foreach(model couplet mnist)
  install(DIRECTORY weights/${model} DESTINATION ${CMAKE_INSTALL_DATADIR}/linnet/models
    FILES_MATCHING PATTERN config.json PATTERN model.safetensors PATTERN vocab.txt PATTERN README.md)
endforeach()
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
