/* What the runner alone needs of support.c. */
#ifndef LINNET_TESTS_CONFORMANCE_SUPPORT_H
#define LINNET_TESTS_CONFORMANCE_SUPPORT_H

void arena_reset(void); /* all host memory of the last test */

#endif
