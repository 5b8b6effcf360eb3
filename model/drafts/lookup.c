/*
 * Guesses the next token of a text by looking its last tokens up in the prompt and the answer so
 * far. A token that followed them there may follow again, as in quotes, lists and code. Longer
 * matches go first. How often such a guess was right is counted for all texts of an owner together.
 */
#include "model/drafts/draft.h"

/* Tokens that must match, at most and at least, and how far back they are looked for. */
enum { LONGEST = 4, SHORTEST = 2, LENGTHS = LONGEST - SHORTEST + 1, FAR = 1024 };

/* Token i of the prompt and the answer after it. A model of several inputs has no tokens in its
   prompt's rows. */
static int32_t token_at(const lx_guess_context *c, int32_t n_prompt, int32_t i)
{
    return i < n_prompt ? c->plan->prompt_ids[i] : c->tokens[i - n_prompt];
}

static int32_t prompt_tokens(const lx_guess_context *c)
{
    return c->plan->model->config.n_inputs == 1 ? c->plan->n_prompt : 0;
}

/* How many of the tokens before `end` are those before `at`, LONGEST at most. */
static int32_t match(const lx_guess_context *c, int32_t n_prompt, int32_t end, int32_t at)
{
    int32_t n = 0;
    while (n < LONGEST && n < at &&
           token_at(c, n_prompt, at - 1 - n) == token_at(c, n_prompt, end - 1 - n))
        n++;
    return n;
}

/* The token after the newest of the longest matches; *length of it, below SHORTEST: there is none.
 */
static int32_t find(const lx_guess_context *c, int32_t *length)
{
    int32_t n_prompt = prompt_tokens(c), end = n_prompt + c->n, token = -1;
    int32_t first = end > FAR ? end - FAR : 1;
    *length = 0;
    for (int32_t at = end - 1; at >= first && *length < LONGEST; at--) {
        int32_t n = match(c, n_prompt, end, at);
        if (n > *length && n >= SHORTEST) {
            *length = n;
            token = token_at(c, n_prompt, at);
        }
    }
    return token;
}

static lx_guess guess(const void *memory, const lx_guess_context *c)
{
    const lx_odds *odds = memory;
    int32_t length = 0, token = find(c, &length);
    return (lx_guess){token, length < SHORTEST ? 0 : lx_odds_of(&odds[length - SHORTEST])};
}

static void learn(void *memory, const lx_guess_context *c, int32_t token)
{
    lx_odds *odds = memory;
    int32_t length = 0, found = find(c, &length);
    if (length >= SHORTEST)
        lx_odds_count(&odds[length - SHORTEST], found == token);
}

const lx_guesser lx_guesser_lookup = {
    .name = "lookup", .memory_bytes = LENGTHS * sizeof(lx_odds), .guess = guess, .learn = learn};
