/*
 * Words of several inputs times words of weights. Included once per kind of word, after these:
 *
 *   WORD_ADD     the name of the function that is defined here
 *   WORD_SUM     the type of sixteen sums
 *   WORD_DOT     (sums, words of weights, word of inputs): the sums with the products added
 *   WORD_STRIDE  words from a row of inputs to the next
 */

#define WORD_PASTE(name, end) name##end
#define WORD_NAMED(name, end) WORD_PASTE(name, end)
#define WORD_ADD_1 WORD_NAMED(WORD_ADD, _1)
#define WORD_ADD_2 WORD_NAMED(WORD_ADD, _2)

/* Adds a word of inputs of all rows to the sums of panel v; x points to the word in the first row.
 */
V16_FN void WORD_ADD_1(WORD_SUM *sums, const uint32_t *x, v16u weights, const int v, const int rows,
                       const int panels)
{
#define BODY_ADD(r)                                                                                \
    if (r < rows)                                                                                  \
        sums[r * panels + v] = WORD_DOT(sums[r * panels + v], weights, x[r * WORD_STRIDE]);
    BODY_REPEAT(BODY_ADD)
#undef BODY_ADD
}

/* Adds it to panels v and v + 1. Each row's word is fetched once for both panels: a compiler that
   sees a second fetch keeps all words in registers that the sums need. */
V16_FN void WORD_ADD_2(WORD_SUM *sums, const uint32_t *x, v16u w0, v16u w1, const int v,
                       const int rows, const int panels)
{
#define BODY_ADD(r)                                                                                \
    if (r < rows) {                                                                                \
        uint32_t word = x[r * WORD_STRIDE];                                                        \
        sums[r * panels + v] = WORD_DOT(sums[r * panels + v], w0, word);                           \
        sums[r * panels + v + 1] = WORD_DOT(sums[r * panels + v + 1], w1, word);                   \
    }
    BODY_REPEAT(BODY_ADD)
#undef BODY_ADD
}

V16_FN void WORD_ADD(WORD_SUM *sums, const uint32_t *x, const uint32_t *w, const int v,
                     const int rows, const int panels)
{
    if (panels > 1)
        WORD_ADD_2(sums, x, v16_load_pairs(w), v16_load_pairs(w + 16), v, rows, panels);
    else
        WORD_ADD_1(sums, x, v16_load_pairs(w), v, rows, panels);
}

#undef WORD_ADD
#undef WORD_SUM
#undef WORD_DOT
#undef WORD_STRIDE
#undef WORD_PASTE
#undef WORD_NAMED
#undef WORD_ADD_1
#undef WORD_ADD_2
