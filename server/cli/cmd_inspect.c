/* linnet inspect: prints the content of a model folder, after all checks of loading. */
#include <inttypes.h>
#include <stdio.h>

#include "common/visible.h"
#include "model/facts.h"
#include "model/model.h"
#include "model/tasks/image.h"
#include "model/tasks/speech.h"
#include "model/weights.h"
#include "server/cli/cli.h"

typedef struct inspect_options {
    lx_cli_model_options local; /* the folder alone; nothing is computed */
    bool tensors, kinds, json;
} inspect_options;

#define LX_OPTIONS inspect_options
static const lx_option options[] = {
    LX_CLI_LOCAL_MODEL_OPTION("couplet"),
    LX_FLAG("tensors", tensors, "on", "Every tensor is listed."),
    LX_FLAG("kinds", kinds, "off",
            "The kinds of layers that are built in are listed, with their keys in config.json."),
    LX_CLI_JSON_OPTION,
};

static long long state_bytes(const lx_model *m)
{
    return (long long)(lx_model_state_floats(m, m->max_rows) * (int64_t)sizeof(float));
}

static long long page_bytes(const lx_model *m)
{
    return (long long)(m->state.page_floats * (int64_t)sizeof(float));
}

/* Bytes of its weights in a server on this processor, by precision. */
typedef struct weight_bytes {
    long long of[LX_PRECISION_INT4 + 1];
} weight_bytes;

static lx_status weigh(const lx_model *m, weight_bytes *out, lx_error *err)
{
    lx_status st = LX_OK;
    for (lx_precision p = 0; st == LX_OK && lx_precision_name(p) != NULL; p++) {
        lx_backend *be = NULL;
        st =
            lx_backend_open("cpu", &(lx_backend_options){.n_threads = 1, .precision = p}, &be, err);
        if (st != LX_OK)
            return st;
        out->of[p] = (long long)lx_weights_bytes(m, be);
        be->ops->close(be);
    }
    return st;
}

static void print_param(const lx_mixer_config *m, const lx_mixer_param *param, lx_param_value value)
{
    switch (param->kind) {
    case LX_PARAM_INTS:
        (void)printf(", %s", param->name);
        for (int32_t i = 0; i < m->n_list; i++)
            (void)printf("%s%d", i > 0 ? "," : " ", m->list[i]);
        return;
    case LX_PARAM_INT:
        (void)printf(", %s %d", param->name, value.i);
        return;
    case LX_PARAM_WORD:
        (void)printf(", %s %s", param->name, param->words[value.i]);
        return;
    case LX_PARAM_FLAG:
        (void)printf(", %s %s", param->name, value.i != 0 ? "true" : "false");
        return;
    case LX_PARAM_EPS:
    case LX_PARAM_SCALE:
        (void)printf(", %s %g", param->name, (double)value.f);
        return;
    }
}

/* d_ff: of the model. */
static void print_mixer(const lx_mixer_config *m, int32_t d_ff)
{
    (void)printf("%s", m->mixer->name);
    for (int32_t k = 0; k < m->mixer->n_params; k++)
        if (m->mixer->params[k].kind == LX_PARAM_INTS || !m->mixer->params[k].optional ||
            m->params[k].i != 0) /* which is the first word, or left out */
            print_param(m, &m->mixer->params[k], m->params[k]);
    if (m->d_ff != d_ff && m->mixer->is_feed_forward)
        (void)printf(", d_ff %d", m->d_ff);
    (void)printf("\n");
}

/* A line for all layers, or one for each; has: whether a layer has such a branch. */
static void print_layers(const char *title, const lx_config *c, const lx_mixer_config *mixers,
                         int32_t n, bool (*has)(const lx_config *c, int32_t layer))
{
    for (int32_t i = 0; i < n; i++) {
        (void)printf("%-12s ", i == 0 ? title : "");
        if (n > 1)
            (void)printf("%d: ", i);
        if (n > 1 && !has(c, i))
            (void)printf("none\n");
        else
            print_mixer(&mixers[i], c->d_ff);
    }
}

static void print_mixers(const lx_config *c)
{
    print_layers("attention", c, c->mixers, c->n_mixers, lx_config_has_mixer);
    int32_t layer = 0;
    while (layer < c->n_mixers && !lx_config_has_feed_forward(c, layer))
        layer++;
    if (c->beside.mixer != NULL) {
        (void)printf("next to it   ");
        print_mixer(&c->beside, c->d_ff);
    }
    if (layer < c->n_mixers)
        print_layers("feed-forward", c, c->feed_forwards,
                     c->n_feed_forwards > 1 ? c->n_feed_forwards : 1, lx_config_has_feed_forward);
    else
        (void)printf("feed-forward none\n");
}

static double longest_sound(const lx_config *c)
{
    return (double)lx_speech_most_samples(c) / lx_speech_of(c)->rate;
}

static void print_speech(const lx_config *c)
{
    const lx_mel_config *mel = lx_speech_of(c);
    (void)printf(
        "speech       %d samples per second, frames of %d every %d, %d bands from %d Hz, a "
        "row every %d frames with %d to either side\n",
        mel->rate, mel->frame, mel->hop, mel->n_bands, mel->lowest, mel->stride, mel->context);
    (void)printf("sounds       %.3f to %.3f s\n", (double)mel->frame / mel->rate, longest_sound(c));
}

static void print_palette(const lx_image_config *c)
{
    if (c->n_palette == 0)
        return;
    (void)printf("palette     ");
    for (int32_t i = 0; i < c->n_palette; i++)
        (void)printf(" %d", c->palette[i]);
    (void)printf("\n");
}

static void print_weights(const weight_bytes *weights)
{
    (void)printf("weights      bytes in memory, by --precision: ");
    for (lx_precision p = 0; lx_precision_name(p) != NULL; p++)
        (void)printf("%s%s %lld", p > 0 ? ", " : "", lx_precision_name(p), weights->of[p]);
    (void)printf("\n");
}

static void print_tensors(const lx_model *m)
{
    (void)printf("\n");
    for (int32_t i = 0; i < lx_safetensors_count(m->weights); i++) {
        const lx_tensor *t = lx_safetensors_at(m->weights, i);
        if (t->n_dims > 1)
            (void)printf("%-32s %-5s [%lld, %lld]\n", t->name, lx_format_of(t->t.dtype)->name,
                         (long long)t->t.rows, (long long)t->t.cols);
        else
            (void)printf("%-32s %-5s [%lld]\n", t->name, lx_format_of(t->t.dtype)->name,
                         (long long)t->t.cols);
    }
}

static void print_text(const lx_model *m, const weight_bytes *weights, bool tensors)
{
    static const char *const wirings[] = {"pre", "post", "reversible"}; /* as in lx_wiring */
    const lx_config *c = &m->config;
    lx_visible_line(stdout, "model        %s (%s)", m->name, m->dir);
    (void)printf("task         %s\n", m->task->name);
    (void)printf("layers       %d, %d heads, d_model %d, d_key %d, d_value %d, d_ff %d\n",
                 c->n_layers, c->n_heads, c->d_model, c->d_key, c->d_value, c->d_ff);
    print_mixers(c);
    lx_fact facts[LX_MAX_FACTS];
    int32_t n_facts = lx_model_facts(m, facts);
    for (int32_t i = 0; i < n_facts; i++)
        lx_visible_line(stdout, "%-12s %s", facts[i].name, facts[i].text);
    if (m->token_note[0] != '\0')
        lx_visible_line(stdout, "ignored      %s", m->token_note);
    (void)printf("norm         %s%s, eps %g\n", wirings[c->wiring],
                 c->norm_plus_one ? ", rms of 1 + weight"
                 : c->rms_norm    ? ", rms"
                                  : "",
                 (double)c->norm_eps);
    (void)printf("activation   %s\n", c->activation == LX_ACT_GELU ? "gelu" : "relu");
    (void)printf("inputs      ");
    for (int32_t i = 0; i < c->n_inputs; i++)
        (void)printf(" %s[%d]", c->inputs[i].name, c->inputs[i].size);
    if (c->head_kind == LX_HEAD_LOGISTIC_MIXTURE)
        (void)printf("\nhead         logistic_mixture of %d over %d levels\n", c->n_components,
                     c->n_values);
    else
        (void)printf("\nhead         %s[%d]\n", c->head_kind == LX_HEAD_CTC ? "ctc" : "categorical",
                     c->head_size);
    if (m->sees_all)
        print_speech(c);
    if (m->task->modality == LX_IMAGE)
        print_palette(lx_image_of(c));
    (void)printf("parameters   %lld\n", (long long)m->n_parameters);
    print_weights(weights);
    if (m->sees_all)
        (void)printf("state        none: the model reads its input in one pass\n");
    else if (m->state.page_floats == 0)
        (void)printf("state        %lld bytes per request, at any length\n", state_bytes(m));
    else
        (void)printf("state        up to %lld bytes per request, %lld more every %d tokens\n",
                     state_bytes(m), page_bytes(m), LX_PAGE_TOKENS);
    if (!m->sees_all)
        (void)printf("drafts       %s\n",
                     lx_model_can_guess(m)
                         ? "several tokens per step where guesses are likely right"
                         : "none: states of this kind have no place for them");
    (void)printf("hash         %016" PRIx64 "\n", m->hash);
    if (tensors)
        print_tensors(m);
}

static void print_json_tensors(const lx_model *m)
{
    (void)printf(", \"tensors\": [");
    for (int32_t i = 0; i < lx_safetensors_count(m->weights); i++) {
        const lx_tensor *t = lx_safetensors_at(m->weights, i);
        (void)printf("%s{\"name\": ", i > 0 ? ", " : "");
        lx_cli_print_json_string(t->name);
        (void)printf(", \"dtype\": \"%s\", \"shape\": [", lx_format_of(t->t.dtype)->name);
        if (t->n_dims > 1)
            (void)printf("%lld, ", (long long)t->t.rows);
        (void)printf("%lld]}", (long long)t->t.cols);
    }
    (void)printf("]");
}

static void print_json_facts(const lx_model *m)
{
    lx_fact facts[LX_MAX_FACTS];
    int32_t n = lx_model_facts(m, facts);
    for (int32_t i = 0; i < n; i++) {
        (void)printf(", \"%s\": ", facts[i].name);
        lx_cli_print_json_string(facts[i].text);
    }
}

static void print_json(const lx_model *m, const weight_bytes *weights, bool tensors)
{
    const lx_config *c = &m->config;
    lx_cli_begin_json(m->name);
    (void)printf(", \"task\": \"%s\", \"n_layers\": %d, \"n_heads\": %d, \"d_model\": %d, "
                 "\"d_key\": %d, \"d_value\": %d, \"d_ff\": %d, \"head_size\": %d, "
                 "\"parameters\": %lld, \"state_bytes\": %lld, \"state_page_bytes\": %lld, "
                 "\"drafts\": %s, \"hash\": \"%016" PRIx64 "\"",
                 m->task->name, c->n_layers, c->n_heads, c->d_model, c->d_key, c->d_value, c->d_ff,
                 c->head_size, (long long)m->n_parameters, state_bytes(m), page_bytes(m),
                 lx_model_can_guess(m) && !m->sees_all ? "true" : "false", m->hash);
    (void)printf(", \"weight_bytes\": {");
    for (lx_precision p = 0; lx_precision_name(p) != NULL; p++)
        (void)printf("%s\"%s\": %lld", p > 0 ? ", " : "", lx_precision_name(p), weights->of[p]);
    (void)printf("}");
    if (m->sees_all)
        (void)printf(", \"sample_rate\": %d, \"longest_sound\": %.3f", lx_speech_of(c)->rate,
                     longest_sound(c));
    print_json_facts(m);
    if (tensors)
        print_json_tensors(m);
    (void)printf("}\n");
}

/* --- --kinds --- */

static void print_kind_text(const lx_mixer *mixer)
{
    (void)printf("%-20s %s\n", mixer->name, mixer->summary);
    for (int32_t i = 0; i < mixer->n_params; i++) {
        const lx_mixer_param *p = &mixer->params[i];
        (void)printf("    %-16s", p->name);
        if (p->kind == LX_PARAM_INT)
            (void)printf(" %d to %d%s", p->min, p->max, p->optional ? ", or left out" : "");
        else if (p->kind == LX_PARAM_INTS)
            (void)printf(" a list of %d to %d, for the heads in turn", p->min, p->max);
        else if (p->kind == LX_PARAM_EPS)
            (void)printf(" 1e-30 to 1");
        else if (p->kind == LX_PARAM_SCALE)
            (void)printf(" 1e-06 to 1e+06, or left out");
        else if (p->kind == LX_PARAM_FLAG)
            (void)printf(" true or false%s", p->optional ? ", or left out" : "");
        else
            for (int32_t k = 0; p->words[k] != NULL; k++)
                (void)printf(" %s\"%s\"%s", k > 0 ? "or " : "", p->words[k],
                             p->optional && p->words[k + 1] == NULL ? ", or left out" : "");
        (void)printf("\n");
    }
}

static void print_kind_json(const lx_mixer *mixer)
{
    (void)printf("{\"kind\": \"%s\", \"summary\": \"%s\", \"feed_forward\": %s, \"keys\": [",
                 mixer->name, mixer->summary, mixer->is_feed_forward ? "true" : "false");
    for (int32_t i = 0; i < mixer->n_params; i++) {
        const lx_mixer_param *p = &mixer->params[i];
        (void)printf("%s{\"name\": \"%s\", ", i > 0 ? ", " : "", p->name);
        if (p->kind == LX_PARAM_INT || p->kind == LX_PARAM_INTS)
            (void)printf("\"list\": %s, \"min\": %d, \"max\": %d}",
                         p->kind == LX_PARAM_INTS ? "true" : "false", p->min, p->max);
        else if (p->kind == LX_PARAM_EPS)
            (void)printf("\"min\": 1e-30, \"max\": 1}");
        else if (p->kind == LX_PARAM_SCALE)
            (void)printf("\"min\": 1e-06, \"max\": 1e+06}");
        else if (p->kind == LX_PARAM_FLAG)
            (void)printf("\"flag\": true}");
        else {
            (void)printf("\"words\": [");
            for (int32_t k = 0; p->words[k] != NULL; k++)
                (void)printf("%s\"%s\"", k > 0 ? ", " : "", p->words[k]);
            (void)printf("]}");
        }
    }
    (void)printf("]}");
}

static void print_kinds(bool json)
{
    (void)printf(json ? "[" : "");
    for (int32_t i = 0; lx_mixer_at(i) != NULL; i++) {
        (void)printf(json && i > 0 ? ", " : "");
        (json ? print_kind_json : print_kind_text)(lx_mixer_at(i));
    }
    (void)printf(json ? "]\n" : "");
    for (int32_t i = 0; !json && lx_model_type(i) != NULL; i++)
        (void)printf("%s%s", i == 0 ? "model_type of folders of Hugging Face: " : ", ",
                     lx_model_type(i));
    for (int32_t i = 0; !json && lx_model_arch(i) != NULL; i++)
        (void)printf("%s%s", i == 0 ? "\narchitectures of GGUF files: " : ", ", lx_model_arch(i));
    (void)printf(json ? "" : "\n");
}

/* --- the command --- */

/* Everything that is not supported of a folder in the Hugging Face format. */
typedef struct faults {
    int32_t n;
    lx_error last; /* not printed yet */
} faults;

static void add_fault(void *context, const lx_error *fault)
{
    faults *f = context;
    if (f->n++ > 0)
        (void)lx_cli_fail(&lx_inspect_command, LX_ERR_UNSUPPORTED, &f->last);
    f->last = *fault;
}

static lx_status run(void *values, const char *const *rest, lx_error *err)
{
    const inspect_options *o = values;
    const char *dir = rest[0] != NULL ? rest[0] : o->local.model;
    lx_model *model = NULL;
    faults f = {0};
    lx_error ignored = {0};
    weight_bytes weights = {{0}};
    if (o->kinds) {
        print_kinds(o->json);
        return LX_OK;
    }
    lx_status st = lx_cli_load_model(dir, &model, err);
    if (st == LX_OK) {
        st = weigh(model, &weights, err);
        if (st == LX_OK)
            (o->json ? print_json : print_text)(model, &weights, o->tensors);
    } else if (lx_model_faults(dir, add_fault, &f, &ignored) == LX_OK && f.n > 0) {
        *err = f.last;
        st = LX_ERR_UNSUPPORTED;
    }
    lx_model_free(model);
    return st;
}

const lx_command lx_inspect_command = {
    .name = "inspect",
    .brief = "print a model's config, tensors and sizes",
    .summary = "Checks a model folder and prints its config, tensors, parameters and state size.",
    .positional = "[DIR]",
    .max_positional = 1,
    LX_COMMAND(run),
};
