/*
 * linnet states: the states in a file that a server keeps with --state-store FILE.db, while no
 * server has the file open.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/cli/cli.h"
#include "server/states/prefix_store.h"
#include "server/states/sqlite.h"
#include "server/states/stored.h"

enum { MOST_LISTED = 1000, MS_PER_S = 1000 };

typedef struct states_options {
    bool json;
} states_options;

#define LX_OPTIONS states_options
static const lx_option options[] = {
    LX_FLAG("json", json, "off", "With list: one JSON object per state is printed."),
};

typedef struct task {
    const states_options *options;
    const char *path;            /* of file */
    lx_state_file *file, *other; /* other: of an import, the source */
    int64_t n, skipped;
} task;

/* --- every state of a file --- */

typedef lx_status (*visitor)(task *t, const char *owner, const lx_store_entry *e, lx_error *err);

static lx_status visit_owner(lx_state_file *f, const char *owner, visitor visit, task *t,
                             lx_error *err)
{
    char after[LX_STATE_ID_MAX + 1] = "";
    for (size_t n = MOST_LISTED; n == MOST_LISTED;) {
        lx_store_entry *entries = NULL;
        lx_status st = lx_state_file_list(f, owner, after, MOST_LISTED, &entries, &n, err);
        for (size_t i = 0; st == LX_OK && i < n; i++)
            st = visit(t, owner, &entries[i], err);
        if (st == LX_OK && n > 0)
            memcpy(after, entries[n - 1].id, sizeof after);
        free(entries);
        if (st != LX_OK)
            return st;
    }
    return LX_OK;
}

static lx_status visit_all(lx_state_file *f, visitor visit, task *t, lx_error *err)
{
    char owner[LX_OWNER_NAME + 1];
    lx_status st = lx_state_file_next_owner(f, NULL, owner, err);
    while (st == LX_OK) {
        st = visit_owner(f, owner, visit, t, err);
        if (st == LX_OK)
            st = lx_state_file_next_owner(f, owner, owner, err);
        else
            return st;
    }
    return st == LX_ERR_NOT_FOUND ? LX_OK : st;
}

/* --- the tasks --- */

static lx_status print_state(task *t, const char *owner, const lx_store_entry *e, lx_error *err)
{
    (void)err;
    t->n++;
    if (!t->options->json) {
        (void)printf("%-64s %12" PRId64 " %10" PRId64 " %s\n", e->id, e->bytes,
                     e->ttl_ms / MS_PER_S, owner);
        return LX_OK;
    }
    (void)printf("{\"id\": \"%s\", \"bytes\": %" PRId64 ", \"expires_in_s\": %" PRId64
                 ", \"owner\": ",
                 e->id, e->bytes, e->ttl_ms / MS_PER_S);
    lx_cli_print_json_bytes(owner, strlen(owner));
    (void)puts("}");
    return LX_OK;
}

/* One transaction per state: a state is either there as a whole or not. */
static lx_status import_state(task *t, const char *owner, const lx_store_entry *e, lx_error *err)
{
    static const lx_state_file_limits none = {INT64_MAX, INT64_MAX};
    lx_owner whose = {.name = ""};
    void *bytes = NULL;
    size_t n = 0;
    int64_t left_ms = 0;
    (void)snprintf(whose.name, sizeof whose.name, "%s", owner);
    lx_status st = lx_state_file_get(t->file, owner, e->id, &bytes, &n, &left_ms, err);
    if (st != LX_ERR_NOT_FOUND) {
        free(bytes);
        t->skipped += st == LX_OK;
        return st;
    }
    st = lx_state_file_get(t->other, owner, e->id, &bytes, &n, &left_ms, err);
    if (st == LX_OK)
        st = lx_state_file_begin(t->file, true, err);
    if (st == LX_OK)
        st = lx_state_file_put(
            t->file,
            &(lx_store_request){.owner = &whose,
                                .id = e->id,
                                .blob = bytes,
                                .size = n,
                                .ttl_ms = left_ms,
                                .droppable = lx_stored_kind_of(bytes, n) == LX_STORED_RESPONSE},
            &none, err);
    if (st == LX_OK)
        st = lx_state_file_commit(t->file, err);
    if (st != LX_OK)
        lx_state_file_rollback(t->file);
    free(bytes);
    t->n += st == LX_OK;
    return st;
}

static lx_status list_states(task *t, const char *other, lx_error *err)
{
    (void)other;
    lx_status st = visit_all(t->file, print_state, t, err);
    if (st == LX_OK && t->n == 0)
        (void)fputs("the file has no states\n", stderr);
    return st;
}

static lx_status export_states(task *t, const char *other, lx_error *err)
{
    int64_t bytes = 0;
    lx_status st = lx_state_file_copy(t->file, other, err);
    if (st == LX_OK)
        st = lx_state_file_count(t->file, &t->n, &bytes, err);
    if (st == LX_OK)
        (void)printf("%" PRId64 " states with %" PRId64 " bytes are in %s\n", t->n, bytes, other);
    return st;
}

static lx_status import_states(task *t, const char *other, lx_error *err)
{
    (void)other;
    lx_status st = visit_all(t->other, import_state, t, err);
    if (st == LX_OK)
        (void)printf("%" PRId64 " states were added; %" PRId64 " were there\n", t->n, t->skipped);
    return st;
}

/* The states of prompts have the tokens of conversations, deleted ones too. They spare time only,
   so all of them go. */
static lx_status remove_prompts(const char *file, lx_error *err)
{
    bool removed = false;
    char *path = lx_store_is_file(file) ? lx_prefix_store_path(file) : NULL;
    lx_status st = path != NULL ? lx_prefix_store_remove(path, &removed, err) : LX_OK;
    if (removed)
        (void)printf("%s with the states of prompts was removed\n", path);
    free(path);
    return st;
}

static lx_status vacuum(task *t, const char *other, lx_error *err)
{
    (void)other;
    int64_t bytes = 0;
    lx_status st = lx_state_file_vacuum(t->file, err);
    if (st == LX_OK)
        st = lx_state_file_count(t->file, &t->n, &bytes, err);
    if (st == LX_OK)
        (void)printf("the file is sound; %" PRId64 " states with %" PRId64 " bytes are left\n",
                     t->n, bytes);
    return st == LX_OK ? remove_prompts(t->path, err) : st;
}

static const struct {
    const char *name;
    bool takes_other;
    bool imports; /* `other` is read, and the file may be new */
    bool reads;   /* the file stays as it is */
    lx_status (*run)(task *t, const char *other, lx_error *err);
} tasks[] = {
    {"list", false, false, true, list_states},
    {"export", true, false, true, export_states},
    {"import", true, true, false, import_states},
    {"vacuum", false, false, false, vacuum},
};

static lx_status run(void *values, const char *const *rest, lx_error *err)
{
    task t = {.options = values, .path = rest[1]};
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        if (strcmp(rest[0], tasks[i].name) != 0)
            continue;
        if ((rest[2] != NULL) != tasks[i].takes_other)
            return lx_fail(err, LX_ERR_INVALID, NULL, "%s takes %s", rest[0],
                           tasks[i].takes_other ? "two files, FILE.db and OTHER.db"
                                                : "one file, FILE.db");
        lx_status st = LX_OK;
        (void)signal(SIGXFSZ, SIG_IGN);
        if (tasks[i].imports) /* first: without its source there is no new file */
            st = lx_state_file_read(rest[2], &t.other, err);
        if (st == LX_OK)
            st = tasks[i].reads ? lx_state_file_read(rest[1], &t.file, err)
                                : lx_state_file_open(rest[1], tasks[i].imports, &t.file, err);
        if (st == LX_OK)
            st = tasks[i].run(&t, rest[2], err);
        lx_state_file_close(t.file);
        lx_state_file_close(t.other);
        return st;
    }
    return lx_fail(err, LX_ERR_INVALID, NULL,
                   "\"%s\" is no task; the tasks are list, export, import and vacuum", rest[0]);
}

const lx_command lx_states_command = {
    .name = "states",
    .brief = "list, copy and compact the states in a file",
    .summary = "Works on the states in a file of --state-store, while no server has it open.",
    .positional = "list|export|import|vacuum FILE.db [OTHER.db]",
    .min_positional = 2,
    .max_positional = 3,
    LX_COMMAND(run),
    .notes = "list FILE.db prints each state's id, bytes, seconds left and owner.\n"
             "export FILE.db OTHER.db copies all states to a new file.\n"
             "import FILE.db OTHER.db adds the states of OTHER.db whose ids FILE.db does not "
             "have.\n"
             "vacuum FILE.db checks the file, and removes all bytes of deleted and expired "
             "states, and the file of states of prompts.\n",
};
