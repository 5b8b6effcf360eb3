/*
 * Mamba-2 (Dao and Gu 2024, "Transformers are SSMs"), a whole layer unless `feed_forward` is true.
 * H heads of V values; K numbers of state to a value; B and C are of G groups, H / G heads to each:
 *
 *     z, u, d = W_in x                 H V, H V + 2 G K, and H numbers
 *     v, B, C = silu(conv(u) + b)      H V, G K and G K of them
 *     t = softplus(d + dt_bias)        w = exp(-exp(A_log) t), both a number per head
 *     S = w S + B (t v)^T              y = S^T C + D v
 *     A(x) = W_out n(y)
 *
 * The factors z_scale, v_scale, b_scale, c_scale and d_scale of these columns of W_in x, and
 * out_scale of n(y), are 1 unless the config has them.
 *
 * n: with norm "gate_first" rms_norm(y silu(z)) gamma, of the groups each by itself, "gate_last"
 * rms_norm(y) gamma silu(z), "none" y silu(z). (transformers norms the row at once when it does not
 * train, which is equal for one group; the authors' code and fla do it by groups.)
 *
 * Tensors: attn.in, attn.out, with `bias` "products" or "both" a bias each; attn.conv.weight
 * [columns of u, taps], with "conv" or "both" attn.conv.bias; attn.A_log, attn.D, attn.dt_bias [H];
 * attn.norm.weight [H V] unless norm is "none".
 * State: of a head S [K, V]; once the last inputs of the convolution, conv.
 */
#include "model/mixers/recurrent.h"

static const char *const biases[] = {"none", "conv", "products", "both", NULL};
static const char *const norms[] = {"none", "gate_first", "gate_last", NULL};
static const lx_mixer_param params[] = {
    {.name = "groups", .kind = LX_PARAM_INT, .min = 1, .max = 1024},
    {.name = "conv", .kind = LX_PARAM_INT, .min = 2, .max = LX_CONV_MOST_TAPS},
    {.name = "bias", .kind = LX_PARAM_WORD, .words = biases},
    {.name = "norm", .kind = LX_PARAM_WORD, .words = norms},
    {.name = "eps", .kind = LX_PARAM_EPS},
    {.name = "feed_forward", .kind = LX_PARAM_FLAG, .optional = true},
    {.name = "z_scale", .kind = LX_PARAM_SCALE, .optional = true},
    {.name = "v_scale", .kind = LX_PARAM_SCALE, .optional = true},
    {.name = "b_scale", .kind = LX_PARAM_SCALE, .optional = true},
    {.name = "c_scale", .kind = LX_PARAM_SCALE, .optional = true},
    {.name = "d_scale", .kind = LX_PARAM_SCALE, .optional = true},
    {.name = "out_scale", .kind = LX_PARAM_SCALE, .optional = true},
};

enum { GROUPS, TAPS, BIAS, NORM, EPS, FEED_FORWARD, Z_SCALE, OUT_SCALE = Z_SCALE + 5 }; /* params */
enum { BIAS_NONE, BIAS_CONV, BIAS_PRODUCTS, BIAS_BOTH }; /* values of BIAS */
enum { NORM_NONE, NORM_GATE_FIRST };                     /* of NORM */
enum { W_IN, W_OUT, CONV, A_LOG, SKIP, DT_BIAS, MORE };  /* tensors; the optional ones last */
enum { CONV_TAPS, DECAY_FACTOR, IN_FACTOR, OUT_FACTOR }; /* derived; the last two if scaled */
enum { PROJECTED, CONVOLVED, STEP, DECAY, Y };           /* scratch */

static int32_t inner_of(const lx_mixer_config *c)
{
    return c->n_heads * c->d_value;
}

/* Columns of u. */
static int32_t channels_of(const lx_mixer_config *c)
{
    return inner_of(c) + 2 * c->params[GROUPS].i * c->d_key;
}

static int32_t projected_of(const lx_mixer_config *c)
{
    return inner_of(c) + channels_of(c) + c->n_heads;
}

static bool has_conv_bias(const lx_mixer_config *c)
{
    return c->params[BIAS].i == BIAS_CONV || c->params[BIAS].i == BIAS_BOTH;
}

static bool is_scaled(const lx_mixer_config *c)
{
    bool scaled = false;
    for (int32_t i = Z_SCALE; i <= OUT_SCALE; i++)
        scaled = scaled || lx_mixer_scale(c, i) != 1;
    return scaled;
}

/* The factors of the columns of z, v, B, C and d. */
static void fill_factors(const lx_mixer_config *c, const lx_mixer_parts *p,
                         const lx_mixer_derived *d, const float *from, float *to)
{
    (void)p, (void)d, (void)from;
    int32_t shared = c->params[GROUPS].i * c->d_key;
    const int32_t columns[] = {inner_of(c), inner_of(c), shared, shared, c->n_heads};
    for (int32_t i = 0; i < OUT_SCALE - Z_SCALE; i++) {
        for (int32_t k = 0; k < columns[i]; k++)
            *to++ = lx_mixer_scale(c, Z_SCALE + i);
    }
}

static const char *check(const lx_mixer_config *c)
{
    return c->n_heads % c->params[GROUPS].i != 0 ? "groups must divide n_heads" : NULL;
}

static void declare(const lx_mixer_config *c, lx_mixer_parts *p)
{
    bool products = c->params[BIAS].i >= BIAS_PRODUCTS;
    int32_t inner = inner_of(c), channels = channels_of(c), projected = projected_of(c);
    int32_t taps = c->params[TAPS].i;
    (products ? lx_mixer_add_product : lx_mixer_add_map)(p, "attn.in", projected, c->d_model);
    (products ? lx_mixer_add_product : lx_mixer_add_map)(p, "attn.out", c->d_model, inner);
    lx_mixer_add_array(p, "attn.conv.weight", channels, taps);
    lx_mixer_add_array(p, "attn.A_log", 0, c->n_heads);
    lx_mixer_add_array(p, "attn.D", 0, c->n_heads);
    lx_mixer_add_array(p, "attn.dt_bias", 0, c->n_heads);
    if (has_conv_bias(c))
        lx_mixer_add_array(p, "attn.conv.bias", 0, channels);
    if (c->params[NORM].i != NORM_NONE)
        lx_mixer_add_array(p, "attn.norm.weight", 0, inner);
    lx_mixer_add_derived(p, CONV, 1, (int64_t)taps * channels, lx_mixer_fill_transposed);
    lx_mixer_add_derived(p, A_LOG, 1, c->n_heads, lx_mixer_fill_decay);
    if (is_scaled(c)) {
        lx_mixer_add_derived(p, 0, 0, projected, fill_factors);
        lx_mixer_add_constant(p, inner, (double)lx_mixer_scale(c, OUT_SCALE));
    }
    const int64_t scratch[] = {[PROJECTED] = projected,
                               [CONVOLVED] = channels,
                               [STEP] = c->n_heads,
                               [DECAY] = c->n_heads,
                               [Y] = inner};
    for (int32_t i = 0; i <= Y; i++)
        lx_mixer_add_scratch(p, scratch[i]);
    p->n_heads = c->n_heads;
    lx_mixer_add_field(p, "S", c->d_key, c->d_value);
    lx_mixer_add_field_once(p, "conv", taps - 1, channels);
}

static void queue_convolution(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    call->be->ops->short_conv(
        call->be,
        &(lx_short_conv_args){.y = call->scratch[CONVOLVED],
                              .x = {call->scratch[PROJECTED], projected_of(c), inner_of(c)},
                              .weights = call->derived[CONV_TAPS],
                              .bias = has_conv_bias(c) ? call->arrays[MORE] : NULL,
                              .states = call->states,
                              .offset = call->offset + lx_mixer_heads_floats(call->parts),
                              .d = channels_of(c),
                              .taps = c->params[TAPS].i,
                              .f = LX_FN_SILU});
}

/* t of every head, or w where there is a factor. */
static void queue_steps(const lx_mixer_call *call, lx_array *y, const lx_array *factor)
{
    const lx_mixer_config *c = call->config;
    const lx_columns d = {call->scratch[PROJECTED], projected_of(c), inner_of(c) + channels_of(c)};
    call->be->ops->gate(call->be, &(lx_gate_args){.y = y,
                                                  .x = d,
                                                  .bias = call->arrays[DT_BIAS],
                                                  .factor = factor,
                                                  .d = c->n_heads,
                                                  .f = LX_FN_SOFTPLUS,
                                                  .exponent = factor != NULL,
                                                  .rows = LX_ROWS_TOKENS});
}

static void queue_recurrence(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    int32_t width = channels_of(c), inner = inner_of(c), groups = c->params[GROUPS].i;
    int32_t shared = c->n_heads / groups;
    const lx_head_columns read = {s[CONVOLVED], width, inner + groups * c->d_key, c->d_key, shared};
    const lx_head_columns write = {s[CONVOLVED], width, inner, c->d_key, shared};
    lx_mixer_recur(call, (lx_recurrence_args){.y = s[Y],
                                              .q = read,
                                              .k = write,
                                              .v = {s[CONVOLVED], width, 0, c->d_value, 1},
                                              .w = lx_mixer_heads(s[DECAY], c->n_heads, 1),
                                              .beta = lx_mixer_heads(s[STEP], c->n_heads, 1),
                                              .skip = call->arrays[SKIP],
                                              .decay = LX_DECAY_HEAD,
                                              .scale = 1});
}

/* n(y) */
static void queue_norm(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *y = call->scratch[Y];
    int32_t inner = inner_of(c), groups = c->params[GROUPS].i;
    const lx_columns z = {call->scratch[PROJECTED], projected_of(c), 0};
    if (c->params[NORM].i == NORM_NONE) {
        call->be->ops->gate(call->be, &(lx_gate_args){.y = y,
                                                      .x = z,
                                                      .z = {y, inner, 0},
                                                      .d = inner,
                                                      .f = LX_FN_SILU,
                                                      .weighing = LX_WEIGH_TIMES,
                                                      .rows = LX_ROWS_TOKENS});
        return;
    }
    lx_mixer_norm_heads(
        call, y, groups, inner / groups,
        (lx_head_norm_args){.gate = z,
                            .gamma = call->arrays[has_conv_bias(c) ? MORE + 1 : MORE],
                            .kind = LX_NORM_RMS,
                            .f = LX_FN_SILU,
                            .gate_first = c->params[NORM].i == NORM_GATE_FIRST,
                            .eps = c->params[EPS].f});
}

static void queue(const lx_mixer_call *call)
{
    const lx_mixer_config *c = call->config;
    lx_array *const *s = call->scratch;
    bool scaled = is_scaled(c);
    lx_mixer_product(call, s[PROJECTED], call->x, W_IN, LX_ACT_NONE, NULL);
    if (scaled)
        lx_mixer_gate(call, s[PROJECTED], projected_of(c),
                      (lx_gate_args){.factor = call->derived[IN_FACTOR]});
    queue_convolution(call);
    queue_steps(call, s[STEP], NULL);
    queue_steps(call, s[DECAY], call->derived[DECAY_FACTOR]);
    queue_recurrence(call);
    queue_norm(call);
    if (scaled)
        lx_mixer_gate(call, s[Y], inner_of(c), (lx_gate_args){.factor = call->derived[OUT_FACTOR]});
    lx_mixer_end(call, s[Y], W_OUT, s[PROJECTED]);
}

LX_MIXER(mamba2, .summary = "Mamba-2 (Dao and Gu 2024)", .is_whole_layer = true,
         .feed_forward = FEED_FORWARD + 1, .check = check);
