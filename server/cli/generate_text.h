/* What linnet generate does for a model of text: the prompt, and the answers as lines, as a stream
 * or as JSON. */
#ifndef LINNET_SERVER_CLI_GENERATE_TEXT_H
#define LINNET_SERVER_CLI_GENERATE_TEXT_H

#include <semaphore.h>
#include <stdio.h>

#include "server/engine/job.h"

enum { LX_GENERATE_PROMPT_BYTES = 64 << 20 };

/* The prompt that an argument says: itself, or, with dash_reads for "-", standard input without its
   last newline. Into an empty buffer, with a NUL behind it. LX_ERR_INVALID for too long a one. */
lx_status lx_generate_read_prompt(const char *given, bool dash_reads, lx_buffer *out,
                                  lx_error *err) LX_MUST_USE;

/* Appends the answer of sample i, as far as its stop strings go. After the job has finished. */
void lx_generate_answer(const lx_job *job, int32_t i, lx_buffer *out);

/* Prints the finished job's answers, best first, a line each. */
lx_status lx_generate_print(const lx_job *job, bool scores, lx_error *err) LX_MUST_USE;

/* The same as one object. */
lx_status lx_generate_print_json(const lx_job *job, lx_error *err) LX_MUST_USE;

/* Prints the one answer of a job to a terminal while it is made, until the job is finished. The
   job's wake is lx_generate_wake, with `more`. SIGINT ends the answer with LX_ERR_CANCELLED where
   `interruptible` says so. */
lx_status lx_generate_stream(lx_job *job, sem_t *more, bool scores, bool interruptible,
                             lx_error *err) LX_MUST_USE;
void lx_generate_wake(void *more);

#endif
