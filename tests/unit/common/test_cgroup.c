/* Limits of control groups: both versions, the tighter of several, and files that say nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/cgroup.h"
#include "tests/support/scratch.h"

enum { MIB = 1 << 20 };

static void folder(const char *name)
{
    assert_int_equal(mkdir(scratch_path(name), 0700), 0);
}

static void file(const char *name, const char *text)
{
    (void)scratch_write(name, text, strlen(text));
}

/* The limits when /proc/self/cgroup holds `self` and the groups are mounted at `mount`. */
static lx_cgroup read_limits(const char *mount, const char *self)
{
    char dir[4096];
    (void)snprintf(dir, sizeof dir, "%s", scratch_path(mount));
    return lx_cgroup_read(dir, scratch_write("self", self, strlen(self)));
}

static void expect(lx_cgroup c, int64_t memory_bytes, double cpus)
{
    assert_int_equal(c.memory_bytes, memory_bytes);
    assert_true(c.cpus > cpus - 1e-9 && c.cpus < cpus + 1e-9);
}

static void no_groups_are_no_limits(void **state)
{
    (void)state;
    expect(read_limits("nowhere", "0::/\n"), 0, 0);
    expect(lx_cgroup_read(scratch_path("nowhere"), "/no/such/file"), 0, 0);
    expect(read_limits("nowhere", "nonsense\n\n:\n"), 0, 0);
}

static void version_2(void **state)
{
    (void)state;
    folder("two");
    folder("two/pod");
    folder("two/pod/box");
    file("two/pod/memory.max", "268435456\n");
    file("two/pod/box/memory.max", "max\n");
    file("two/pod/cpu.max", "max 100000\n");
    file("two/pod/box/cpu.max", "150000 100000\n");
    expect(read_limits("two", "0::/pod/box\n"), 256 * MIB, 1.5);
    expect(read_limits("two", "0::/pod\n"), 256 * MIB, 0);
    expect(read_limits("two", "0::/\n"), 0, 0);
    file("two/pod/box/memory.max", "134217728\n");
    expect(read_limits("two", "0::/pod/box\n"), 128 * MIB, 1.5);
    file("two/memory.max", "1048576\n");
    expect(read_limits("two", "0::/pod/box/deeper/than/mounted\n"), MIB, 1.5);
}

static void version_1(void **state)
{
    (void)state;
    folder("one");
    folder("one/memory");
    folder("one/cpu");
    folder("one/cpu/box");
    file("one/memory/memory.limit_in_bytes", "9223372036854771712\n");
    file("one/cpu/box/cpu.cfs_quota_us", "-1\n");
    file("one/cpu/box/cpu.cfs_period_us", "100000\n");
    static const char self[] = "9:pids:/x\n4:memory:/host/path\n3:cpu:/box\n0::/\n";
    expect(read_limits("one", self), 0, 0);
    file("one/memory/memory.limit_in_bytes", "1048576\n");
    file("one/cpu/box/cpu.cfs_quota_us", "50000\n");
    expect(read_limits("one", self), MIB, 0.5);
    file("one/cpu/box/cpu.cfs_period_us", "0\n");
    expect(read_limits("one", self), MIB, 0);
}

/* Cached files give way, shared memory does not; each group of several has a rest of its own. */
static void what_is_left_of_a_limit(void **state)
{
    (void)state;
    folder("left");
    folder("left/box");
    file("left/memory.max", "1000\n");
    assert_int_equal(read_limits("left", "0::/box\n").memory_free, 1000);
    file("left/memory.current", "700\n");
    assert_int_equal(read_limits("left", "0::/box\n").memory_free, 300);
    file("left/memory.stat", "anon 100\nfile 500\nfile_mapped 20\nshmem 50\n");
    assert_int_equal(read_limits("left", "0::/box\n").memory_free, 750);
    file("left/box/memory.max", "800\n");
    file("left/box/memory.current", "100\n");
    lx_cgroup c = read_limits("left", "0::/box\n");
    assert_int_equal(c.memory_free, 700);
    assert_int_equal(c.memory_bytes, 800);
    file("left/box/memory.current", "900\n");
    assert_int_equal(read_limits("left", "0::/box\n").memory_free, 0);
    folder("old");
    folder("old/memory");
    file("old/memory/memory.limit_in_bytes", "1000\n");
    file("old/memory/memory.usage_in_bytes", "700\n");
    file("old/memory/memory.stat", "cache 1\ntotal_cache 500\ntotal_rss 100\ntotal_shmem 50\n");
    assert_int_equal(read_limits("old", "4:memory:/\n").memory_free, 750);
}

static void this_process_has_memory(void **state)
{
    (void)state;
    assert_true(lx_cgroup_free_memory() > 0);
    assert_true(lx_cgroup_own_memory() > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_groups_are_no_limits),
        cmocka_unit_test(version_2),
        cmocka_unit_test(version_1),
        cmocka_unit_test(what_is_left_of_a_limit),
        cmocka_unit_test(this_process_has_memory),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
