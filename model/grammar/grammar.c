/* Grammars of a model and the answers that keep them (see grammar.h). */
#include "model/grammar/grammar.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "model/grammar/places.h"
#include "model/grammar/readers.h"

enum {
    MOST_KEPT = 32,             /* grammars that no request uses */
    MOST_KEPT_BYTES = 48 << 20, /* of these */
    RING = 64,                  /* tokens that an answer may go back */
    MOST_ANSWERS = 256,         /* that are followed without reading them again */
    SAVED = 1 << 16             /* words of saved places */
};

struct lx_grammar {
    lx_grammars *of;
    lx_grammar *next;
    int32_t n_users;
    uint64_t used; /* time of the last use */
    lx_shape shape;
    lx_automaton automaton;
    lx_places *places;
    uint32_t cleared;       /* how often the places were forgotten */
    lx_follower *followers; /* all of the grammar; under the lock */
    int64_t bytes;
    char text[];
};

struct lx_grammars {
    pthread_mutex_t lock;
    lx_words words;
    int32_t *saved; /* [SAVED] the engine thread's */
    lx_grammar *first;
    uint64_t time;
};

/* --- one grammar --- */

static void free_grammar(lx_grammar *g)
{
    if (g == NULL)
        return;
    lx_places_free(g->places);
    lx_automaton_fini(&g->automaton);
    free(g);
}

static void read_shape(lx_ast *a, const lx_shape *s)
{
    if (s->kind == LX_SHAPE_SCHEMA)
        lx_ast_define(a, 0, lx_grammar_schema_tree(a, s->text, s->bytes));
    else if (s->kind == LX_SHAPE_CALLS)
        lx_grammar_read_calls(a, s->text, s->bytes);
    else if (s->kind == LX_SHAPE_GBNF)
        lx_grammar_read_gbnf(a, s->text, s->bytes);
    else if (s->kind == LX_SHAPE_CHOICE)
        lx_grammar_read_choice(a, s->text, s->bytes);
    else
        lx_ast_define(a, 0,
                      lx_grammar_read_regex(a, s->text, s->bytes,
                                            &(lx_regex_use){.spell = lx_spell_plain, .most = -1}));
}

static lx_status make_automaton(lx_grammar *g, const lx_words *w, lx_error *err)
{
    lx_ast a;
    lx_ast_init(&a, g->shape.field, err);
    read_shape(&a, &g->shape);
    lx_status st = lx_automaton_make(&g->automaton, &a, w->deepest);
    lx_ast_fini(&a);
    return st;
}

/* Finds the first mask, so that a grammar that cannot be followed is refused at once. */
static lx_status try_first_mask(lx_grammar *g, const lx_words *w, lx_error *err)
{
    uint32_t *bits = calloc(((size_t)w->n_ids + 31) / 32, sizeof *bits);
    if (bits == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
    int32_t only = -1, place = lx_places_first(g->places);
    int32_t n = place > 0 ? lx_places_mask(g->places, place, bits, &only) : place;
    const char *field = g->shape.field;
    free(bits);
    if (n < 0)
        return lx_fail(err, LX_ERR_INVALID, field,
                       "%s: the grammar has too many ways to go on at one place", field);
    if (n == 0)
        return lx_fail(err, LX_ERR_INVALID, field,
                       "%s: the model has no token with which such an answer begins", field);
    return LX_OK;
}

static lx_status make_grammar(lx_grammars *of, const lx_shape *shape, lx_grammar **out,
                              lx_error *err)
{
    lx_grammar *g = calloc(1, sizeof *g + shape->bytes + 1);
    if (g == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
    g->of = of;
    g->shape = *shape;
    g->shape.text = memcpy(g->text, shape->text != NULL ? shape->text : "", shape->bytes);
    lx_status st = make_automaton(g, &of->words, err);
    if (st == LX_OK)
        st = lx_places_new(&g->automaton, &of->words, &g->places, err);
    if (st == LX_OK)
        st = try_first_mask(g, &of->words, err);
    int64_t node = (int64_t)(sizeof(lx_node) + 2 * sizeof(int32_t));
    g->bytes = (int64_t)(sizeof *g + shape->bytes) + g->automaton.n_nodes * node +
               lx_places_bytes(&of->words);
    if (st != LX_OK)
        free_grammar(g);
    else
        *out = g;
    return st;
}

/* --- those of a model --- */

lx_status lx_grammars_new(const lx_words *words, lx_grammars **out, lx_error *err)
{
    lx_grammars *g = calloc(1, sizeof *g);
    if (g != NULL)
        g->saved = malloc(SAVED * sizeof *g->saved);
    if (g == NULL || g->saved == NULL || pthread_mutex_init(&g->lock, NULL) != 0) {
        free(g != NULL ? g->saved : NULL);
        free(g);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the grammars of a model");
    }
    g->words = *words;
    *out = g;
    return LX_OK;
}

void lx_grammars_free(lx_grammars *g)
{
    if (g == NULL)
        return;
    while (g->first != NULL) {
        lx_grammar *next = g->first->next;
        assert(g->first->n_users == 0);
        free_grammar(g->first);
        g->first = next;
    }
    lx_words_fini(&g->words);
    (void)pthread_mutex_destroy(&g->lock);
    free(g->saved);
    free(g);
}

static lx_grammar *find(lx_grammars *g, const lx_shape *s)
{
    lx_grammar *f = g->first;
    while (f != NULL &&
           (f->shape.kind != s->kind || f->shape.owner != s->owner || f->shape.bytes != s->bytes ||
            (s->bytes > 0 && memcmp(f->shape.text, s->text, s->bytes) != 0)))
        f = f->next;
    if (f != NULL) {
        f->n_users++;
        f->used = ++g->time;
    }
    return f;
}

/* Frees the unused grammar that was used longest ago; false: few enough are left. */
static bool drop_oldest(lx_grammars *g)
{
    int32_t n = 0;
    int64_t bytes = 0;
    lx_grammar **oldest = NULL;
    for (lx_grammar **at = &g->first; *at != NULL; at = &(*at)->next) {
        if ((*at)->n_users > 0)
            continue;
        n++;
        bytes += (*at)->bytes;
        if (oldest == NULL || (*at)->used < (*oldest)->used)
            oldest = at;
    }
    if (oldest == NULL || (n <= MOST_KEPT && bytes <= MOST_KEPT_BYTES))
        return false;
    lx_grammar *gone = *oldest;
    *oldest = gone->next;
    free_grammar(gone);
    return true;
}

lx_status lx_grammars_get(lx_grammars *g, const lx_shape *shape, lx_grammar **out, lx_error *err)
{
    lx_status st = LX_OK;
    if (shape->bytes > LX_SHAPE_MOST_BYTES)
        return lx_fail(err, LX_ERR_INVALID, shape->field, "%s has more than %d bytes", shape->field,
                       LX_SHAPE_MOST_BYTES);
    (void)pthread_mutex_lock(&g->lock);
    if (g->words.nodes == NULL)
        st = lx_words_make(&g->words, err);
    lx_grammar *found = st == LX_OK ? find(g, shape) : NULL;
    (void)pthread_mutex_unlock(&g->lock);
    if (st != LX_OK || found != NULL) {
        *out = found;
        return st;
    }
    st = make_grammar(g, shape, &found, err); /* two threads may make the same one */
    if (st != LX_OK)
        return st;
    (void)pthread_mutex_lock(&g->lock);
    found->n_users = 1;
    found->used = ++g->time;
    found->next = g->first;
    g->first = found;
    (void)pthread_mutex_unlock(&g->lock);
    *out = found;
    return LX_OK;
}

void lx_grammar_give_back(lx_grammar *g)
{
    if (g == NULL)
        return;
    lx_grammars *of = g->of;
    (void)pthread_mutex_lock(&of->lock);
    g->n_users--;
    while (drop_oldest(of))
        continue;
    (void)pthread_mutex_unlock(&of->lock);
}

const lx_shape *lx_grammar_shape(const lx_grammar *g)
{
    return &g->shape;
}

/* --- answers --- */

/* Where an answer is: the newest places, and the tokens between them. */
typedef struct answer {
    const int32_t *tokens; /* the list, which tells answers apart; NULL: unused */
    uint64_t used;
    uint32_t cleared; /* the places are of this time of the grammar */
    int32_t first, n; /* places of steps first .. n are known */
    struct {
        int32_t place, token;
    } ring[RING]; /* of step i at i % RING: the place before it, and its token */
} answer;

struct lx_follower {
    lx_grammar *g;
    lx_follower *next; /* of the grammar's */
    int32_t n_before, n_answers;
    uint64_t time;
    const char *failure;
    answer answers[];
};

lx_status lx_follower_new(lx_grammar *g, int32_t n_answers, int32_t n_before, lx_follower **out,
                          lx_error *err)
{
    int32_t n = n_answers < 1 ? 1 : n_answers > MOST_ANSWERS ? MOST_ANSWERS : n_answers;
    lx_follower *f = calloc(1, sizeof *f + (size_t)n * sizeof *f->answers);
    if (f == NULL) {
        lx_grammar_give_back(g);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a request");
    }
    f->g = g;
    f->n_answers = n;
    f->n_before = n_before;
    (void)pthread_mutex_lock(&g->of->lock);
    f->next = g->followers;
    g->followers = f;
    (void)pthread_mutex_unlock(&g->of->lock);
    *out = f;
    return LX_OK;
}

void lx_follower_free(lx_follower *f)
{
    if (f == NULL)
        return;
    (void)pthread_mutex_lock(&f->g->of->lock);
    lx_follower **at = &f->g->followers;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    (void)pthread_mutex_unlock(&f->g->of->lock);
    lx_grammar_give_back(f->g);
    free(f);
}

const lx_grammar *lx_follower_grammar(const lx_follower *f)
{
    return f->g;
}

int64_t lx_follower_bytes(const lx_follower *f)
{
    return f->g->bytes + (int64_t)(sizeof *f) + f->n_answers * (int64_t)sizeof(answer);
}

const char *lx_follower_failure(const lx_follower *f)
{
    return f->failure;
}

/* The answer with the list, or the place of the one unused for longest. */
static answer *answer_of(lx_follower *f, const int32_t *tokens)
{
    answer *oldest = &f->answers[0];
    for (int32_t i = 0; i < f->n_answers; i++) {
        answer *a = &f->answers[i];
        if (a->tokens == tokens && a->used > 0)
            return a;
        oldest = a->used < oldest->used ? a : oldest;
    }
    oldest->tokens = tokens;
    oldest->n = -1;
    return oldest;
}

/* How many of the known places hold for these tokens: guessed ones may have been replaced. */
static void go_back(const lx_follower *f, answer *a, int32_t step, const int32_t *tokens)
{
    bool known = a->n >= 0 && a->cleared == f->g->cleared && a->first <= step;
    int32_t n = known ? a->first : -1;
    while (known && n < a->n && n < step && a->ring[n % RING].token == tokens[n])
        n++;
    a->n = n;
}

static bool is_end(const lx_words *w, int32_t token)
{
    for (int32_t i = 0; i < *w->n_ends; i++) {
        if (w->ends[i] == token)
            return true;
    }
    return false;
}

/* Saves or restores the newest place of an answer that is known; a place for which there is no room
   is found again from the answer's first token. */
static void move_answer(lx_grammar *g, answer *a, bool back, int32_t *at)
{
    int32_t *place = &a->ring[a->n % RING].place, *to = g->of->saved + *at;
    if (a->used == 0 || a->n < 0 || a->cleared != g->cleared - back)
        return;
    if (!back) {
        int32_t n = *at + 1 < SAVED ? lx_places_save(g->places, *place, to, SAVED - *at) : -1;
        *at += n > 0 ? n : 0;
        a->n = n > 0 ? a->n : -1;
        return;
    }
    *place = lx_places_restore(g->places, to);
    *at += lx_places_saved_words(to);
    a->first = a->n;
    a->n = *place >= 0 ? a->n : -1;
    a->cleared = g->cleared;
}

static void move_answers(lx_grammar *g, bool back)
{
    int32_t at = 0;
    for (lx_follower *f = g->followers; f != NULL; f = f->next) {
        for (int32_t i = 0; i < f->n_answers; i++)
            move_answer(g, &f->answers[i], back, &at);
    }
}

/* Makes room for new places: those where answers stand are kept. */
static void clear(lx_grammar *g)
{
    (void)pthread_mutex_lock(&g->of->lock);
    move_answers(g, false);
    lx_places_clear(g->places);
    g->cleared++;
    move_answers(g, true);
    (void)pthread_mutex_unlock(&g->of->lock);
}

/* The place before token `step`, or an error. */
static int32_t follow(lx_follower *f, int32_t step, const int32_t *tokens)
{
    lx_places *p = f->g->places;
    answer *a = answer_of(f, tokens);
    a->used = ++f->time;
    go_back(f, a, step, tokens);
    if (a->n < 0) {
        int32_t first = lx_places_first(p);
        if (first < 0)
            return first;
        a->cleared = f->g->cleared;
        a->first = a->n = f->n_before < step ? f->n_before : step;
        a->ring[a->n % RING].place = first;
    }
    for (; a->n < step; a->n++) {
        int32_t token = tokens[a->n], place = a->ring[a->n % RING].place;
        int32_t next = is_end(&f->g->of->words, token) ? lx_places_first(p)
                                                       : lx_places_step_token(p, place, token);
        if (next < 0)
            return next;
        a->ring[a->n % RING].token = token;
        a->ring[(a->n + 1) % RING].place = next;
        a->first = a->n + 2 - RING > a->first ? a->n + 2 - RING : a->first;
    }
    return a->ring[step % RING].place;
}

int32_t lx_follower_mask(lx_follower *f, int32_t step, const int32_t *tokens, uint32_t *bits,
                         int32_t *only)
{
    static const char stuck[] = "no token of the model continues the answer",
                      much[] = "the grammar has too many ways to go on at one place";
    int32_t n = LX_PLACES_FULL, last = -1,
            now = -2; /* how far the answer was when memory was full */
    while (n == LX_PLACES_FULL && last != now) {
        int32_t place = follow(f, step, tokens);
        n = place >= 0 ? lx_places_mask(f->g->places, place, bits, only) : place;
        last = now;
        now = answer_of(f, tokens)->n;
        if (n == LX_PLACES_FULL)
            clear(f->g);
    }
    if (n <= 0) /* the next mask may be another answer's, so it does not take the reason back */
        f->failure = n == 0 ? stuck : much;
    if (n < 0)
        memset(bits, 0, ((size_t)f->g->of->words.n_ids + 31) / 32 * sizeof *bits);
    return n > 0 ? n : 0;
}
