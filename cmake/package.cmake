# The Debian package: scripts/package builds it, with -DLINNET_PACKAGE=ON, for the prefix /usr. Two builds of one source
# are the same file: paths are not in the program, times are those of SOURCE_DATE_EPOCH (cmake/package_files.cmake).
set(LINNET_MAINTAINER "Linnet contributors <maintainers@linnet.example.org>" CACHE STRING "Who is asked about the package")

set(debian ${CMAKE_SOURCE_DIR}/deploy/debian)
install(FILES ${debian}/linnet.conf DESTINATION /etc/linnet)
install(FILES ${debian}/linnet.service DESTINATION /usr/lib/systemd/system)
install(FILES ${debian}/copyright docs/operations.md docs/http-api.md docs/weights-format.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The files of deploy/ that the operations manual names and that no installation makes; lines of comments say their use.
install(FILES deploy/haproxy.cfg deploy/alertmanager.yml DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(DIRECTORY deploy/prometheus deploy/grafana DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples PATTERN kustomization.yaml EXCLUDE)
install(FILES ${debian}/linnet.lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME linnet)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME linnet)
set(CPACK_PACKAGE_VENDOR Linnet)
set(CPACK_PACKAGE_CONTACT ${LINNET_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "inference server for linear transformers")
set(CPACK_PACKAGE_DESCRIPTION
"Linnet serves linear transformers and the recurrent models that grew out of
them over HTTP, with the API that clients of OpenAI's know. The memory of a
request has one size however long it runs; the same request gets the same
bytes under any load; a request's state can be kept, copied and moved.
Trained models come with it: they answer the upper line of a Chinese couplet
with a lower line, paint handwritten digits pixel by pixel, write poems, and
write down spoken digits.")
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE ${LINNET_ARCH})
set(CPACK_DEBIAN_PACKAGE_SECTION httpd)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)
# For the pictures of links (--font): small, and it has every character that the models write.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "fonts-wqy-microhei | fonts-noto-cjk | fonts-arphic-ukai")
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip) # weights hardly shrink: xz saves an eighth and takes ten times as long
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
file(WRITE ${CMAKE_BINARY_DIR}/conffiles "/etc/linnet/linnet.conf\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${debian}/postinst ${debian}/prerm ${debian}/postrm ${CMAKE_BINARY_DIR}/conffiles)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/package_files.cmake)
include(CPack)
