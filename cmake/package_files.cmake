# Run by CPack on the files that become the package: what Debian's policy wants of documents, and one time for all.
set(docs ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share/doc/linnet)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # of SOURCE_DATE_EPOCH where it is set
file(WRITE ${docs}/changelog "linnet (${CPACK_PACKAGE_VERSION}) stable; urgency=medium

  * CHANGELOG.md.gz in this folder lists the changes of this version.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
file(REMOVE ${docs}/LICENSE ${docs}/LICENSE.Apache-2.0 ${docs}/LICENSE.Unicode) # the text is in copyright
file(GLOB pages ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share/man/man1/*.1)
execute_process(COMMAND gzip -9n ${docs}/changelog ${docs}/CHANGELOG.md ${pages} COMMAND_ERROR_IS_FATAL ANY)
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(COMMAND find ${CPACK_TEMPORARY_INSTALL_DIRECTORY} -exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +
    COMMAND_ERROR_IS_FATAL ANY)
endif()
