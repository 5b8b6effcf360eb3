/* Grammars: the first byte chooses the reader, the rest is the source. A random walk follows every
 * grammar that is taken: each mask allows a token or gives a reason, and its number of tokens is
 * right. */
#include <stdlib.h>
#include <string.h>

#include "model/grammar/grammar.h"
#include "tests/fuzz/subject.h"

enum { N_IDS = 262, END = 0, STEPS = 40 };

static const char *const more[] = {"\": \"", "\"}", "abc", "true", "{\""};

/* Token 0 ends an answer, 1 to 256 are the bytes, and a few have several. */
static const char *bytes_of(const void *context, int32_t id, size_t *n)
{
    const char *single = context;
    *n = id == END ? 0 : id <= 256 ? 1 : strlen(more[id - 257]);
    return id == END ? NULL : id <= 256 ? single + id - 1 : more[id - 257];
}

static bool is_set(const uint32_t *bits, int32_t id)
{
    return (bits[id / 32] >> (id % 32) & 1) != 0;
}

static void follow(lx_grammar *g, uint32_t seed)
{
    lx_error err = {0};
    lx_follower *f = NULL;
    int32_t tokens[STEPS], only = -1, id = -1;
    uint32_t bits[(N_IDS + 31) / 32];
    if (lx_follower_new(g, 1, 0, &f, &err) != LX_OK)
        return;
    for (int32_t step = 0; step < STEPS && id != END; step++) {
        int32_t n = lx_follower_mask(f, step, tokens, bits, &only);
        MUST(n > 0 || lx_follower_failure(f) != NULL);
        if (n == 0)
            break;
        seed = seed * 1664525 + 1013904223;
        id = (int32_t)(seed >> 8) % N_IDS;
        while (!is_set(bits, id))
            id = (id + 1) % N_IDS;
        MUST(n > 1 || id == only);
        tokens[step] = id;
    }
    lx_follower_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const int32_t ends[] = {END}, n_ends = 1;
    char single[256];
    for (int32_t i = 0; i < 256; i++)
        single[i] = (char)i;
    const lx_words words = {
        .n_ids = N_IDS, .n_ends = &n_ends, .ends = ends, .bytes_of = bytes_of, .context = single};
    lx_error err = {0};
    lx_grammars *all = NULL;
    lx_grammar *g = NULL;
    if (n < 1 || lx_grammars_new(&words, &all, &err) != LX_OK)
        return 0;
    lx_shape_kind kind = (lx_shape_kind)(LX_SHAPE_SCHEMA + data[0] % (LX_SHAPE_KINDS - 1));
    const lx_shape shape = {
        .kind = kind, .text = (const char *)data + 1, .bytes = n - 1, .field = "grammar"};
    lx_status st = lx_grammars_get(all, &shape, &g, &err);
    if (st == LX_OK)
        follow(g, (uint32_t)n);
    else
        subject_check_text(st, &err);
    lx_grammars_free(all);
    return 0;
}
