/*
 * The store of states in a file: limits that drop the least recently used states, times that
 * outlive the store, files that cannot be used, and disks that are full.
 */
enum { MANY = 1000, HAMMERED = 500 };

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/states/sqlite.h"
#include "tests/support/scratch.h"
#include "tests/support/store_cases.h"

enum { ON_THEIR_WAY = 1 << 20 };

static char path[2048];

/* The store's file from now on: one that is not there yet. */
static void begin_file(void)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    (void)snprintf(path, sizeof path, "%s", scratch_path("states.db"));
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char name[sizeof path + 8];
        (void)snprintf(name, sizeof name, "%s%s", path, ends[i]);
        (void)unlink(name);
    }
}

static lx_status try_open(int64_t max_states, int64_t max_bytes, lx_state_store **out,
                          lx_error *err)
{
    const lx_state_store_options o = {.where = path,
                                      .max_states = max_states,
                                      .max_bytes = max_bytes,
                                      .max_on_their_way = ON_THEIR_WAY};
    return lx_state_store_open(&o, out, err);
}

static lx_state_store *open_again(int64_t max_states, int64_t max_bytes)
{
    lx_state_store *s = NULL;
    lx_error err = {0};
    if (try_open(max_states, max_bytes, &s, &err) != LX_OK)
        fail_msg("%s", err.text);
    return s;
}

/* A new file. */
static lx_state_store *open_store(int64_t max_states, int64_t max_bytes)
{
    begin_file();
    return open_again(max_states, max_bytes);
}

static void assert_refused(const char *words)
{
    lx_state_store *s = NULL;
    lx_error err = {0};
    assert_int_equal(try_open(10, 1000, &s, &err), LX_ERR_IO);
    assert_string_equal(err.param, "state-store");
    assert_non_null(strstr(err.text, path));
    if (strstr(err.text, words) == NULL)
        fail_msg("%s", err.text);
    assert_null(s);
}

static void overwrite(off_t at, const void *bytes, size_t n)
{
    int file = open(path, O_WRONLY);
    assert_int_equal(pwrite(file, bytes, n, at), (ssize_t)n);
    assert_int_equal(close(file), 0);
}

/* --- limits and times --- */

static void the_least_recently_used_go_first(void **state)
{
    (void)state;
    lx_state_store *s = open_store(3, 12);
    assert_int_equal(put(s, "a", "1234", LONG), LX_OK);
    assert_int_equal(put(s, "b", "1234", LONG), LX_OK);
    assert_int_equal(put(s, "c", "1234", LONG), LX_OK);
    assert_int_equal(get(s, "a", LONG).status, LX_OK); /* a use */
    assert_int_equal(put(s, "d", "1234", LONG), LX_OK);
    assert_int_equal(get(s, "b", 0).status, LX_ERR_NOT_FOUND);
    assert_int_equal(get(s, "a", LONG).status, LX_OK);
    assert_held(s, 3, 12);
    assert_int_equal(put(s, "e", "12345678", LONG), LX_OK); /* by bytes: c and d go */
    assert_int_equal(get(s, "a", 0).status, LX_OK);
    assert_int_equal(get(s, "c", 0).status, LX_ERR_NOT_FOUND);
    assert_int_equal(get(s, "d", 0).status, LX_ERR_NOT_FOUND);
    assert_held(s, 2, 12);
    assert_int_equal(put(s, "f", "1234567890123", LONG), LX_ERR_TOO_LARGE);
    assert_held(s, 2, 12);
    s->ops->close(s);
}

static void times_and_states_outlive_the_store(void **state)
{
    (void)state;
    lx_state_store *s = open_store(10, 100);
    assert_int_equal(put(s, "short", "x", 1), LX_OK);
    assert_int_equal(put(s, "long", "kept", LONG), LX_OK);
    assert_int_equal(put(s, "ever", "", INT64_MAX), LX_OK);
    s->ops->close(s);
    sleep_past_ms(1);
    s = open_again(10, 100);
    assert_int_equal(get(s, "short", 0).status, LX_ERR_NOT_FOUND);
    answer a = get(s, "long", 0);
    assert_string_equal(a.text, "kept");
    assert_true(a.ttl_ms > LONG - 100000 && a.ttl_ms <= LONG);
    assert_true(get(s, "ever", 0).ttl_ms > LONG);
    assert_int_equal(put(s, "new", "y", LONG), LX_OK); /* drops the expired one */
    assert_held(s, 3, 5);
    s->ops->close(s);
}

static int64_t states_of(lx_state_store *s)
{
    lx_store_stats stats;
    s->ops->stats(s, &stats);
    return stats.states;
}

static void expired_states_go_without_a_call(void **state)
{
    (void)state;
    enum { N = 200 }; /* more than one transaction drops */
    lx_state_store *s = open_store(1000, 10000);
    assert_int_equal(put(s, "stays", "kept", LONG), LX_OK);
    for (int i = 0; i < N; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "s%d", i);
        assert_int_equal(put(s, id, "x", 3000), LX_OK);
    }
    wait_until(states_of(s) == 1);
    assert_held(s, 1, 4);
    assert_int_equal(get(s, "stays", 1).status, LX_OK); /* it ends now */
    wait_until(states_of(s) == 0);
    assert_int_equal(put(s, "short", "x", 1), LX_OK);
    s->ops->close(s);
    s = open_again(10, 100);
    wait_until(states_of(s) == 0);
    s->ops->close(s);
    lx_state_file *f = NULL;
    int64_t states = 1, bytes = 1;
    assert_int_equal(lx_state_file_open(path, false, &f, NULL), LX_OK);
    assert_int_equal(lx_state_file_count(f, &states, &bytes, NULL), LX_OK);
    assert_int_equal(states, 0);
    assert_int_equal(bytes, 0);
    lx_state_file_close(f);
}

static void only_the_owner_may_read_the_file(void **state)
{
    (void)state;
    lx_state_store *s = open_store(10, 100);
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    s->ops->close(s);
}

/* --- files that cannot be used --- */

static void a_file_has_one_process(void **state)
{
    (void)state;
    lx_state_store *s = open_store(10, 1000);
    assert_refused("is in use by another process");
    s->ops->close(s);
    s = open_again(10, 1000);
    s->ops->close(s);
}

static void change(const char *statement)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, statement, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void other_files_are_refused(void **state)
{
    (void)state;
    lx_state_store *s = open_store(10, 1000);
    s->ops->close(s);
    change("PRAGMA user_version=2");
    assert_refused("has version 2 of the format; this linnet reads 1");
    change("PRAGMA application_id=7");
    assert_refused("is a database of another program");
    overwrite(0, "no database at all", 18);
    assert_refused("is no store of states, or it is damaged");
    (void)snprintf(path, sizeof path, "%s", scratch_path("missing/states.db"));
    assert_refused("No such file or directory");
}

static void a_cut_file_is_refused(void **state)
{
    (void)state;
    lx_state_store *s = open_store(MANY, 1 << 20);
    for (int i = 0; i < MANY; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "s%d", i);
        assert_int_equal(put(s, id, "some bytes of a state", LONG), LX_OK);
    }
    s->ops->close(s);
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(truncate(path, facts.st_size / 2), 0);
    assert_refused("is damaged");
}

/* Damage within the file fails the calls that meet it, and no other. */
static void a_damaged_page_fails_its_states(void **state)
{
    (void)state;
    static const lx_state_file_limits limits = {10, 1 << 20};
    enum { LARGE = 100000 };
    lx_state_store *s = open_store(10, 1 << 20);
    s->ops->close(s);
    lx_state_file *f = NULL;
    char *bytes = calloc(1, LARGE);
    assert_int_equal(lx_state_file_open(path, false, &f, NULL), LX_OK);
    assert_int_equal(lx_state_file_begin(f, true, NULL), LX_OK);
    const lx_store_request well = {
        .owner = &owner, .id = "a", .blob = "well", .size = 4, .ttl_ms = LONG};
    const lx_store_request large = {
        .owner = &owner, .id = "b", .blob = bytes, .size = LARGE, .ttl_ms = LONG};
    assert_int_equal(lx_state_file_put(f, &well, &limits, NULL), LX_OK);
    assert_int_equal(lx_state_file_put(f, &large, &limits, NULL), LX_OK);
    assert_int_equal(lx_state_file_commit(f, NULL), LX_OK);
    lx_state_file_close(f);
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    for (off_t at = facts.st_size - 8 * 8192; at < facts.st_size; at += 8192)
        overwrite(at, "\xff\xff\xff\xff\xff\xff\xff\xff", 8); /* pages of the large blob */
    s = open_again(10, 1 << 20);
    assert_string_equal(get(s, "a", 0).text, "well");
    assert_int_equal(get(s, "b", 0).status, LX_ERR_UNAVAILABLE);
    assert_string_equal(get(s, "a", 0).text, "well");
    s->ops->close(s);
    lx_error err = {0};
    assert_int_equal(lx_state_file_open(path, false, &f, &err), LX_OK);
    assert_int_equal(lx_state_file_vacuum(f, &err), LX_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "damaged"));
    lx_state_file_close(f);
    free(bytes);
}

/* --- disks --- */

/* A limit of the process on the size of files fails writes as a full disk does. */
static void a_full_disk_refuses_and_loses_nothing(void **state)
{
    (void)state;
    enum { BLOB = 40000, ROOM = 600000 };
    char *bytes = malloc(BLOB + 1);
    lx_state_store *s = open_store(100, 1 << 24);
    struct rlimit was;
    int kept = 0;
    memset(bytes, 'x', BLOB);
    bytes[BLOB] = '\0';
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    const struct rlimit small = {ROOM, was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    char id[16] = "s0";
    while (kept < 100 && put(s, id, bytes, LONG) == LX_OK)
        (void)snprintf(id, sizeof id, "s%d", ++kept);
    assert_in_range(kept, 2, 50);
    lx_store_stats stats;
    s->ops->stats(s, &stats);
    assert_false(stats.reachable);
    for (int i = 0; i < kept; i++) {
        (void)snprintf(id, sizeof id, "s%d", i);
        assert_int_equal(get(s, id, LONG).size, BLOB);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(put(s, "after", "there is room again", LONG), LX_OK);
    s->ops->stats(s, &stats);
    assert_true(stats.reachable);
    assert_int_equal(stats.states, kept + 1);
    s->ops->close(s);
    free(bytes);
}

/* A process puts states until it is killed. The next process finds those that were acknowledged. */
static void acknowledged_states_survive_kill_9(void **state)
{
    (void)state;
    int told[2], found = 0;
    unsigned char last = 0;
    begin_file();
    assert_int_equal(pipe(told), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        lx_state_store *s = open_again(1000, 1 << 20);
        for (unsigned char i = 0; i < 255; i++) {
            char id[16];
            (void)snprintf(id, sizeof id, "s%d", i);
            if (put(s, id, id, LONG) != LX_OK || write(told[1], &i, 1) != 1)
                _exit(1); /* check-includes: a child process */
        }
        pause();
    }
    while (last < 100)
        assert_int_equal(read(told[0], &last, 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)close(told[1]);
    while (read(told[0], &last, 1) == 1)
        continue;
    (void)close(told[0]);
    lx_state_store *s = open_again(1000, 1 << 20);
    for (int i = 0; i <= last; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "s%d", i);
        answer a = get(s, id, 0);
        found += a.status == LX_OK && strcmp(a.text, id) == 0;
    }
    assert_int_equal(found, last + 1);
    s->ops->close(s);
}

/* --- vacuum --- */

static bool file_has(const char *text)
{
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    char *bytes = malloc((size_t)facts.st_size);
    int file = open(path, O_RDONLY);
    assert_int_equal(read(file, bytes, (size_t)facts.st_size), facts.st_size);
    (void)close(file);
    bool has = memmem(bytes, (size_t)facts.st_size, text, strlen(text)) != NULL;
    free(bytes);
    return has;
}

static void a_vacuum_removes_deleted_bytes(void **state)
{
    (void)state;
    lx_state_store *s = open_store(10, 1000);
    assert_int_equal(put(s, "a", "a secret of a client", LONG), LX_OK);
    assert_int_equal(put(s, "b", "a state that stays", LONG), LX_OK);
    assert_int_equal(drop(s, "a"), LX_OK);
    s->ops->close(s);
    assert_true(file_has("a state that stays"));
    lx_state_file *f = NULL;
    assert_int_equal(lx_state_file_open(path, false, &f, NULL), LX_OK);
    assert_int_equal(lx_state_file_vacuum(f, NULL), LX_OK);
    lx_state_file_close(f);
    assert_false(file_has("a secret of a client"));
    assert_true(file_has("a state that stays"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_CASES,
        cmocka_unit_test(the_least_recently_used_go_first),
        cmocka_unit_test(times_and_states_outlive_the_store),
        cmocka_unit_test(expired_states_go_without_a_call),
        cmocka_unit_test(only_the_owner_may_read_the_file),
        cmocka_unit_test(a_file_has_one_process),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(a_cut_file_is_refused),
        cmocka_unit_test(a_damaged_page_fails_its_states),
        cmocka_unit_test(a_full_disk_refuses_and_loses_nothing),
        cmocka_unit_test(acknowledged_states_survive_kill_9),
        cmocka_unit_test(a_vacuum_removes_deleted_bytes),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
