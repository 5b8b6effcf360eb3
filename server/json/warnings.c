/*
 * Warnings (see parts.h). Fields that other servers know and that would change an answer are
 * ignored, as clients send them to every server alike; but the answer says so. It does, too, of a
 * name that is nearly that of a field here: a letter missing, too many, another or swapped.
 */
#include <stdio.h>
#include <string.h>

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

/* What a request for text may have; a test compares it with the specification. Behind it what
   OpenAI's clients may send to any server and what changes no answer anywhere. */
static const char *const fields[] = {
    "acrostic",
    "best_of",
    "draft",
    "echo",
    "form",
    "format",
    "frequency_penalty",
    "ignore_eos",
    "include",
    "input",
    "instructions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "messages",
    "min_p",
    "model",
    "n",
    "normalize",
    "park",
    "presence_penalty",
    "prompt",
    "repetition_penalty",
    "response_format",
    "return_state",
    "rhyme",
    "rules",
    "seed",
    "state",
    "stop",
    "stream",
    "stream_options",
    "suffix",
    "suspend",
    "temperature",
    "text",
    "timeout_ms",
    "top_k",
    "top_logprobs",
    "top_p",
    "truncation",
    "typical_p",
    "user",
    "store",
    "background",
    "conversation",
    "cache_prompt",
    "safety_identifier",
    "prompt_cache_key",
};

/* The same of a request for images. */
static const char *const image_fields[] = {
    "class",
    "contact_sheet",
    "draft",
    "image",
    "images",
    "mask",
    "max_tokens",
    "model",
    "n",
    "output_format",
    "park",
    "partial_images",
    "prompt",
    "response_format",
    "return_state",
    "seed",
    "size",
    "state",
    "stream",
    "stream_unit",
    "suspend",
    "temperature",
    "timeout_ms",
    "user",
    "background",
    "input_fidelity",
    "moderation",
    "output_compression",
    "quality",
    "style",
};

enum { N_KNOWN = sizeof known / sizeof *known, MOST_TEXT = 128 };
enum { N_FIELDS = sizeof fields / sizeof *fields };
enum { N_IMAGE_FIELDS = sizeof image_fields / sizeof *image_fields };
enum { LEAST_LETTERS = 4, MOST_LOOKED_AT = 64 };
_Static_assert(N_KNOWN <= 64, "a bit for each");

static bool is_one_of(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

/* Whether one change of a letter, a missing one, one too many or a swap of neighbours makes `meant`
   of the name. */
static bool is_nearly(const char *name, const char *meant)
{
    size_t n = strlen(name), m = strlen(meant), head = 0, tail = 0;
    while (head < n && head < m && name[head] == meant[head])
        head++;
    while (tail < n - head && tail < m - head && name[n - 1 - tail] == meant[m - 1 - tail])
        tail++;
    size_t left = n - head - tail, wanted = m - head - tail; /* that differ between the two */
    bool swapped =
        left == 2 && wanted == 2 && name[head] == meant[head + 1] && name[head + 1] == meant[head];
    return swapped || (left <= 1 && wanted <= 1);
}

static const char *meant_by(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        if (is_nearly(name, names[i]))
            return names[i];
    }
    return NULL;
}

/* Of a few fields only: a body may have very many. */
static void note_misspelt(const json_t *root, const char *const *names, int n_names,
                          lx_json_notes *notes)
{
    int looked_at = 0;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)root, name, value)
    {
        size_t n = strlen(name);
        if (++looked_at > MOST_LOOKED_AT || notes->meant != NULL)
            return;
        if (json_is_null(value) || n < LEAST_LETTERS || n >= sizeof notes->misspelt ||
            is_one_of(name, names, n_names) || is_one_of(name, known, N_KNOWN))
            continue;
        notes->meant = meant_by(name, names, n_names);
        if (notes->meant != NULL)
            memcpy(notes->misspelt, name, n + 1);
    }
}

void lx_json_note_fields(const json_t *root, lx_json_notes *notes)
{
    for (int i = 0; i < N_KNOWN; i++)
        notes->ignored |= (uint64_t)(lx_json_field(root, known[i]) != NULL) << i;
    if (json_is_object(root))
        note_misspelt(root, fields, N_FIELDS, notes);
}

void lx_json_note_image_fields(const json_t *root, lx_json_notes *notes)
{
    if (json_is_object(root))
        note_misspelt(root, image_fields, N_IMAGE_FIELDS, notes);
}

json_t *lx_json_make_notes(const lx_json_notes *notes)
{
    lx_json_warning list[N_KNOWN + 5];
    char texts[N_KNOWN + 4][MOST_TEXT]; /* 7 KB */
    int32_t n = 0;
    for (int i = 0; i < N_KNOWN; i++) {
        if ((notes->ignored >> i & 1) == 0)
            continue;
        (void)snprintf(texts[n], MOST_TEXT, "%s changes nothing here", known[i]);
        list[n] = (lx_json_warning){known[i], texts[n]};
        n++;
    }
    if (notes->meant != NULL) {
        (void)snprintf(texts[n], MOST_TEXT, "%s is no field here and changes nothing: %s?",
                       notes->misspelt, notes->meant);
        list[n] = (lx_json_warning){notes->misspelt, texts[n]};
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
    if (notes->unkept > 0) {
        (void)snprintf(texts[n], MOST_TEXT, "states that could not be kept: %d, see states",
                       notes->unkept);
        list[n] = (lx_json_warning){"return_state", texts[n]};
        n++;
    }
    if (notes->prompt != NULL)
        list[n++] = (lx_json_warning){"prompt", notes->prompt};
    return lx_json_make_warnings(list, n);
}
