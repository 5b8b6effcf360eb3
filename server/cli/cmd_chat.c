/*
 * linnet chat: a conversation with a model of text that has a template for chats. Every turn is the
 * whole conversation as one prompt, as over HTTP; the engine keeps the state after the turns
 * before.
 */
#include <stdlib.h>
#include <string.h>

#include "server/api/chat.h"
#include "server/cli/generate.h"
#include "server/cli/terminal.h"

enum { LINE_BYTES = 1 << 20, MAX_MESSAGES = 1024 };

typedef struct chat_options {
    lx_cli_model_options local;
    lx_generate_sampling sampling;
    const char *system;
    int64_t draft;
} chat_options;

#define LX_OPTIONS chat_options
static const lx_option options[] = {
    LX_CLI_MODEL_OPTIONS(NULL),
    LX_STRING("system", system, NULL, "TEXT",
              "The model reads this text before the conversation, as the system's message."),
    LX_GENERATE_SAMPLING_OPTIONS("Without it: 0.8."),
    LX_CLI_DRAFT_OPTION,
};

typedef struct conversation {
    const chat_options *o;
    const lx_model *model;
    lx_engine *engine;
    sem_t *more; /* NULL: answers are printed when they are whole */
    lx_chat_message messages[MAX_MESSAGES];
    int32_t n;
} conversation;

static lx_status say(conversation *c, lx_chat_role role, const char *text, size_t bytes,
                     lx_error *err)
{
    lx_chat_message *m = &c->messages[c->n];
    if (c->n == MAX_MESSAGES)
        return lx_fail(err, LX_ERR_INVALID, "messages",
                       "a conversation has at most %d messages; /clear begins a new one",
                       MAX_MESSAGES);
    *m = (lx_chat_message){.role = role, .text = malloc(bytes + 1), .bytes = bytes};
    if (m->text == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the conversation");
    memcpy(m->text, text, bytes);
    m->text[bytes] = '\0';
    c->n++;
    return LX_OK;
}

static void forget_from(conversation *c, int32_t first)
{
    while (c->n > first)
        free(c->messages[--c->n].text);
}

/* The system's message, if there is one. */
static lx_status begin(conversation *c, lx_error *err)
{
    const char *system = c->o->system;
    forget_from(c, 0);
    return system != NULL ? say(c, LX_CHAT_SYSTEM, system, strlen(system), err) : LX_OK;
}

static lx_status keep_answer(conversation *c, const lx_job *job, lx_error *err)
{
    lx_buffer text;
    lx_buffer_init(&text,
                   (size_t)lx_job_get_params(job)->max_new * (size_t)c->model->token_bytes + 1);
    lx_buffer_puts(&text, "");
    lx_generate_answer(job, 0, &text);
    lx_status st = text.status;
    if (st == LX_OK) {
        const char *leading = c->model->chat != NULL ? lx_chat_leading(c->model->chat) : "";
        size_t n = strncmp(text.data, leading, strlen(leading)) == 0 ? strlen(leading) : 0;
        st = say(c, LX_CHAT_ASSISTANT, text.data + n, text.length - n, err);
    }
    lx_buffer_fini(&text);
    return st;
}

static lx_status make_job(conversation *c, lx_stops *stops, lx_job **out, lx_error *err)
{
    lx_prompt prompt = {0};
    lx_completion_params p = {.chat = true,
                              .begins_answer = true,
                              .messages = c->messages,
                              .n_messages = c->n,
                              .prompts = &prompt,
                              .n_prompts = 1};
    lx_plan *plan = NULL;
    lx_status st = lx_chat_prompt(c->model, &p, err);
    *stops = p.stops;
    if (st == LX_OK)
        st = lx_generate_add_stop(&c->o->sampling, stops, err);
    lx_task_request request = {.ids = prompt.ids, .n_ids = prompt.n_ids};
    if (st == LX_OK)
        st = lx_plan_new(c->model, &request, &plan, err);
    lx_prompt_fini(&prompt);
    return st == LX_OK
               ? lx_generate_new_job(&c->o->sampling, plan, 1, 0.8, stops, c->more, out, err)
               : st;
}

static lx_status answer(conversation *c, lx_job *job, lx_error *err)
{
    lx_status st = lx_generate_run(c->engine, job, c->more, false, true, err);
    return st == LX_OK && c->more == NULL ? lx_generate_print(job, false, err) : st;
}

/* A message and its answer: both, or, when something is wrong, neither is part of the
   conversation. An answer that was ended early is. */
static lx_status turn(conversation *c, const lx_buffer *line, lx_error *err)
{
    int32_t before = c->n;
    lx_stops stops = {0};
    lx_job *job = NULL;
    lx_status st = say(c, LX_CHAT_USER, line->data, line->length, err);
    if (st == LX_OK)
        st = make_job(c, &stops, &job, err);
    if (st == LX_OK)
        st = answer(c, job, err);
    if (st == LX_OK || st == LX_ERR_CANCELLED)
        st = keep_answer(c, job, err);
    if (job != NULL)
        lx_job_detach(job); /* it posts no more */
    lx_job_unref(job);
    if (st != LX_OK)
        forget_from(c, before);
    (void)fflush(stdout);
    return st;
}

static lx_status talk(conversation *c, lx_error *err)
{
    lx_lines *lines = NULL;
    lx_buffer line;
    lx_buffer_init(&line, LINE_BYTES);
    lx_status st = begin(c, err);
    if (st == LX_OK)
        st = lx_lines_open("> ", &lines, err);
    while (st == LX_OK) {
        lx_error fault = {0};
        line.length = 0;
        st = lx_lines_read(lines, &line, err);
        if (st != LX_OK || line.length == 0)
            continue;
        if (strcmp(line.data, "/exit") == 0)
            break;
        lx_status said =
            strcmp(line.data, "/clear") == 0 ? begin(c, &fault) : turn(c, &line, &fault);
        if (said != LX_OK)
            (void)lx_cli_fail(&lx_chat_command, said, &fault);
    }
    lx_lines_close(lines);
    lx_buffer_fini(&line);
    forget_from(c, 0);
    return st == LX_ERR_CANCELLED ? LX_OK : st;
}

/* Refuses before the first line: the model must have a template, and --stop must be valid. */
static lx_status check(const chat_options *o, const lx_model *model, lx_error *err)
{
    lx_stops stops = {0};
    if (model->task->modality != LX_TEXT || model->task->ends == NULL)
        return lx_fail(err, LX_ERR_INVALID, "model",
                       "--model: %s does not write text; linnet chat needs a model that does",
                       model->name);
    if (!model->has_template)
        return lx_fail(err, LX_ERR_INVALID, "model",
                       "--model: %s has no template for chats: linnet generate continues any text",
                       model->name);
    if (model->chat == NULL && model->jinja == NULL)
        return lx_fail(err, LX_ERR_INVALID, "model",
                       "--model: %s has a chat template that cannot be rendered (%s): linnet "
                       "generate continues any text",
                       model->name, model->no_jinja);
    return lx_generate_add_stop(&o->sampling, &stops, err);
}

static lx_status chat(const chat_options *o, const lx_cli_model *local, lx_error *err)
{
    sem_t posted;
    conversation *c = calloc(1, sizeof *c);
    if (c == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the conversation");
    c->o = o;
    c->model = local->model;
    if (lx_terminal_is(stdout) && sem_init(&posted, 0, 0) == 0)
        c->more = &posted;
    lx_status st = check(o, local->model, err);
    if (st == LX_OK)
        st = lx_generate_start(local->transformer, 1, o->draft, true, &c->engine, err);
    if (st == LX_OK)
        st = talk(c, err);
    lx_engine_stop(c->engine);
    if (c->more != NULL)
        (void)sem_destroy(c->more);
    free(c);
    return st;
}

static lx_status run(void *values, const char *const *rest, lx_error *err)
{
    (void)rest;
    const chat_options *o = values;
    lx_cli_model local = {0};
    if (o->local.model == NULL)
        return lx_fail(err, LX_ERR_INVALID, "model",
                       "--model: name a model with a chat template; none came with linnet");
    lx_status st = lx_cli_open(&o->local, LX_CLI_WRITES, LX_GENERATE_ROWS, &local, err);
    if (st == LX_OK)
        st = chat(o, &local, err);
    lx_cli_close(&local);
    return st;
}

const lx_command lx_chat_command = {
    .name = "chat",
    .brief = "talk with a model",
    .summary = "Talks with a model of text whose folder has a template for chats: each line of the "
               "input is a message.",
    LX_COMMAND(run),
    .notes = "A line /clear begins a new conversation, /exit or Ctrl-D ends the program. Ctrl-C "
             "ends an answer,\nand at the prompt the program. Lines before come back with the "
             "arrow keys.\n"
             "example: linnet chat --model FOLDER --system \"Answer in one sentence.\"\n",
};
