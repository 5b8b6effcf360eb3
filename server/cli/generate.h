/*
 * The code that linnet generate and linnet chat share. Options of sampling and of an answer's end
 * have the names of the API's fields. Further parts: an engine for one user; the prompt; answers as
 * lines, as a stream or as JSON.
 */
#ifndef LINNET_SERVER_CLI_GENERATE_H
#define LINNET_SERVER_CLI_GENERATE_H

#include <semaphore.h>

#include "server/cli/cli.h"
#include "server/engine/engine.h"

/* Rows of the engine's steps, for lx_cli_open; bytes of a prompt. */
enum { LX_GENERATE_ROWS = 128, LX_GENERATE_PROMPT_BYTES = 64 << 20 };

typedef struct lx_generate_sampling {
    const char *stop; /* NULL: none */
    int64_t seed, top_k, max_tokens;
    double temperature; /* NAN: the task's own */
    double top_p, min_p, typical_p;
    double frequency_penalty, presence_penalty, repetition_penalty;
} lx_generate_sampling;

/* Rows for a struct whose member `sampling` is an lx_generate_sampling. `usual` says in words which
   temperature is taken without --temperature. */
#define LX_GENERATE_SAMPLING_OPTIONS(usual)                                                        \
    LX_INT("seed", sampling.seed, "-1", -1, LX_MAX_SEED, "N",                                      \
           "The random numbers have this seed; -1 chooses a new one each time.", .letter = 's'),   \
        LX_REAL("temperature", sampling.temperature, NULL, 0, 10, "T",                             \
                "Tokens are sampled with this temperature; 0 always takes the likeliest "          \
                "token. " usual),                                                                  \
        LX_INT("top-k", sampling.top_k, "0", 0, 1000000, "K",                                      \
               "Only the K likeliest tokens are sampled; 0 samples all."),                         \
        LX_REAL("top-p", sampling.top_p, "1", 1e-6, 1, "P",                                        \
                "Only the likeliest tokens that together have this probability are sampled."),     \
        LX_REAL("min-p", sampling.min_p, "0", 0, 1, "P",                                           \
                "A token needs this share of the likeliest token's probability."),                 \
        LX_REAL("typical-p", sampling.typical_p, "1", 1e-6, 1, "P",                                \
                "Of the top-k tokens, only the most typical ones that together have this share "   \
                "are sampled."),                                                                   \
        LX_REAL("frequency-penalty", sampling.frequency_penalty, "0", -2, 2, "X",                  \
                "Each occurrence of a token in the answer lowers the token's logit by X."),        \
        LX_REAL("presence-penalty", sampling.presence_penalty, "0", -2, 2, "X",                    \
                "The logit of every token that the answer contains is lowered by X."),             \
        LX_REAL("repetition-penalty", sampling.repetition_penalty, "1", 0.01, 10, "X",             \
                "For tokens of the answer, and of a prompt of text, positive logits are divided "  \
                "by X and negative ones multiplied by it."),                                       \
        LX_INT("max-tokens", sampling.max_tokens, "0", 0, 1000000, "N",                            \
               "An answer ends after N tokens; 0 writes the whole answer."),                       \
        LX_STRING("stop", sampling.stop, NULL, "TEXT", "The answer ends before this text.")

/* Adds --stop to the strings that are there. LX_ERR_INVALID for an empty string, a too long one, or
   one too many. */
lx_status lx_generate_add_stop(const lx_generate_sampling *o, lx_stops *stops,
                               lx_error *err) LX_MUST_USE;

/* The first of these options that was given and fits only models of text, "--stop"; NULL: none. */
const char *lx_generate_text_only(const lx_generate_sampling *o);

/* An engine for one user, one at a time in a program; lx_engine_stop ends it. A job has at most n
   samples. draft: the value of --draft. goes_on: prompts begin with the turns before. */
lx_status lx_generate_start(lx_transformer *t, int32_t n, int64_t draft, bool goes_on,
                            lx_engine **out, lx_error *err) LX_MUST_USE;

/* A job of n samples, which takes the plan. `usual`: the temperature unless one was given. `more`
   is posted with every token; NULL: the answers are read at the end. */
lx_status lx_generate_new_job(const lx_generate_sampling *o, lx_plan *plan, int32_t n, double usual,
                              const lx_stops *stops, sem_t *more, lx_job **out,
                              lx_error *err) LX_MUST_USE;
void lx_generate_wake(void *more);

/* Submits the job and returns at its end, with its status. `more`, if the job has one: prints the
   answer meanwhile, as lx_generate_stream. */
lx_status lx_generate_run(lx_engine *engine, lx_job *job, sem_t *more, bool scores,
                          bool interruptible, lx_error *err) LX_MUST_USE;

/* The prompt of an argument: itself, or, with dash_reads for "-", standard input without its last
   newline. It goes into an empty buffer and ends with a NUL. LX_ERR_INVALID for too long a prompt.
 */
lx_status lx_generate_read_prompt(const char *given, bool dash_reads, lx_buffer *out,
                                  lx_error *err) LX_MUST_USE;

/* Appends the answer of sample i up to its stop string. After the job has finished. */
void lx_generate_answer(const lx_job *job, int32_t i, lx_buffer *out);

/* Prints the finished job's answers, best first, a line each. */
lx_status lx_generate_print(const lx_job *job, bool scores, lx_error *err) LX_MUST_USE;

/* Prints them as one JSON object. */
lx_status lx_generate_print_json(const lx_job *job, lx_error *err) LX_MUST_USE;

/* Prints the one answer of a job to a terminal while it is made, until the job is finished. The
   job's wake is lx_generate_wake, with `more`. With `interruptible`, SIGINT ends the answer with
   LX_ERR_CANCELLED. */
lx_status lx_generate_stream(lx_job *job, sem_t *more, bool scores, bool interruptible,
                             lx_error *err) LX_MUST_USE;

#endif
