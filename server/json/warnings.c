/*
 * Warnings (see parts.h). Fields that other servers know and that would change an answer are
 * ignored, as clients send them to every server alike; but the answer says so.
 */
#include <stdio.h>

#include "server/json/fields.h"
#include "server/json/parts.h"

static const char *const known[] = {
    "repeat_penalty",
    "repeat_last_n",
    "typ_p",
    "tfs_z",
    "top_a",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "xtc_probability",
    "xtc_threshold",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dynatemp_range",
    "dynatemp_exponent",
    "samplers",
    "grammar",
    "json_schema",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "structured_outputs",
    "n_predict",
    "n_keep",
    "n_probs",
    "max_new_tokens",
    "min_tokens",
    "stop_token_ids",
    "bad_words",
    "length_penalty",
    "use_beam_search",
    "early_stopping",
    "prompt_logprobs",
    "truncate_prompt_tokens",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "modalities",
    "audio",
    "prediction",
    "reasoning_effort",
    "verbosity",
    "web_search_options",
    "metadata",
    "reasoning",
    "parallel_tool_calls",
    "max_tool_calls",
    "service_tier",
};

enum { N_KNOWN = sizeof known / sizeof *known, MOST_TEXT = 96 };
_Static_assert(N_KNOWN <= 64, "a bit for each");

uint64_t lx_json_note_ignored(const json_t *root)
{
    uint64_t found = 0;
    for (int i = 0; i < N_KNOWN; i++)
        found |= (uint64_t)(lx_json_field(root, known[i]) != NULL) << i;
    return found;
}

json_t *lx_json_make_notes(const lx_json_notes *notes)
{
    lx_json_warning list[N_KNOWN + 2];
    char texts[N_KNOWN + 2][MOST_TEXT]; /* 5 KB */
    int32_t n = 0;
    for (int i = 0; i < N_KNOWN; i++) {
        if ((notes->ignored >> i & 1) == 0)
            continue;
        (void)snprintf(texts[n], MOST_TEXT, "%s changes nothing here", known[i]);
        list[n] = (lx_json_warning){known[i], texts[n]};
        n++;
    }
    if (notes->unknown > 0) {
        (void)snprintf(texts[n], MOST_TEXT,
                       "characters that are not in the vocabulary, read as <unk>: %lld",
                       (long long)notes->unknown);
        list[n] = (lx_json_warning){"prompt", texts[n]};
        n++;
    }
    if (notes->simplified > 0) {
        (void)snprintf(texts[n], MOST_TEXT, "characters read as their simplified forms: %lld",
                       (long long)notes->simplified);
        list[n] = (lx_json_warning){"prompt", texts[n]};
        n++;
    }
    return lx_json_make_warnings(list, n);
}
