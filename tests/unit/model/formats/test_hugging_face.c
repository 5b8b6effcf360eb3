/*
 * Folders in Hugging Face's format. RWKV-7 under fla's names gives the bits of the same numbers
 * under Linnet's names. Keys that are not implemented are refused by name. A trained model of
 * 834,000 parameters, if it is at hand, gives the logits that its authors' repository expects of
 * it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/formats/file.h"
#include "model/transformer.h"
#include "tests/support/scratch.h"
#include "tests/support/tensor_file.h"

enum { LAYERS = 2, D = 16, FF = 32, RANK = 4, HEADS = 2, IDS = 256, ROWS = 20 };

/* --- a model of random numbers --- */

static const struct {
    const char *own, *theirs, *shape, *their_shape; /* NULL: as in `own`, `shape` */
    int32_t n;
    float mean, scale;
} parts[] = {
    {"norm1.weight", "attn_norm.weight", "[16]", NULL, D, 1, 0.2f},
    {"norm1.bias", "attn_norm.bias", "[16]", NULL, D, 0, 0.2f},
    {"norm2.weight", "ffn_norm.weight", "[16]", NULL, D, 1, 0.2f},
    {"norm2.bias", "ffn_norm.bias", "[16]", NULL, D, 0, 0.2f},
    {"attn.x_r", "attn.x_r", "[16]", "[1,1,16]", D, 0.5f, 0.5f},
    {"attn.x_w", "attn.x_w", "[16]", "[1,1,16]", D, 0.5f, 0.5f},
    {"attn.x_k", "attn.x_k", "[16]", "[1,1,16]", D, 0.5f, 0.5f},
    {"attn.x_v", "attn.x_v", "[16]", "[1,1,16]", D, 0.5f, 0.5f},
    {"attn.x_a", "attn.x_a", "[16]", "[1,1,16]", D, 0.5f, 0.5f},
    {"attn.x_g", "attn.x_g", "[16]", "[1,1,16]", D, 0.5f, 0.5f},
    {"attn.r.weight", "attn.r_proj.weight", "[16,16]", NULL, D *D, 0, 0.4f},
    {"attn.k.weight", "attn.k_proj.weight", "[16,16]", NULL, D *D, 0, 0.4f},
    {"attn.v.weight", "attn.v_proj.weight", "[16,16]", NULL, D *D, 0, 0.4f},
    {"attn.out.weight", "attn.o_proj.weight", "[16,16]", NULL, D *D, 0, 0.4f},
    {"attn.w1.weight", "attn.w_lora.lora.0.weight", "[4,16]", NULL, D *RANK, 0, 0.4f},
    {"attn.w2.weight", "attn.w_lora.lora.2.weight", "[16,4]", NULL, D *RANK, 0, 0.4f},
    {"attn.w2.bias", "attn.w_lora.lora.2.bias", "[16]", NULL, D, 0, 0.4f},
    {"attn.a1.weight", "attn.a_lora.lora.0.weight", "[4,16]", NULL, D *RANK, 0, 0.4f},
    {"attn.a2.weight", "attn.a_lora.lora.2.weight", "[16,4]", NULL, D *RANK, 0, 0.4f},
    {"attn.a2.bias", "attn.a_lora.lora.2.bias", "[16]", NULL, D, 0, 0.4f},
    {"attn.g1.weight", "attn.g_lora.lora.0.weight", "[4,16]", NULL, D *RANK, 0, 0.4f},
    {"attn.g2.weight", "attn.g_lora.lora.2.weight", "[16,4]", NULL, D *RANK, 0, 0.4f},
    {"attn.k_k", "attn.k_k", "[16]", NULL, D, 1, 0.4f},
    {"attn.k_a", "attn.k_a", "[16]", NULL, D, 1, 0.4f},
    {"attn.r_k", "attn.r_k", "[2,8]", NULL, D, 0, 0.4f},
    {"attn.norm.weight", "attn.g_norm.weight", "[16]", NULL, D, 1, 0.4f},
    {"attn.norm.bias", "attn.g_norm.bias", "[16]", NULL, D, 0, 0.4f},
    {"ff.x_k", "ffn.x_k", "[16]", NULL, D, 0.5f, 0.5f},
    {"ff.key.weight", "ffn.key.weight", "[32,16]", NULL, D *FF, 0, 0.4f},
    {"ff.value.weight", "ffn.value.weight", "[16,32]", NULL, D *FF, 0, 0.4f},
    {"attn.v1.weight", "attn.v_lora.lora.0.weight", "[4,16]", NULL, D *RANK, 0, 0.4f},
    {"attn.v2.weight", "attn.v_lora.lora.2.weight", "[16,4]", NULL, D *RANK, 0, 0.4f},
    {"attn.v2.bias", "attn.v_lora.lora.2.bias", "[16]", NULL, D, 0, 0.4f},
};

enum { PARTS = sizeof parts / sizeof *parts, NOT_IN_LAYER_0 = 3 };

static const char theirs[] =
    "{\"model_type\": \"rwkv7\", \"architectures\": [\"RWKV7ForCausalLM\"], \"attn\": null, "
    "\"attn_mode\": \"chunk\", \"hidden_size\": 16, \"head_dim\": 8, \"num_heads\": null, "
    "\"num_hidden_layers\": 2, \"intermediate_size\": 32, \"hidden_ratio\": 4.0, "
    "\"hidden_act\": \"sqrelu\", \"decay_low_rank_dim\": 4, \"a_low_rank_dim\": 4, "
    "\"v_low_rank_dim\": 4, \"gate_low_rank_dim\": 4, \"norm_first\": true, \"norm_bias\": true, "
    "\"norm_eps\": 1e-05, \"vocab_size\": 256, \"value_dim\": [16, 16], \"eos_token_id\": 2, "
    "\"tie_word_embeddings\": false, \"max_position_embeddings\": 2048, \"fuse_norm\": false}";

static const char own[] =
    "{\"format\": \"linnet\", \"format_version\": 1, \"task\": \"text\", \"n_layers\": 2, "
    "\"n_heads\": 2, \"d_model\": 16, \"d_ff\": 32, \"norm\": \"pre\", \"norm_eps\": 1e-05, "
    "\"input_norm\": true, \"activation\": \"relu\", \"attention\": {\"kind\": \"rwkv7\", "
    "\"w_rank\": 4, \"a_rank\": 4, \"v_rank\": 4, \"g_rank\": 4, \"group_eps\": 8e-05}, "
    "\"feed_forward\": {\"kind\": \"channel_mix\"}, "
    "\"inputs\": [{\"name\": \"token\", \"size\": 256}], "
    "\"head\": {\"kind\": \"categorical\", \"size\": 256}, "
    "\"text\": {\"tokenizer\": \"bytes\", \"context\": 2048, \"end\": [2]}}";

static void add_random(tensor_file *w, const char *name, const char *shape, int32_t n, float mean,
                       float scale, uint64_t *random)
{
    float values[IDS * D];
    for (int32_t i = 0; i < n; i++)
        values[i] = mean + scale * ((float)(scratch_random(random) >> 40) * 0x1p-23f - 1.0f);
    tensor_file_add(w, name, shape, false, values, (size_t)n);
}

/* Writes one set of numbers under Linnet's or fla's names; tied: without a head of its own, or with
   a `stored` one that is ignored. */
static void write_numbers(bool is_own, bool tied, bool stored, const char *config)
{
    tensor_file w = {.n_header = 0};
    char name[128];
    uint64_t random = 3, again = 3;
    static const float zeros[IDS];
    add_random(&w, is_own ? "embed.token.weight" : "model.embeddings.weight", "[256,16]", IDS * D,
               0, 0.5f, &random);
    add_random(&w, is_own ? "input_norm.weight" : "model.layers.0.pre_norm.weight", "[16]", D, 1,
               0.3f, &random);
    add_random(&w, is_own ? "input_norm.bias" : "model.layers.0.pre_norm.bias", "[16]", D, 0, 0.3f,
               &random);
    for (int32_t i = 0; i < LAYERS * PARTS; i++) {
        int32_t layer = i / PARTS, p = i % PARTS;
        if (layer == 0 && p >= PARTS - NOT_IN_LAYER_0)
            continue;
        (void)snprintf(name, sizeof name, "%slayers.%d.%s", is_own ? "" : "model.", layer,
                       is_own ? parts[p].own : parts[p].theirs);
        add_random(&w, name,
                   is_own || parts[p].their_shape == NULL ? parts[p].shape : parts[p].their_shape,
                   parts[p].n, parts[p].mean, parts[p].scale, &random);
    }
    add_random(&w, is_own ? "final_norm.weight" : "model.norm.weight", "[16]", D, 1, 0.3f, &random);
    add_random(&w, is_own ? "final_norm.bias" : "model.norm.bias", "[16]", D, 0, 0.3f, &random);
    if (is_own || !tied || stored) /* tied: the embedding's numbers again */
        add_random(&w, is_own ? "head.weight" : "lm_head.weight", "[256,16]", IDS * D, 0, 0.5f,
                   tied ? &again : &random);
    if (is_own)
        tensor_file_add(&w, "head.bias", "[256]", false, zeros, IDS);
    tensor_file_write_folder(&w, config);
}

static void write_random(bool is_own, bool tied, const char *config)
{
    write_numbers(is_own, tied, false, config);
}

/* --- running models --- */

static lx_model *load(void)
{
    lx_model *m = NULL;
    lx_error err = {0};
    char dir[2048];
    (void)snprintf(dir, sizeof dir, "%s", scratch_path(""));
    must(lx_model_load(dir, &m, &err), &err);
    return m;
}

/* The logits of n bytes, the last n_outputs of them. */
static void run(const char *backend, const int32_t *ids, int32_t n, int32_t n_outputs,
                float *logits)
{
    int32_t seq_start[] = {0, n}, slot = 0, output_row[ROWS];
    lx_sampling sampling[ROWS];
    lx_sample samples[ROWS];
    lx_error err = {0};
    lx_backend *be = NULL;
    lx_transformer *t = NULL;
    lx_states *states = NULL;
    lx_model *m = load();
    must(lx_backend_open(backend, &(lx_backend_options){.n_threads = 1}, &be, &err), &err);
    must(lx_transformer_new(m, be, ROWS, ROWS, &t, &err), &err);
    must(lx_transformer_states_new(t, 1, ROWS, &states, &err), &err);
    for (int32_t i = 0; i < n_outputs; i++) {
        output_row[i] = n - n_outputs + i;
        sampling[i] = (lx_sampling){.top_p = 1, .forced = 0};
    }
    lx_step step = {.batch = {.n_tokens = n,
                              .n_seqs = 1,
                              .seq_start = seq_start,
                              .slot = &slot,
                              .n_outputs = n_outputs,
                              .output_row = output_row},
                    .ids = ids,
                    .sampling = sampling,
                    .samples = samples,
                    .logits = logits};
    must(lx_transformer_step(t, states, &step, &err), &err);
    lx_transformer_states_free(t, states);
    lx_transformer_free(t);
    be->ops->close(be);
    lx_model_free(m);
}

static void their_names_give_our_bits(void **state)
{
    (void)state;
    static float want[ROWS * IDS], got[ROWS * IDS];
    static const char *const backends[] = {"reference", "cpu"};
    int32_t ids[ROWS];
    uint64_t random = 8;
    for (int32_t i = 0; i < ROWS; i++)
        ids[i] = (int32_t)(scratch_random(&random) >> 33) % IDS;
    for (int i = 0; i < 6; i++) {
        bool tied = i >= 2;
        char *config = tied ? scratch_replace(theirs, "\"tie_word_embeddings\": false",
                                              "\"tie_word_embeddings\": true")
                            : strdup(theirs);
        write_random(true, tied, own);
        run(backends[i % 2], ids, ROWS, ROWS, want);
        write_numbers(false, tied, i >= 4, config); /* the last two store it nevertheless */
        run(backends[i % 2], ids, ROWS, ROWS, got);
        free(config);
        for (int32_t k = 0; k < ROWS * IDS; k++) {
            if (!(want[k] == got[k])) /* NaN fails, too */
                fail_msg("logit %d is %g, not %g", k, (double)got[k], (double)want[k]);
        }
    }
}

/* --- features that are not implemented --- */

static const struct {
    const char *from, *to, *part;
} refusals[] = {
    {"\"rwkv7\"", "\"rwkv9\"", "model_type rwkv9 is not supported; supported types: \"rwkv7\""},
    {"\"rwkv7\"", "7", "model_type"},
    {"\"attn\": null", "\"attn\": {\"layers\": [1]}", "attn.num_heads must divide"},
    {"\"sqrelu\"", "\"relu\"", "hidden_act must be \"sqrelu\""},
    {"\"norm_bias\": true", "\"norm_bias\": false", "norm_bias must be true"},
    {"\"hidden_size\": 16", "\"hidden_size\": 0", "hidden_size must be a whole number from 1"},
    {"\"hidden_size\": 16", "\"hidden_size\": 17", "hidden_size must be a multiple of head_dim"},
    {"\"head_dim\": 8", "\"head_dim\": null", "hidden_size must be a multiple of head_dim"},
    {"\"value_dim\": [16, 16]", "\"value_dim\": [16, 32]", "value_dim must be hidden_size"},
    {"\"value_dim\": [16, 16]", "\"value_dim\": 32", "value_dim must be hidden_size"},
    {"\"norm_eps\": 1e-05", "\"norm_eps\": 2", "norm_eps must be a number"},
    {"\"norm_first\": true", "\"norm_first\": 1", "norm_first must be true or false"},
    {"\"eos_token_id\": 2", "\"eos_token_id\": 256", "eos_token_id must be a token"},
    {"\"vocab_size\": 256", "\"vocab_size\": 300", "must have a tokenizer.json"},
    {"\"fuse_norm\": false", "\"quantization_config\": {}", "quantization_config is not a known"},
    {"\"decay_low_rank_dim\": 4", "\"decay_low_rank_dim\": 5",
     "model.layers.0.attn.w_lora.lora.0.weight has shape [4, 16]"},
    {"\"decay_low_rank_dim\": 4", "\"decay_low_rank_dim\": null", "the config asks for [32, 16]"},
    {"\"intermediate_size\": 32", "\"intermediate_size\": null", "the config asks for [64, 16]"},
    {"\"norm_first\": true", "\"norm_first\": false",
     "tensor model.layers.0.pre_norm.weight is not one"},
    {"\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true",
     "tensor lm_head.weight is not model.embeddings.weight, to which config.json ties it"},
};

static void what_is_not_implemented_is_refused_by_name(void **state)
{
    (void)state;
    char dir[2048];
    write_random(false, false, theirs);
    (void)snprintf(dir, sizeof dir, "%s", scratch_path(""));
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        lx_model *m = NULL;
        lx_error err = {0};
        char *config = scratch_replace(theirs, refusals[i].from, refusals[i].to);
        (void)scratch_write("config.json", config, strlen(config));
        free(config);
        scratch_expect(lx_model_load(dir, &m, &err), &err, LX_ERR_FORMAT, refusals[i].part);
        assert_null(m);
    }
}

/* --- a trained model: tiny-rwkv-7v0-834K-FP32.bin of RWKV/rwkv.cpp --- */

static const char trained[] =
    "{\"model_type\": \"rwkv7\", \"hidden_size\": 64, \"head_dim\": 64, "
    "\"num_hidden_layers\": 12, \"intermediate_size\": 256, \"decay_low_rank_dim\": 32, "
    "\"a_low_rank_dim\": 32, \"v_low_rank_dim\": 32, \"gate_low_rank_dim\": 32, "
    "\"vocab_size\": 256}";

/* Its names and fla's names, inside a layer after "blocks.I." and "model.layers.I.". */
static const char *const trained_names[][2] = {
    {"emb.weight", "model.embeddings.weight"},
    {"ln_out.weight", "model.norm.weight"},
    {"ln_out.bias", "model.norm.bias"},
    {"head.weight", "lm_head.weight"},
    {"ln0", "pre_norm"},
    {"ln1", "attn_norm"},
    {"ln2", "ffn_norm"},
    {"att.ln_x", "attn.g_norm"},
    {"att.receptance", "attn.r_proj"},
    {"att.key", "attn.k_proj"},
    {"att.value", "attn.v_proj"},
    {"att.output", "attn.o_proj"},
    {"att.w1", "attn.w_lora.lora.0.weight"},
    {"att.w2", "attn.w_lora.lora.2.weight"},
    {"att.w0", "attn.w_lora.lora.2.bias"},
    {"att.a1", "attn.a_lora.lora.0.weight"},
    {"att.a2", "attn.a_lora.lora.2.weight"},
    {"att.a0", "attn.a_lora.lora.2.bias"},
    {"att.v1", "attn.v_lora.lora.0.weight"},
    {"att.v2", "attn.v_lora.lora.2.weight"},
    {"att.v0", "attn.v_lora.lora.2.bias"},
    {"att.g1", "attn.g_lora.lora.0.weight"},
    {"att.g2", "attn.g_lora.lora.2.weight"},
    {"att", "attn"},
    {"ffn", "ffn"},
};

static void rename_trained(const char *name, char *out, size_t size)
{
    char prefix[40] = "";
    const char *rest = name;
    if (strncmp(name, "blocks.", 7) == 0) {
        size_t digits = strspn(name + 7, "0123456789");
        (void)snprintf(prefix, sizeof prefix, "model.layers.%.*s.", (int)digits, name + 7);
        rest = name + 7 + digits + 1;
    }
    for (size_t i = 0; i < sizeof trained_names / sizeof *trained_names; i++) {
        size_t n = strlen(trained_names[i][0]);
        if (strncmp(rest, trained_names[i][0], n) == 0 && (rest[n] == '.' || rest[n] == '\0')) {
            (void)snprintf(out, size, "%s%s%s", prefix, trained_names[i][1], rest + n);
            return;
        }
    }
    fail_msg("%s", name);
}

/* A tensor of the file: u32 dims, name's length, type; sizes, the fastest first; name; f32. */
typedef struct trained_tensor {
    char name[64];
    uint32_t n_dims, size[3];
    const char *data;
    size_t n;
} trained_tensor;

static const char *next_tensor(const char *at, trained_tensor *t)
{
    uint32_t head[3];
    memcpy(head, at, sizeof head);
    assert_true(head[0] >= 1 && head[0] <= 3 && head[1] < sizeof t->name && head[2] == 0);
    *t = (trained_tensor){.n_dims = head[0], .size = {1, 1, 1}};
    memcpy(t->size, at + sizeof head, head[0] * sizeof *t->size);
    at += sizeof head + head[0] * sizeof *t->size;
    memcpy(t->name, at, head[1]);
    t->data = at + head[1];
    t->n = (size_t)t->size[0] * t->size[1] * t->size[2];
    return t->data + t->n * sizeof(float);
}

/* One tensor holds the six mixes in order. */
static void add_mixes(tensor_file *w, const char *prefix, const float *values)
{
    char name[160];
    for (int i = 0; i < 6; i++) {
        (void)snprintf(name, sizeof name, "%s%c", prefix, "rwkvag"[i]);
        tensor_file_add(w, name, "[1,1,64]", false, values + i * 64, 64);
    }
}

static void add_trained(tensor_file *w, const trained_tensor *t)
{
    char name[128], shape[48], *mixes;
    float *values = malloc(t->n * sizeof *values);
    assert_non_null(values);
    memcpy(values, t->data, t->n * sizeof *values);
    rename_trained(t->name, name, sizeof name);
    if (t->n_dims == 2)
        (void)snprintf(shape, sizeof shape, "[%u,%u]", t->size[1], t->size[0]);
    else
        (void)snprintf(shape, sizeof shape, "[%u]", t->size[0]);
    mixes = strstr(name, "rwkvag");
    if (mixes != NULL) {
        *mixes = '\0';
        add_mixes(w, name, values);
    } else {
        tensor_file_add(w, name, shape, false, values, t->n);
    }
    free(values);
}

static void a_trained_model_gives_the_expected_logits(void **state)
{
    (void)state;
    const char *folder = getenv("RWKV7_TINY") != NULL ? getenv("RWKV7_TINY") : RWKV7_TINY;
    char path[4096], *model = NULL, *expected = NULL;
    size_t n = 0, n_expected = 0;
    (void)snprintf(path, sizeof path, "%s/tiny-rwkv-7v0-834K-FP32.bin", folder);
    if (lx_file_read(path, (size_t)1 << 24, &model, &n, NULL) != LX_OK) {
        print_message("no %s: the trained model is not tested\n", path);
        skip();
    }
    (void)snprintf(path, sizeof path, "%s/expected-logits-7v0-834K.bin", folder);
    assert_int_equal(lx_file_read(path, IDS * sizeof(float), &expected, &n_expected, NULL), LX_OK);
    assert_int_equal(n_expected, IDS * sizeof(float));
    tensor_file *w = calloc(1, sizeof *w);
    trained_tensor t;
    assert_non_null(w);
    for (const char *at = model + 6 * sizeof(uint32_t); at < model + n;) {
        at = next_tensor(at, &t);
        add_trained(w, &t);
    }
    tensor_file_write_folder(w, trained);
    free(w);
    free(model);
    static const char *const backends[] = {"reference", "cpu"};
    const int32_t ids[] = {'"', 'i', 'n'};
    for (int i = 0; i < 2; i++) {
        float logits[IDS], want[IDS];
        double worst = 0;
        memcpy(want, expected, sizeof want);
        run(backends[i], ids, 3, 1, logits);
        for (int32_t k = 0; k < IDS; k++) {
            assert_true(isfinite(logits[k]));
            worst = fmax(worst, fabs((double)logits[k] - (double)want[k]));
        }
        print_message("%s: %g from the expected logits\n", backends[i], worst);
        if (worst >= 1e-5)
            fail_msg("%s: %g from the expected logits", backends[i], worst);
    }
    free(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(their_names_give_our_bits),
        cmocka_unit_test(what_is_not_implemented_is_refused_by_name),
        cmocka_unit_test(a_trained_model_gives_the_expected_logits),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
