/* Sampling of ids, and the settings of a row for every sampling operation. */

/* A change of one id's logit before sampling: l / divisor where l > 0 and l * divisor elsewhere,
   then + add, then kept within LX_MAX_LOGIT either way. */
typedef struct lx_bias {
    int32_t id;
    float add;     /* finite, not beyond LX_MAX_BIAS either way */
    float divisor; /* 0: none; else 1 / LX_MAX_DIVISOR .. LX_MAX_DIVISOR */
} lx_bias;

#define LX_MAX_BIAS 10000.0f
#define LX_MAX_DIVISOR 1000.0f
#define LX_MAX_LOGIT 3e38f
#define LX_MAX_TOP 20 /* ids that may be reported in addition to the sampled id */

/*
 * How one output row is sampled. Of the ids allowed (in `allowed`, not in `mask`, not in `banned`),
 * with b the logits after `biases` (in f32) and l = b / temperature:
 *   forced >= 0        that id, whatever the other fields say (scoring)
 *   temperature == 0   the largest b, the lowest id among equals
 *   otherwise          sort by l descending, equals by id, and keep
 *                        the first top_k (0: all);
 *                        of those the typical ones: with p the softmax of l over them and c the
 *                        f32 of sum p b, those with the smallest |b - c| (as f32; equals by id), as
 *                        few as have a share of typical_p (0 or >= 1: all, at least one). This is
 *                        the order by |log p + H|, H the entropy;
 *                        of those the shortest prefix whose share of them reaches top_p (>= 1: all,
 *                        at least one id);
 *                        of those the ids with b >= the f32 of g + temperature log(min_p), g the
 *                        largest b of the typical ones: p at least min_p times the largest p.
 *                      With u = lx_uniform(seed, sample, step, 0), the first id in this order whose
 *                      cumulative probability within the kept ids exceeds u. With top_k = 0,
 *                      top_p >= 1 and min_p = 0 nothing is sorted: the order is that of ids.
 */
typedef struct lx_sampling {
    uint64_t seed;
    uint32_t sample, step;
    float temperature;   /* >= 0 */
    float top_p;         /* > 0 */
    float min_p;         /* 0 .. 1 */
    float typical_p;     /* >= 0 */
    int32_t top_k;       /* >= 0 */
    int32_t forced;      /* -1 for none */
    const lx_mask *mask; /* NULL for none */
    /* [(n_ids + 31) / 32], host, bit i % 32 of word i / 32 set: id i is allowed; borrowed until
       sync(). NULL: all are */
    const uint32_t *allowed;
    int32_t n_banned;
    const int32_t *banned; /* [n_banned], host, any order, may repeat; borrowed until sync() */
    int32_t n_biases;
    const lx_bias *biases; /* [n_biases], host, ids strictly ascending; borrowed until sync() */
    int32_t n_top;         /* 0 .. LX_MAX_TOP, at most the number of ids */
    /* [n_top], host, written by sync(): the ids with the largest logits, equals by id, with
       log-probabilities as in lx_sample; all -1 and NAN when lx_sample has no token */
    struct lx_sample *top;
} lx_sampling;

typedef struct lx_sample {
    int32_t token; /* -1 when no id was allowed or a logit is not finite */
    /* log softmax(logits)[token], before bias, temperature, mask and cuts; NAN with -1 */
    float logprob;
} lx_sample;

/* Whether the numbers are within the ranges above. */
bool lx_bias_is_valid(const lx_bias *b);
bool lx_sampling_cuts_are_valid(const lx_sampling *s); /* temperature and cuts */

typedef struct lx_sample_args {
    const lx_array *logits; /* [n_outputs, n_ids] */
    int32_t n_ids;
    const lx_sampling *rows; /* [n_outputs], host; borrowed until sync() */
    lx_sample *out;          /* [n_outputs], host; written by sync() */
    lx_states *states;       /* where the tokens are kept (lx_drawn_id); NULL: nowhere */
} lx_sample_args;
