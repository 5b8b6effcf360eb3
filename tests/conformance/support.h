/* Functions of support.c that only the runner needs. */
#ifndef LINNET_TESTS_CONFORMANCE_SUPPORT_H
#define LINNET_TESTS_CONFORMANCE_SUPPORT_H

void arena_reset(void); /* all host memory of the last test */

#endif
