/*
 * Judges a finished pair of lines by the couplet's rules, from the code points alone. It shares no
 * logic with the sampler's constraints (couplet.c), so that each can show a fault in the other.
 */
#include "model/tasks/couplet.h"
#include "model/tasks/couplet_chars.h"

enum { UNKNOWN = 0xfffd };

/* A character that the rules of repetition and sharing speak of. */
static bool is_word(uint32_t c)
{
    return c != UNKNOWN && !lx_couplet_is_punctuation(c);
}

static bool has_unknown(const uint32_t *line, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (line[i] == UNKNOWN)
            return true;
    }
    return false;
}

/* A mark in one line must stand in the other at the same place. */
static bool punctuation_differs(const uint32_t *upper, int32_t n_upper, const uint32_t *lower,
                                int32_t n_lower)
{
    int32_t longer = n_upper > n_lower ? n_upper : n_lower;
    for (int32_t i = 0; i < longer; i++) {
        uint32_t u = i < n_upper && lx_couplet_is_punctuation(upper[i]) ? upper[i] : 0;
        uint32_t l = i < n_lower && lx_couplet_is_punctuation(lower[i]) ? lower[i] : 0;
        if (u != l)
            return true;
    }
    return false;
}

/* Two places hold the same character in one line exactly when they do in the other. */
static bool repetition_differs(const uint32_t *upper, const uint32_t *lower, int32_t n)
{
    for (int32_t j = 1; j < n; j++) {
        for (int32_t i = 0; i < j; i++) {
            bool words =
                is_word(upper[i]) && is_word(upper[j]) && is_word(lower[i]) && is_word(lower[j]);
            if (words && (upper[i] == upper[j]) != (lower[i] == lower[j]))
                return true;
        }
    }
    return false;
}

static bool shares_a_word(const uint32_t *upper, int32_t n_upper, const uint32_t *lower,
                          int32_t n_lower)
{
    for (int32_t j = 0; j < n_lower; j++) {
        for (int32_t i = 0; i < n_upper; i++) {
            if (is_word(lower[j]) && lower[j] == upper[i])
                return true;
        }
    }
    return false;
}

unsigned lx_couplet_check(const uint32_t *upper, int32_t n_upper, const uint32_t *lower,
                          int32_t n_lower)
{
    unsigned broken = 0;
    if (n_upper != n_lower)
        broken |= LX_COUPLET_LENGTH;
    if (punctuation_differs(upper, n_upper, lower, n_lower))
        broken |= LX_COUPLET_PUNCTUATION;
    if (repetition_differs(upper, lower, n_upper < n_lower ? n_upper : n_lower))
        broken |= LX_COUPLET_REPETITION;
    if (shares_a_word(upper, n_upper, lower, n_lower))
        broken |= LX_COUPLET_SHARED;
    if (has_unknown(lower, n_lower))
        broken |= LX_COUPLET_UNKNOWN;
    return broken;
}

const char *lx_couplet_rule_name(int32_t bit_index)
{
    static const char *const names[LX_COUPLET_N_RULES] = {"length", "punctuation", "repetition",
                                                          "shared", "unknown"};
    return bit_index >= 0 && bit_index < LX_COUPLET_N_RULES ? names[bit_index] : "";
}
