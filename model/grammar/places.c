/* Places in a grammar's texts (see places.h). */
#include "model/grammar/places.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_STACKS = 1 << 17,
    MOST_PLACES = 1 << 15,
    MOST_WORDS = 1 << 19, /* of memory for lists, rows and masks, four bytes each */
    MOST_SET = 1 << 10,   /* stacks of a place */
    MOST_SEEN = 1 << 13,  /* stacks that one step looks at; the table has twice the room */
    MOST_WORK = 12000000, /* nodes that one mask looks at: some 50 ms */
    NEAR_DEPTH = LX_AUTOMATON_MOST_DEPTH / 2,
    CALLER = 0, /* stack numbers: below a near mask's top, and the end of the text */
    BOTTOM = 1,
    N_FIXED = 2,
    NONE = -1,
    ASKED = -10 /* of a mask: it was made and not kept */
};

typedef struct stack {
    int32_t node, below, depth, chain;
} stack;

typedef struct spot {
    int32_t list, n; /* its stacks, ascending */
    int32_t row;     /* places after a byte of each class; NONE: not made */
    int32_t mask, near;
    int32_t chain; /* of places with one hash */
} spot;

typedef struct seen {
    int32_t node, below;
    uint32_t epoch;
} seen;

/* A near mask in memory: its head, then `n` ids or, where that is shorter, all bits; then the
   exits. A whole mask: the near masks that it joins, then the ids that these do not have. */
enum { HEAD_N, HEAD_LISTED, HEAD_EXITS, HEAD };
enum { WHOLE_NEAR, WHOLE_MORE, WHOLE };

struct lx_places {
    const lx_automaton *m;
    const lx_words *w;
    int32_t n_stacks, n_places, n_words, words_of_mask;
    uint32_t epoch;
    int32_t n_set, n_seen, n_open; /* of the step that is being made */
    int32_t failure;               /* of that step, 0: none */
    int64_t work;
    stack *stacks;                        /* [MOST_STACKS] */
    spot *places;                         /* [MOST_PLACES] */
    int32_t *stack_chains, *place_chains; /* [MOST_STACKS], [MOST_PLACES] */
    seen *seen;                           /* [2 * MOST_SEEN] */
    int32_t *open;                        /* [4 * MOST_SEEN] pairs of node and stack below */
    int32_t *set;                         /* [MOST_SET] */
    int32_t *words;                       /* [MOST_WORDS] */
    int32_t *at;                          /* [deepest + 2] places on the way of a walk */
    int32_t *exits;                       /* [n_nodes] where tokens leave the rule */
    int32_t *near;                        /* [n_near] near masks of the mask that is made now */
    int32_t *more;                        /* [n_more] and its other ids */
    int32_t n_near, n_more;
    bool listing;        /* a walk lists its tokens in `more` */
    uint32_t *near_bits; /* [words_of_mask] */
    void *memory;
};

/* --- memory --- */

typedef struct part {
    void **at;
    size_t bytes;
} part;

enum { N_PARTS = 13 };

static void list_parts(lx_places *p, const lx_words *w, part *parts)
{
    size_t mask = ((size_t)w->n_ids + 31) / 32 * sizeof(uint32_t);
    const part all[N_PARTS] = {
        {(void **)&p->stacks, MOST_STACKS * sizeof(stack)},
        {(void **)&p->places, MOST_PLACES * sizeof(spot)},
        {(void **)&p->stack_chains, MOST_STACKS * sizeof(int32_t)},
        {(void **)&p->place_chains, MOST_PLACES * sizeof(int32_t)},
        {(void **)&p->seen, 2 * MOST_SEEN * sizeof(seen)},
        {(void **)&p->open, 4 * MOST_SEEN * sizeof(int32_t)},
        {(void **)&p->set, MOST_SET * sizeof(int32_t)},
        {(void **)&p->words, MOST_WORDS * sizeof(int32_t)},
        {(void **)&p->at, ((size_t)w->deepest + 2) * sizeof(int32_t)},
        {(void **)&p->exits, (size_t)w->n_nodes * sizeof(int32_t)},
        {(void **)&p->more, (size_t)w->n_ids * sizeof(int32_t)},
        {(void **)&p->near, MOST_SET * sizeof(int32_t)},
        {(void **)&p->near_bits, mask},
    };
    memcpy(parts, all, sizeof all);
}

static size_t padded(size_t n)
{
    return (n + 63) / 64 * 64;
}

int64_t lx_places_bytes(const lx_words *w)
{
    lx_places p = {.m = NULL};
    part parts[N_PARTS];
    size_t bytes = sizeof p;
    list_parts(&p, w, parts);
    for (int32_t i = 0; i < N_PARTS; i++)
        bytes += padded(parts[i].bytes);
    return (int64_t)bytes;
}

lx_status lx_places_new(const lx_automaton *m, const lx_words *w, lx_places **out, lx_error *err)
{
    lx_places *p = calloc(1, sizeof *p);
    if (p != NULL)
        p->memory = calloc(1, (size_t)lx_places_bytes(w));
    if (p == NULL || p->memory == NULL) {
        lx_places_free(p);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a grammar");
    }
    part parts[N_PARTS];
    size_t at = 0;
    p->m = m;
    p->w = w;
    p->words_of_mask = (w->n_ids + 31) / 32;
    list_parts(p, w, parts);
    for (int32_t i = 0; i < N_PARTS; i++) {
        *parts[i].at = (char *)p->memory + at;
        at += padded(parts[i].bytes);
    }
    lx_places_clear(p);
    *out = p;
    return LX_OK;
}

void lx_places_free(lx_places *p)
{
    if (p == NULL)
        return;
    free(p->memory);
    free(p);
}

void lx_places_clear(lx_places *p)
{
    memset(p->stack_chains, 0xff, MOST_STACKS * sizeof(int32_t));
    memset(p->place_chains, 0xff, MOST_PLACES * sizeof(int32_t));
    p->n_stacks = N_FIXED;
    p->stacks[CALLER] = p->stacks[BOTTOM] = (stack){NONE, NONE, 0, NONE};
    p->n_words = 0;
    p->places[LX_PLACE_DEAD] = (spot){0, 0, NONE, NONE, NONE, NONE};
    p->n_places = 1;
}

static int32_t take_words(lx_places *p, int32_t n)
{
    if (n > MOST_WORDS - p->n_words) {
        p->failure = LX_PLACES_FULL;
        return 0;
    }
    p->n_words += n;
    return p->n_words - n;
}

static uint32_t mix(uint32_t hash, int32_t x)
{
    return (hash ^ (uint32_t)x) * 0x9e3779b1u;
}

static uint32_t fold(uint32_t hash)
{
    return hash ^ hash >> 15;
}

/* --- stacks --- */

static int32_t stack_of(lx_places *p, int32_t node, int32_t below)
{
    int32_t *chain = &p->stack_chains[fold(mix(mix(0, node), below)) % MOST_STACKS];
    for (int32_t i = *chain; i >= 0; i = p->stacks[i].chain) {
        if (p->stacks[i].node == node && p->stacks[i].below == below)
            return i;
    }
    if (p->n_stacks == MOST_STACKS) {
        p->failure = LX_PLACES_FULL;
        return BOTTOM;
    }
    p->stacks[p->n_stacks] = (stack){node, below, p->stacks[below].depth + 1, *chain};
    *chain = p->n_stacks;
    return p->n_stacks++;
}

/* --- a step --- */

static void begin(lx_places *p)
{
    p->n_set = p->n_seen = p->n_open = p->failure = 0;
    if (++p->epoch == 0) {
        memset(p->seen, 0, 2 * MOST_SEEN * sizeof *p->seen);
        p->epoch = 1;
    }
}

/* A stack whose rules cannot end within the deepest nesting is left out. */
static void open_stack(lx_places *p, int32_t node, int32_t below)
{
    if (p->stacks[below].depth + p->m->calls[node] > LX_AUTOMATON_MOST_DEPTH)
        return;
    uint32_t i = fold(mix(mix(1, node), below)) % (2 * MOST_SEEN);
    for (; p->seen[i].epoch == p->epoch; i = (i + 1) % (2 * MOST_SEEN)) {
        if (p->seen[i].node == node && p->seen[i].below == below)
            return;
    }
    if (p->n_seen == MOST_SEEN) {
        p->failure = LX_PLACES_TOO_MUCH;
        return;
    }
    p->n_seen++;
    p->seen[i] = (seen){node, below, p->epoch};
    p->open[2 * p->n_open] = node;
    p->open[2 * p->n_open++ + 1] = below;
}

static void add_to_set(lx_places *p, int32_t number)
{
    for (int32_t i = 0; number < N_FIXED && i < p->n_set; i++) {
        if (p->set[i] == number)
            return;
    }
    if (p->n_set == MOST_SET)
        p->failure = LX_PLACES_TOO_MUCH;
    else
        p->set[p->n_set++] = number;
}

/* Follows branches, calls and ends to the nodes that read bytes. */
static void close_set(lx_places *p)
{
    const lx_node *nodes = p->m->nodes;
    while (p->n_open > 0 && p->failure == 0) {
        int32_t node = p->open[2 * --p->n_open], below = p->open[2 * p->n_open + 1];
        const lx_node *n = &nodes[node];
        p->work++;
        if (n->kind == LX_NODE_BYTE) {
            add_to_set(p, stack_of(p, node, below));
        } else if (n->kind == LX_NODE_BRANCH) {
            open_stack(p, n->next, below);
            open_stack(p, n->other, below);
        } else if (n->kind == LX_NODE_CALL) {
            bool last = nodes[n->next].kind == LX_NODE_END;
            open_stack(p, n->other, last ? below : stack_of(p, n->next, below));
        } else if (below < N_FIXED) {
            add_to_set(p, below);
        } else {
            open_stack(p, p->stacks[below].node, p->stacks[below].below);
        }
    }
}

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The number of the place with the stacks of the set. */
static int32_t end(lx_places *p)
{
    close_set(p);
    if (p->failure != 0)
        return p->failure;
    uint32_t hash = 2;
    qsort(p->set, (size_t)p->n_set, sizeof *p->set, by_number);
    for (int32_t i = 0; i < p->n_set; i++)
        hash = mix(hash, p->set[i]);
    int32_t *chain = &p->place_chains[fold(hash) % MOST_PLACES];
    size_t bytes = (size_t)p->n_set * sizeof *p->set;
    for (int32_t i = *chain; i >= 0; i = p->places[i].chain) {
        if (p->places[i].n == p->n_set && memcmp(p->words + p->places[i].list, p->set, bytes) == 0)
            return i;
    }
    if (p->n_set == 0)
        return LX_PLACE_DEAD;
    int32_t list = take_words(p, p->n_set);
    if (p->n_places == MOST_PLACES)
        p->failure = LX_PLACES_FULL;
    if (p->failure != 0)
        return p->failure;
    memcpy(p->words + list, p->set, bytes);
    p->places[p->n_places] = (spot){list, p->n_set, NONE, NONE, NONE, *chain};
    *chain = p->n_places;
    return p->n_places++;
}

/* A saved place: how many stacks, then of each how many nodes, and these from the bottom up. */
int32_t lx_places_save(const lx_places *p, int32_t place, int32_t *to, int32_t room)
{
    const spot *f = &p->places[place];
    int32_t n = 1;
    to[0] = f->n;
    for (int32_t i = 0; i < f->n; i++) {
        int32_t at = p->words[f->list + i], depth = p->stacks[at].depth;
        if (n + depth + 1 > room)
            return -1;
        to[n] = depth;
        for (int32_t k = n + depth; k > n; k--, at = p->stacks[at].below)
            to[k] = p->stacks[at].node;
        n += depth + 1;
    }
    return n;
}

int32_t lx_places_saved_words(const int32_t *from)
{
    int32_t n = 1;
    for (int32_t i = 0; i < from[0]; i++)
        n += from[n] + 1;
    return n;
}

int32_t lx_places_restore(lx_places *p, const int32_t *from)
{
    int32_t n = 1;
    begin(p);
    for (int32_t i = 0; i < from[0]; i++) {
        int32_t depth = from[n++], number = BOTTOM;
        for (int32_t k = 0; k < depth; k++)
            number = stack_of(p, from[n++], number);
        add_to_set(p, number);
    }
    return end(p);
}

int32_t lx_places_first(lx_places *p)
{
    begin(p);
    open_stack(p, p->m->first, BOTTOM);
    return end(p);
}

static int32_t make_step(lx_places *p, int32_t from, uint8_t byte)
{
    const spot *f = &p->places[from];
    begin(p);
    for (int32_t i = 0; i < f->n; i++) {
        const stack *s = &p->stacks[p->words[f->list + i]];
        const lx_node *n = s->node >= 0 ? &p->m->nodes[s->node] : NULL;
        if (n != NULL && n->low <= byte && byte <= n->high)
            open_stack(p, n->next, s->below);
    }
    p->work += f->n;
    return end(p);
}

int32_t lx_places_step(lx_places *p, int32_t from, uint8_t byte)
{
    spot *f = &p->places[from];
    int32_t class = p->m->class_of[byte];
    if (f->n == 0)
        return LX_PLACE_DEAD;
    if (f->row < 0) {
        p->failure = 0;
        int32_t row = take_words(p, p->m->n_classes);
        if (p->failure != 0)
            return p->failure;
        memset(p->words + row, 0xff, (size_t)p->m->n_classes * sizeof *p->words);
        f->row = row;
    }
    int32_t *to = &p->words[f->row + class];
    if (*to >= 0)
        return *to;
    int32_t place = make_step(p, from, p->m->byte_of[class]);
    if (place >= 0)
        *to = place;
    return place;
}

int32_t lx_places_step_token(lx_places *p, int32_t place, int32_t id)
{
    size_t n = 0;
    const char *bytes = id >= 0 && id < p->w->n_ids ? p->w->bytes_of(p->w->context, id, &n) : NULL;
    if (bytes == NULL || n == 0)
        return LX_PLACE_DEAD;
    for (size_t i = 0; i < n && place > 0; i++)
        place = lx_places_step(p, place, (uint8_t)bytes[i]);
    return place;
}

static bool has(const lx_places *p, int32_t place, int32_t number)
{
    for (int32_t i = 0; i < N_FIXED && i < p->places[place].n; i++) {
        if (p->words[p->places[place].list + i] == number)
            return true;
    }
    return false;
}

bool lx_places_may_end(const lx_places *p, int32_t place)
{
    return has(p, place, BOTTOM);
}

/* The numbers of stacks ascend, so the last one tells. */
static bool reads_bytes(const lx_places *p, int32_t place)
{
    return p->places[place].n > 0 &&
           p->words[p->places[place].list + p->places[place].n - 1] >= N_FIXED;
}

int32_t lx_places_forced_byte(lx_places *p, int32_t place)
{
    int32_t byte = -1;
    const spot *f = &p->places[place];
    for (int32_t i = 0; i < f->n; i++) {
        const stack *s = &p->stacks[p->words[f->list + i]];
        const lx_node *n = s->node >= 0 ? &p->m->nodes[s->node] : NULL;
        if (n == NULL || n->low != n->high || (byte >= 0 && byte != n->low))
            return -1;
        byte = n->low;
    }
    return byte;
}

/* --- masks --- */

static void set_bit(uint32_t *bits, int32_t id)
{
    bits[id / 32] |= UINT32_C(1) << (id % 32);
}

/* The token may be read. A full list is longer than the bits, which are kept in its place. */
static void note_token(lx_places *p, uint32_t *bits, int32_t id)
{
    set_bit(bits, id);
    if (p->listing && p->n_more < p->w->n_ids)
        p->more[p->n_more++] = id;
}

/* Sets the bits of the tokens of nodes from .. to - 1 that may be read from the place. With
   n_exits, also lists the nodes after which a token goes on in the caller's rule. */
static int32_t walk(lx_places *p, int32_t from, int32_t to, int32_t place, uint32_t *bits,
                    int32_t *n_exits)
{
    const lx_words *w = p->w;
    if (from == to)
        return 0;
    p->at[w->nodes[from].depth] = place;
    for (int32_t i = from; i < to;) {
        const lx_words_node *n = &w->nodes[i];
        int32_t next = lx_places_step(p, p->at[n->depth], n->byte);
        if (next < 0)
            return next;
        if (++p->work > MOST_WORK)
            return LX_PLACES_TOO_MUCH;
        for (int32_t k = n->token; next != LX_PLACE_DEAD && k < n[1].token; k++)
            note_token(p, bits, w->tokens[k]);
        if (n_exits != NULL && n->after > i + 1 && has(p, next, CALLER))
            p->exits[(*n_exits)++] = i;
        p->at[n->depth + 1] = next;
        i = reads_bytes(p, next) ? i + 1 : n->after;
    }
    return 0;
}

static int32_t count_bits(const uint32_t *bits, int32_t n)
{
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++)
        count += __builtin_popcount(bits[i]);
    return count;
}

/* Keeps the bits and exits; returns where, or an error. */
static int32_t keep_mask(lx_places *p, const uint32_t *bits, int32_t n_exits)
{
    int32_t n = count_bits(bits, p->words_of_mask);
    bool listed = n < p->words_of_mask;
    int32_t size = listed ? n : p->words_of_mask;
    p->failure = 0;
    int32_t mask = take_words(p, HEAD + size + n_exits), *to = p->words + mask + HEAD;
    if (p->failure != 0)
        return p->failure;
    p->words[mask + HEAD_N] = n;
    p->words[mask + HEAD_LISTED] = listed;
    p->words[mask + HEAD_EXITS] = n_exits;
    if (!listed)
        memcpy(to, bits, (size_t)size * sizeof *bits);
    for (int32_t i = 0; listed && i < p->words_of_mask; i++) {
        for (uint32_t word = bits[i]; word != 0; word &= word - 1)
            *to++ = 32 * i + __builtin_ctz(word);
    }
    memcpy(p->words + mask + HEAD + size, p->exits, (size_t)n_exits * sizeof *p->exits);
    return mask;
}

static const int32_t *exits_of(const lx_places *p, int32_t mask)
{
    const int32_t *m = p->words + mask;
    return m + HEAD + (m[HEAD_LISTED] != 0 ? m[HEAD_N] : p->words_of_mask);
}

/* bits |= the near mask; with `first` the bits were not set before. */
static void add_mask(const lx_places *p, int32_t mask, bool first, uint32_t *bits)
{
    const int32_t *m = p->words + mask, *own = m + HEAD;
    size_t bytes = (size_t)p->words_of_mask * sizeof *bits;
    if (m[HEAD_LISTED] != 0) {
        if (first)
            memset(bits, 0, bytes);
        for (int32_t i = 0; i < m[HEAD_N]; i++)
            set_bit(bits, own[i]);
    } else if (first) {
        memcpy(bits, own, bytes);
    } else {
        for (int32_t i = 0; i < p->words_of_mask; i++)
            bits[i] |= (uint32_t)own[i];
    }
}

/* Keeps the mask that was made: the numbers of its near masks and its other ids, or all of its bits
   where that is shorter. */
static int32_t keep_whole(lx_places *p, const uint32_t *bits)
{
    if (p->n_more > p->words_of_mask) {
        int32_t all = keep_mask(p, bits, 0);
        if (all < 0)
            return all;
        p->near[0] = all;
        p->n_near = 1;
        p->n_more = 0;
    }
    int32_t near_bytes = p->n_near * (int32_t)sizeof *p->near;
    p->failure = 0;
    int32_t mask = take_words(p, WHOLE + p->n_near + p->n_more), *to = p->words + mask + WHOLE;
    if (p->failure != 0)
        return p->failure;
    p->words[mask + WHOLE_NEAR] = p->n_near;
    p->words[mask + WHOLE_MORE] = p->n_more;
    memcpy(to, p->near, (size_t)near_bytes);
    memcpy(to + p->n_near, p->more, (size_t)p->n_more * sizeof *p->more);
    return mask;
}

static void add_whole(const lx_places *p, int32_t mask, uint32_t *bits)
{
    const int32_t *m = p->words + mask, *near = m + WHOLE, *more = near + m[WHOLE_NEAR];
    if (m[WHOLE_NEAR] == 0)
        memset(bits, 0, (size_t)p->words_of_mask * sizeof *bits);
    for (int32_t i = 0; i < m[WHOLE_NEAR]; i++)
        add_mask(p, near[i], i == 0, bits);
    for (int32_t i = 0; i < m[WHOLE_MORE]; i++)
        set_bit(bits, more[i]);
}

static int32_t near_mask(lx_places *p, int32_t near)
{
    if (p->places[near].near >= 0)
        return p->places[near].near;
    int32_t n_exits = 0;
    memset(p->near_bits, 0, (size_t)p->words_of_mask * sizeof *p->near_bits);
    int32_t mask = walk(p, 0, p->w->n_nodes, near, p->near_bits, &n_exits);
    if (mask == 0)
        mask = keep_mask(p, p->near_bits, n_exits);
    if (mask >= 0)
        p->places[near].near = mask;
    return mask;
}

/* The stacks of the place on this one, without it: as if any rule had called theirs. */
static int32_t near_place(lx_places *p, const spot *f, int32_t below)
{
    begin(p);
    for (int32_t i = 0; i < f->n; i++) {
        const stack *s = &p->stacks[p->words[f->list + i]];
        if (s->node >= 0 && s->below == below)
            open_stack(p, p->m->alike[s->node], CALLER);
    }
    return end(p);
}

static int32_t add_stacks_on(lx_places *p, const spot *f, int32_t below, uint32_t *bits)
{
    int32_t near = near_place(p, f, below), caller = LX_PLACE_DEAD;
    int32_t mask = near < 0 ? near : near_mask(p, near);
    if (mask < 0)
        return mask;
    add_mask(p, mask, p->n_near == 0, bits);
    p->near[p->n_near++] = mask;
    if (below >= N_FIXED) {
        begin(p);
        open_stack(p, p->stacks[below].node, p->stacks[below].below);
        caller = end(p);
    }
    const int32_t *exits = exits_of(p, mask);
    int32_t n_exits = p->words[mask + HEAD_EXITS], st = caller < 0 ? caller : 0;
    p->listing = true;
    for (int32_t i = 0; st == 0 && caller > 0 && i < n_exits; i++)
        st = walk(p, exits[i] + 1, p->w->nodes[exits[i]].after, caller, bits, NULL);
    p->listing = false;
    return st;
}

static bool is_first_on(const lx_places *p, const spot *f, int32_t i)
{
    int32_t below = p->stacks[p->words[f->list + i]].below;
    for (int32_t j = 0; j < i; j++) {
        if (p->stacks[p->words[f->list + j]].below == below)
            return false;
    }
    return below >= 0;
}

static int32_t make_mask(lx_places *p, int32_t place, uint32_t *bits)
{
    const spot f = p->places[place];
    int32_t deepest = 0, st = 0;
    p->work = p->n_near = p->n_more = 0;
    p->listing = false;
    for (int32_t i = 0; i < f.n; i++) {
        int32_t depth = p->stacks[p->words[f.list + i]].depth;
        deepest = depth > deepest ? depth : deepest;
    }
    if (deepest > NEAR_DEPTH || !reads_bytes(p, place))
        memset(bits, 0, (size_t)p->words_of_mask * sizeof *bits);
    if (deepest > NEAR_DEPTH) { /* a near mask does not know how deep the caller is */
        p->listing = true;
        st = walk(p, 0, p->w->n_nodes, place, bits, NULL);
    }
    for (int32_t i = 0; deepest <= NEAR_DEPTH && st == 0 && i < f.n; i++) {
        if (is_first_on(p, &f, i))
            st = add_stacks_on(p, &f, p->stacks[p->words[f.list + i]].below, bits);
    }
    p->listing = true;
    for (int32_t i = 0; lx_places_may_end(p, place) && i < *p->w->n_ends; i++)
        note_token(p, bits, p->w->ends[i]);
    p->listing = false;
    return st;
}

static int32_t first_bit(const uint32_t *bits)
{
    int32_t i = 0;
    while (bits[i] == 0)
        i++;
    return 32 * i + __builtin_ctz(bits[i]);
}

/* The number of bits that are set, as far as it is asked for: MOST stands for more. */
static int32_t count_few(const uint32_t *bits, int32_t n)
{
    int32_t count = 0;
    for (int32_t i = 0; i < n && count < LX_MASK_MANY; i++)
        count += bits[i] != 0 ? __builtin_popcount(bits[i]) : 0;
    return count < LX_MASK_MANY ? count : LX_MASK_MANY;
}

/* A mask is kept when it is asked for again. A long text of bounded length has a place for each of
   its characters. Masks that are needed once must not take the room of masks that come again. */
int32_t lx_places_mask(lx_places *p, int32_t place, uint32_t *bits, int32_t *only)
{
    spot *f = &p->places[place];
    if (f->mask >= 0) {
        add_whole(p, f->mask, bits);
    } else {
        int32_t st = make_mask(p, place, bits);
        int32_t mask = st == 0 && f->mask == ASKED ? keep_whole(p, bits) : ASKED;
        if (st < 0 || (mask < 0 && mask != ASKED))
            return st < 0 ? st : mask;
        f->mask = mask;
    }
    int32_t n = count_few(bits, p->words_of_mask);
    *only = n == 1 ? first_bit(bits) : -1;
    return n;
}
