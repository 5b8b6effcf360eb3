/*
 * The registry of tasks, and functions for the plans of all tasks. A task is one table of functions
 * in a file of its own; config.json names it.
 */
#include "model/tasks/task.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TASK(name) extern const lx_task_ops lx_##name##_task;
#include "model/tasks/tasks.def"
#undef TASK

static const lx_task_ops *const tasks[] = {
#define TASK(name) &lx_##name##_task,
#include "model/tasks/tasks.def"
#undef TASK
};

const lx_task_ops *lx_task_find(const char *name)
{
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        if (strcmp(tasks[i]->name, name) == 0)
            return tasks[i];
    }
    return NULL;
}

void lx_card_add(lx_task_card *card, lx_card_field field)
{
    assert(card->n < LX_MAX_CARD);
    card->fields[card->n++] = field;
}

/* --- plans --- */

const void *lx_task_own(const lx_task_request *request, const lx_task_ops *task)
{
    return request->own_of == task ? request->own : NULL;
}

static const struct task_field {
    const char *name;
    const lx_task_ops *task;
} task_fields[] = {
#define FIELD(task, name, kind) {#name, &lx_##task##_task},
#include "model/tasks/fields.def"
#undef FIELD
};

const char *lx_task_field_name(int32_t i)
{
    return task_fields[i].name;
}

const char *lx_task_first_field(const lx_task_fields *fields)
{
    for (int32_t i = 0; fields != NULL && i < LX_N_ASKED; i++) {
        if (fields->at[i].text != NULL)
            return task_fields[i].name;
    }
    return NULL;
}

/* A field of another task would be ignored in silence. */
static lx_status check_fields(const lx_model *model, const lx_task_request *request, lx_error *err)
{
    for (int32_t i = 0; request->fields != NULL && i < LX_N_ASKED; i++) {
        const struct task_field *f = &task_fields[i];
        if (f->task != model->task && request->fields->at[i].text != NULL)
            return lx_fail(err, LX_ERR_INVALID, f->name, "%s is for models of %s, and %s is none",
                           f->name, f->task->plural, model->name);
    }
    return LX_OK;
}

static lx_status check_shape(const lx_model *model, const lx_shape *shape, lx_error *err)
{
    return shape->kind == LX_SHAPE_NONE || model->task->shapes
               ? LX_OK
               : lx_fail(err, LX_ERR_INVALID, shape->field,
                         "%s is for models of text, and model %s has the task %s", shape->field,
                         model->name, model->task->name);
}

static lx_status new_plan(const lx_model *model, lx_plan **out, lx_error *err)
{
    if (model->task->plan_init == NULL)
        return lx_fail(err, LX_ERR_INVALID, "model",
                       "model %s has the task %s: it transcribes sounds and answers no other "
                       "requests",
                       model->name, model->task->name);
    lx_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a request");
    plan->model = model;
    *out = plan;
    return LX_OK;
}

static lx_status hand_over(lx_status st, lx_plan *plan, lx_plan **out)
{
    if (st != LX_OK)
        lx_plan_free(plan);
    else
        *out = plan;
    return st;
}

lx_status lx_plan_new(const lx_model *model, const lx_task_request *request, lx_plan **out,
                      lx_error *err)
{
    lx_plan *plan = NULL;
    lx_status st = new_plan(model, &plan, err);
    if (st == LX_OK)
        st = check_fields(model, request, err);
    if (st == LX_OK)
        st = check_shape(model, &request->shape, err);
    if (st == LX_OK)
        st = model->task->plan_init(plan, request, err);
    return hand_over(st, plan, out);
}

lx_status lx_plan_again(const lx_model *model, const void *bytes, size_t n, bool flag,
                        bool ignore_end, lx_plan **out, lx_error *err)
{
    lx_plan *plan = NULL;
    lx_status st = new_plan(model, &plan, err);
    if (st == LX_OK)
        st = model->task->replan(plan, bytes, n, flag, ignore_end, err);
    return hand_over(st, plan, out);
}

int32_t lx_task_masks(const lx_model *model)
{
    const lx_task_ops *task = model->task;
    return task->n_masks + (task->more_masks != NULL ? task->more_masks(model) : 0);
}

int32_t lx_task_words(const lx_model *model)
{
    return model->task->shapes ? (model->config.head_size + 31) / 32 : 0;
}

const lx_shape *lx_plan_shape(const lx_plan *plan)
{
    return plan->follower != NULL ? lx_grammar_shape(lx_follower_grammar(plan->follower)) : NULL;
}

int64_t lx_plan_shape_bytes(const lx_plan *plan)
{
    return plan->follower != NULL ? lx_follower_bytes(plan->follower) : 0;
}

const char *lx_plan_stuck(const lx_plan *plan)
{
    return plan->follower != NULL ? lx_follower_failure(plan->follower) : NULL;
}

void lx_plan_free(lx_plan *plan)
{
    if (plan == NULL)
        return;
    lx_follower_free(plan->follower);
    free(plan->data);
    free(plan->prompt_ids);
    free(plan->borders);
    free(plan);
}

void lx_plan_text(const lx_plan *plan, const int32_t *tokens, int32_t n, lx_buffer *out)
{
    const lx_task_ops *task = plan->model->task;
    for (int32_t step = 0; task->render != NULL && step < n; step++)
        task->render(plan, step, tokens, out);
}
