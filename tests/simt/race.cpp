/* See race.h. Blocks run in turn, so the checker remembers little. */
#include "tests/simt/race.h"
#include "tests/simt/fake/place.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <memory>
#include <unordered_map>

#define WARP 32u
#define MOST_THREADS 1024u
#define PAGE 4096u
#define READERS 4
#define MOST_PAGES 2048u /* that are kept from launch to launch, in 350 MB */

namespace
{

struct access {
    uint32_t block, phase, clock;
    uint16_t thread;
    uint8_t halves; /* of the four bytes; 0: unused */
    bool atomic;
    const void *code;
};

/* Accesses to four bytes in this launch, or since the block began if they are shared. */
struct cell {
    uint64_t life; /* of the entry; older ones are forgotten */
    access wrote[2];
    access read[READERS]; /* the first one that counts, one of another warp, the last two */
    bool blank;           /* shared, and not written yet */
    uint8_t next;
};

struct page {
    uint64_t life; /* of the launch that was found to touch memory of its own here */
    bool constant; /* numbers of the library */
    cell cells[PAGE / 4];
};

struct range {
    uintptr_t begin, end;

    bool holds(uintptr_t at) const
    {
        return at >= begin && at < end;
    }
};

std::unordered_map<uintptr_t, std::unique_ptr<page>> pages;
uintptr_t last_number;
page *last_page;

uint64_t lives, life, block_life; /* so far; of the launch, and of the block's shared memory */
range shared[64], own[5];
unsigned n_shared, n_own;
uint32_t block, phase, clocks[MOST_THREADS][WARP]; /* a thread's view of its warp's lanes */
unsigned me;
thread_local bool running; /* host code of other threads is compiled with these calls, too */

[[noreturn]] void tell(const char *what, uintptr_t at, const access &now, const access *before)
{
    Dl_info place = {};
    fprintf(stderr, "simt: %s at %#lx: block %u, thread %u", what, (unsigned long)at, now.block,
            now.thread);
    const access *both[] = {&now, before};
    if (before != nullptr)
        fprintf(stderr, ", after block %u, thread %u", before->block, before->thread);
    fprintf(stderr, "\n");
    for (const access *a : both) {
        if (a == nullptr || dladdr(a->code, &place) == 0)
            continue;
        char command[512];
        uintptr_t offset = (uintptr_t)a->code - 1 - (uintptr_t)place.dli_fbase;
        snprintf(command, sizeof command, "addr2line -e '%s' %#lx >&2 2>&1", place.dli_fname,
                 (unsigned long)offset);
        if (system(command) != 0)
            fprintf(stderr, "  %s+%#lx\n", place.dli_fname, (unsigned long)offset);
    }
    abort();
}

bool is_ordered(const access &before, const access &now)
{
    if (before.block != now.block)
        return false;
    if (before.phase != now.phase || before.thread == now.thread)
        return true;
    return before.thread / WARP == now.thread / WARP &&
           clocks[now.thread][before.thread % WARP] >= before.clock;
}

void check(const access &before, const access &now, uintptr_t at, const char *what)
{
    if ((before.halves & now.halves) == 0 || (before.atomic && now.atomic) ||
        is_ordered(before, now))
        return;
    tell(what, at, now, &before);
}

/* Keeps a reader of another block, or the first of this phase, and one of another warp. */
void note_read(cell *c, const access &now)
{
    access *r = c->read;
    if (r[0].halves == 0 || (r[0].block == now.block && r[0].phase != now.phase)) {
        r[0] = now;
        return;
    }
    for (int i = 0; i < READERS; i++) {
        if (r[i].halves != 0 && r[i].block == now.block && r[i].thread == now.thread &&
            r[i].atomic == now.atomic) {
            uint8_t halves = r[i].phase == now.phase ? r[i].halves : (uint8_t)0;
            r[i] = now;
            r[i].halves |= halves;
            return;
        }
    }
    if (r[0].thread / WARP != now.thread / WARP || r[0].block != now.block) {
        r[1] = now;
        return;
    }
    r[2 + c->next++ % 2u] = now;
}

page *page_of(uintptr_t at)
{
    uintptr_t number = at / PAGE;
    if (last_page == nullptr || number != last_number) {
        std::unique_ptr<page> &p = pages[number];
        if (p == nullptr)
            p = std::make_unique<page>();
        last_page = p.get();
        last_number = number;
    }
    return last_page;
}

/* For dl_iterate_phdr: whether the address lies in read-only memory of a program or library. */
int holds_constant(dl_phdr_info *of, size_t, void *at)
{
    for (unsigned i = 0; i < of->dlpi_phnum; i++) {
        const ElfW(Phdr) &part = of->dlpi_phdr[i];
        uintptr_t begin = of->dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_LOAD && (part.p_flags & PF_W) == 0 &&
            range{begin, begin + part.p_memsz}.holds((uintptr_t)at))
            return 1;
    }
    return 0;
}

/* A kernel touches the device's memory and reads constants; all of a page belongs to one. */
void check_place(page *p, uintptr_t at, bool writes, const access &now)
{
    if (p->life == life && !(p->constant && writes))
        return;
    p->constant = simt_place_of((const void *)at, 1) != SIMT_DEVICE;
    if (p->constant && (writes || dl_iterate_phdr(holds_constant, (void *)at) == 0))
        tell("a kernel touches memory outside the device", at, now, nullptr);
    p->life = life;
}

cell *cell_of(uintptr_t at, uint8_t halves, bool writes, const access &now)
{
    page *p = page_of(at);
    cell *c = &p->cells[at % PAGE / 4];
    bool is_shared = false;
    for (unsigned i = 0; i < n_shared; i++)
        is_shared = is_shared || shared[i].holds(at);
    if (!is_shared)
        check_place(p, at, writes, now);
    uint64_t current = is_shared ? block_life : life;
    if (c->life != current) {
        *c = cell{};
        c->life = current;
        c->blank = is_shared;
    }
    if (c->blank && !writes && (c->wrote[0].halves | c->wrote[1].halves) == 0 && halves != 0)
        tell("shared memory is read that was not written", at, now, nullptr);
    return c;
}

void touch_cell(uintptr_t at, uint8_t halves, bool writes, bool atomic, const void *code)
{
    const access now = {block, phase, clocks[me][me % WARP], (uint16_t)me, halves, atomic, code};
    cell *c = cell_of(at, halves, writes, now);
    for (const access &w : c->wrote)
        check(w, now, at, writes ? "a write races with a write" : "a read races with a write");
    if (!writes) {
        note_read(c, now);
        return;
    }
    for (access &r : c->read) {
        check(r, now, at, "a write races with a read");
        r.halves &= (uint8_t)~halves;
    }
    for (int half = 0; half < 2; half++) {
        if ((halves >> half & 1) != 0) {
            c->wrote[half] = now;
            c->wrote[half].halves = (uint8_t)(1 << half);
        }
    }
}

void touch(const void *p, size_t n_bytes, bool writes, bool atomic, const void *code)
{
    uintptr_t at = (uintptr_t)p, end = at + n_bytes;
    bool looks = running;
    for (unsigned i = 0; i < n_own; i++)
        looks = looks && !own[i].holds(at);
    if (!looks)
        return;
    while (at < end) {
        uintptr_t next = at / 4 * 4 + 4;
        unsigned first = at % 4 / 2, last = next <= end ? 1 : (end - 1) % 4 / 2;
        touch_cell(at / 4 * 4, (uint8_t)((first == 0) | (last == 1) << 1), writes, atomic, code);
        at = next;
    }
}

} // namespace

void race_launch()
{
    n_own = 0;
    if (pages.size() > MOST_PAGES) {
        pages.clear();
        last_page = nullptr;
    }
    life = ++lives;
}

void race_own(const void *at, size_t n_bytes)
{
    if (n_own == sizeof own / sizeof own[0])
        abort();
    own[n_own++] = {(uintptr_t)at, (uintptr_t)at + n_bytes};
}

void race_block(uint32_t number)
{
    block = number;
    phase = 0;
    block_life = ++lives;
    n_shared = 0;
    memset(clocks, 0, sizeof clocks);
    for (unsigned i = 0; i < MOST_THREADS; i++)
        clocks[i][i % WARP] = 1;
}

void race_shared(const void *at, size_t n_bytes)
{
    if (n_shared == sizeof shared / sizeof shared[0])
        abort();
    shared[n_shared++] = {(uintptr_t)at, (uintptr_t)at + n_bytes};
}

void race_thread(unsigned thread)
{
    me = thread;
    running = true;
}

void race_end()
{
    running = false;
}

void race_barrier()
{
    phase++;
}

void race_warp_sync(unsigned first, uint32_t mask)
{
    uint32_t known[WARP] = {};
    for (unsigned i = 0; i < WARP; i++) {
        for (unsigned k = 0; (mask >> i & 1u) != 0u && k < WARP; k++)
            known[k] = clocks[first + i][k] > known[k] ? clocks[first + i][k] : known[k];
    }
    for (unsigned i = 0; i < WARP; i++) {
        if ((mask >> i & 1u) != 0u) {
            memcpy(clocks[first + i], known, sizeof known);
            clocks[first + i][i]++;
        }
    }
}

/* --- called by the compiler's instrumentation --- */

#define HIDDEN extern "C" __attribute__((visibility("hidden")))
#define ACCESS(name, bytes, writes)                                                                \
    HIDDEN void __tsan_##name(const void *p);                                                      \
    void __tsan_##name(const void *p)                                                              \
    {                                                                                              \
        touch(p, bytes, writes, false, __builtin_return_address(0));                               \
    }
#define RANGE(name, writes)                                                                        \
    HIDDEN void __tsan_##name(const void *p, size_t n);                                            \
    void __tsan_##name(const void *p, size_t n)                                                    \
    {                                                                                              \
        touch(p, n, writes, false, __builtin_return_address(0));                                   \
    }
ACCESS(read1, 1, false)
ACCESS(read2, 2, false)
ACCESS(read4, 4, false)
ACCESS(read8, 8, false)
ACCESS(read16, 16, false)
ACCESS(write1, 1, true)
ACCESS(write2, 2, true)
ACCESS(write4, 4, true)
ACCESS(write8, 8, true)
ACCESS(write16, 16, true)
ACCESS(unaligned_read2, 2, false)
ACCESS(unaligned_read4, 4, false)
ACCESS(unaligned_read8, 8, false)
ACCESS(unaligned_read16, 16, false)
ACCESS(unaligned_write2, 2, true)
ACCESS(unaligned_write4, 4, true)
ACCESS(unaligned_write8, 8, true)
ACCESS(unaligned_write16, 16, true)
RANGE(read_range, false)
RANGE(write_range, true)
HIDDEN void __tsan_vptr_update(void **p, void *v);
HIDDEN void __tsan_vptr_read(void **p);
HIDDEN void __tsan_init();
HIDDEN void __tsan_func_entry(void *caller);
HIDDEN void __tsan_func_exit();
void __tsan_vptr_update(void **, void *)
{
}
void __tsan_vptr_read(void **)
{
}
void __tsan_init()
{
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit()
{
}

void race_atomic(const void *at, size_t n_bytes)
{
    touch(at, n_bytes, true, true, __builtin_return_address(0));
}
