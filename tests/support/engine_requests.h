/*
 * Requests of many kinds to an engine on a tiny model (rig.h), for tests of conditions that must
 * change no byte of an answer. There are lines with and without rules, stop strings, likeliest ids
 * and scores, several samples, cuts and states; and pictures from nothing and from given values, at
 * two temperatures.
 */
#ifndef LINNET_TESTS_SUPPORT_ENGINE_REQUESTS_H
#define LINNET_TESTS_SUPPORT_ENGINE_REQUESTS_H

#include "tests/support/rig.h"

/* A sanitizer finds nothing in `reference` that it has not found in `cpu`: both run one engine.
 */
#if defined(LX_SANITIZE_THREAD) || defined(LX_SANITIZE_ADDRESS)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

extern const char *const request_lines[5];
extern const lx_stops request_stops;

/* Request i of rig_model(). */
rig_request line_request(int32_t i);
/* Request i of a model of tiny_model_image. */
rig_request picture_request(const lx_model *pictures, int32_t i);

/* Tokens, log-probabilities, likeliest ids and states of finished jobs are the same bytes. */
void assert_same_answer(const lx_job *got, const lx_job *want);
/* The answer of a job that was cancelled or suspended must be the beginning of the whole answer. */
void assert_answer_begins(const lx_job *part, const lx_job *whole);

#endif
