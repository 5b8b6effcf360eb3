/*
 * The registry of tasks and what every plan shares. A task is one table of functions in a file of
 * its own; config.json names it.
 */
#include "model/tasks/task.h"

#include <stdlib.h>
#include <string.h>

#include "model/tasks/copy.h"
#include "model/tasks/couplet.h"
#include "model/tasks/image.h"
#include "model/tasks/poem.h"
#include "model/tasks/speech.h"
#include "model/tasks/text.h"

static const lx_task_ops *const tasks[] = {&lx_couplet_task, &lx_image_task, &lx_text_task,
                                           &lx_copy_task,    &lx_poem_task,  &lx_speech_task};

const lx_task_ops *lx_task_find(const char *name)
{
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        if (strcmp(tasks[i]->name, name) == 0)
            return tasks[i];
    }
    return NULL;
}

lx_status lx_plan_new(const lx_model *model, const lx_task_request *request, lx_plan **out,
                      lx_error *err)
{
    if (model->task->plan_init == NULL)
        return lx_fail(err, LX_ERR_INVALID, "model",
                       "%s is of task %s: it says what a sound says and answers no requests",
                       model->name, model->task->name);
    const char *form = request->form != NULL       ? "form"
                       : request->acrostic != NULL ? "acrostic"
                       : request->rhyme            ? "rhyme"
                                                   : NULL;
    if (form != NULL && model->task != &lx_poem_task)
        return lx_fail(err, LX_ERR_INVALID, form, "%s is for models of poems, and %s is none", form,
                       model->name);
    lx_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for a request");
    plan->model = model;
    lx_status st = model->task->plan_init(plan, request, err);
    if (st != LX_OK) {
        lx_plan_free(plan);
        return st;
    }
    *out = plan;
    return LX_OK;
}

int32_t lx_task_masks(const lx_model *model)
{
    const lx_task_ops *task = model->task;
    return task->n_masks + (task->more_masks != NULL ? task->more_masks(model) : 0);
}

void lx_plan_free(lx_plan *plan)
{
    if (plan == NULL)
        return;
    plan->model->task->plan_fini(plan);
    free(plan->prompt_ids);
    free(plan);
}

void lx_plan_text(const lx_plan *plan, const int32_t *tokens, int32_t n, lx_buffer *out)
{
    const lx_task_ops *task = plan->model->task;
    for (int32_t step = 0; task->render != NULL && step < n; step++)
        task->render(plan, step, tokens, out);
}
