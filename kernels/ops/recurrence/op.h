/*
 * The recurrence of modern linear-recurrent kinds: each head has a matrix S [K, V] that decays and
 * is corrected. For every token of every sequence in order and every head:
 *     R  = diag(w) S                                   w = 1 without decay
 *     NONE    S' = R + k (beta v)^T                    beta = 1 when there is none
 *     DELTA   S' = R + k (beta (v - R^T k))^T
 *     PAIR    S' = R + b (S^T a)^T + k (beta v)^T
 *     AFTER   y  = scale S'^T q + skip v               skip = 0 when there is none
 *     BEFORE  y  = scale (S + diag(bonus) k v^T)^T q + skip v        only with NONE, without beta
 * w is the factor itself, not its logarithm. The state of head h begins at offset + h * K * V
 * floats of the slot, row-major.
 *
 *     kind            decay    correction  shared  the rest
 *     linear          NONE     NONE                scale K^-1/2
 *     RetNet          FIXED    NONE                scale K^-1/2
 *     Lightning       FIXED    NONE                scale 1
 *     GLA             CHANNEL  NONE                scale K^-1/2
 *     HGRN2           CHANNEL  NONE                scale K^-1/2, k = 1 - w
 *     RWKV-6          CHANNEL  NONE                BEFORE, bonus u, scale 1
 *     Mamba-2         HEAD     NONE        q, k    q = C, k = B, v = x, beta = dt, skip = D
 *     DeltaNet        NONE     DELTA               beta, scale K^-1/2
 *     Gated DeltaNet  HEAD     DELTA       q, k    beta, scale K^-1/2
 *     KDA             CHANNEL  DELTA               beta, scale K^-1/2
 *     GDN-2           CHANNEL  PAIR                a = w * erase * k, b = -k, v = write * v
 *     RWKV-7          CHANNEL  PAIR                a = -kk, b = kk * rate, scale 1
 */

/*
 * The columns that a head reads of a token's row: as many as the argument's `length`, from
 *     first + h / shared * apart
 * for head h. So projections need no copying, and `shared` neighbouring heads may read the same
 * columns (Mamba-2's groups, several value heads per key head). With shared = 1 each head has its
 * own.
 */
typedef struct lx_head_columns {
    const lx_array *array; /* [T, width] */
    int32_t width;
    int32_t first, apart; /* columns */
    int32_t shared;       /* divides the number of heads */
} lx_head_columns;

typedef enum lx_decay {
    LX_DECAY_NONE,
    LX_DECAY_FIXED,  /* w: one number per head for all tokens; its array is one row, [width] */
    LX_DECAY_HEAD,   /* w: one number per head */
    LX_DECAY_CHANNEL /* w: K numbers per head */
} lx_decay;

typedef enum lx_correction {
    LX_CORRECT_NONE,
    LX_CORRECT_DELTA, /* the new value replaces the decayed state's value under k */
    LX_CORRECT_PAIR   /* b (S^T a)^T is added, with vectors a and b of their own */
} lx_correction;

typedef enum lx_read { LX_READ_AFTER, LX_READ_BEFORE } lx_read;

typedef struct lx_recurrence_args {
    lx_array *y;             /* [T, H * V] */
    lx_head_columns q, k, v; /* length K, K, V */
    lx_head_columns w;       /* length 1 or K, see lx_decay; ignored without decay */
    lx_head_columns a, b;    /* length K; PAIR only */
    lx_head_columns beta;    /* length 1; array NULL for none */
    const lx_array *bonus;   /* [H * K], BEFORE only; NULL for none */
    const lx_array *skip;    /* [H]; NULL for none */
    lx_states *states;
    int64_t offset; /* of this layer's part of a slot, in floats */
    int32_t n_heads, d_key, d_value;
    lx_decay decay;
    lx_correction correction;
    lx_read read;
    float scale;
} lx_recurrence_args;
