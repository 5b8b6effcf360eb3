/* The fibers behind simt.h: who runs next, and what they wait for. */
#include "tests/simt/simt.h"

#include <mutex>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(LX_SANITIZE_ADDRESS)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define MOST_THREADS 1024
#define STACK_BYTES ((size_t)(SANITIZED ? 256 : 64) << 10) /* its frames are larger */
#define WARP 32u

enum phase { READY, AT_BARRIER, AT_EXCHANGE, ENDED };

struct fiber {
    simt_here here;
    phase state;
    const char *file; /* of the barrier or exchange it waits at */
    int line;
    uint32_t mask;
    unsigned turn; /* exchanges so far: two sets of values, since lanes leave one by one */
    uint32_t values[2];
    unsigned char *stack;
    void *stack_pointer;
    ucontext_t context;
};

struct machine {
    fiber *fibers;
    unsigned char *stacks;
    unsigned n;
    fiber *running;
    void *scheduler_pointer;
    ucontext_t scheduler;
    const void *scheduler_stack; /* for the address sanitizer */
    size_t scheduler_bytes;
    void *shared;
    const std::function<void()> *kernel;
};

static machine m; /* of the launch that runs; the lock keeps others out */
static std::mutex lock;
const simt_here *simt_at;

extern "C" int simt_fail_now(); /* fake/runtime.c */

[[noreturn]] static void broken(const char *what, const fiber *f)
{
    fprintf(stderr, "simt: %s: block %u, thread %u, at %s:%d\n", what, f->here.block.x,
            f->here.thread.x, f->file, f->line);
    abort();
}

/* --- switching --- */

#if defined(__x86_64__)
/* Saves what a call must keep on the stack and goes on with another one. */
extern "C" void simt_switch(void **from, void *to);
asm(".text\n.globl simt_switch\n.hidden simt_switch\n.type simt_switch, @function\nsimt_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size simt_switch, .-simt_switch\n");
#endif

/* The address sanitizer must know which stack comes next; with NULL that this one never comes back.
 */
static void leave([[maybe_unused]] void **kept, [[maybe_unused]] const void *stack,
                  [[maybe_unused]] size_t n_bytes)
{
#if SANITIZED
    __sanitizer_start_switch_fiber(kept, stack, n_bytes);
#endif
}

static void arrive([[maybe_unused]] void *kept, [[maybe_unused]] const void **from,
                   [[maybe_unused]] size_t *n_bytes)
{
#if SANITIZED
    __sanitizer_finish_switch_fiber(kept, from, n_bytes);
#endif
}

static void to_scheduler(fiber *f)
{
    void *kept = nullptr;
    leave(f->state == ENDED ? nullptr : &kept, m.scheduler_stack, m.scheduler_bytes);
#if defined(__x86_64__)
    simt_switch(&f->stack_pointer, m.scheduler_pointer);
#else
    (void)swapcontext(&f->context, &m.scheduler);
#endif
    arrive(kept, nullptr, nullptr);
}

static void to_fiber(fiber *f)
{
    void *kept = nullptr;
    m.running = f;
    simt_at = &f->here;
    leave(&kept, f->stack, STACK_BYTES);
#if defined(__x86_64__)
    simt_switch(&m.scheduler_pointer, f->stack_pointer);
#else
    (void)swapcontext(&m.scheduler, &f->context);
#endif
    arrive(kept, nullptr, nullptr);
}

static void body()
{
    fiber *f = m.running;
    arrive(nullptr, &m.scheduler_stack, &m.scheduler_bytes);
    (*m.kernel)();
    f->state = ENDED;
    to_scheduler(f);
    abort(); /* it is not resumed */
}

static void prepare(fiber *f, unsigned i)
{
    unsigned char *stack = f->stack = m.stacks + i * STACK_BYTES;
#if SANITIZED /* body()'s frame of the fiber before, which never returned */
    __asan_unpoison_memory_region(stack + STACK_BYTES - 4096, 4096);
#endif
#if defined(__x86_64__)
    void **top = reinterpret_cast<void **>(stack + STACK_BYTES) - 1; /* as after a call */
    top[0] = nullptr;
    *--top = reinterpret_cast<void *>(body);
    for (int k = 0; k < 6; k++)
        *--top = nullptr;
    f->stack_pointer = top;
#else
    (void)getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack;
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = nullptr;
    makecontext(&f->context, body, 0);
#endif
}

/* --- what kernels call --- */

void *simt_shared()
{
    return m.shared;
}

void simt_barrier(const char *file, int line)
{
    fiber *f = m.running;
    f->file = file;
    f->line = line;
    f->state = AT_BARRIER;
    to_scheduler(f);
}

uint32_t simt_exchange(uint32_t mask, uint32_t value, unsigned lane, const char *file, int line)
{
    fiber *f = m.running;
    unsigned own = f->here.thread.x % WARP, turn = f->turn++ % 2u;
    f->file = file;
    f->line = line;
    f->mask = mask;
    f->values[turn] = value;
    if ((mask >> own & 1u) == 0u || lane >= WARP || (mask >> lane & 1u) == 0u)
        broken("an exchange with a lane outside its mask", f);
    f->state = AT_EXCHANGE;
    to_scheduler(f);
    return m.fibers[f->here.thread.x - own + lane].values[turn];
}

static bool at_one_place(const fiber *a, const fiber *b)
{
    return a->line == b->line && (a->file == b->file || strcmp(a->file, b->file) == 0);
}

/* --- the scheduler --- */

/* Lets the lanes go on that f waits for, if all of them have arrived. */
static bool release(fiber *f)
{
    unsigned first = f->here.thread.x / WARP * WARP;
    for (unsigned i = 0; i < WARP; i++) {
        if ((f->mask >> i & 1u) == 0u)
            continue;
        fiber *other = first + i < m.n ? &m.fibers[first + i] : nullptr;
        if (other == nullptr || other->state == ENDED)
            broken("an exchange waits for a lane that has left", f);
        if (other->state != AT_EXCHANGE)
            return false;
        if (!at_one_place(other, f) || other->mask != f->mask || other->turn != f->turn)
            broken("lanes meet in different exchanges", f);
    }
    for (unsigned i = 0; i < WARP; i++) {
        if ((f->mask >> i & 1u) != 0u)
            m.fibers[first + i].state = READY;
    }
    return true;
}

/* One round over a warp; true while any of its threads moved. */
static bool run_warp(unsigned first, bool falling)
{
    bool moved = false;
    unsigned n = m.n - first < WARP ? m.n - first : WARP;
    for (unsigned k = 0; k < n; k++) {
        fiber *f = &m.fibers[first + (falling ? n - 1 - k : k)];
        if (f->state == READY) {
            to_fiber(f);
            moved = true;
        }
    }
    for (unsigned k = 0; k < n; k++) {
        if (m.fibers[first + k].state == AT_EXCHANGE)
            moved = release(&m.fibers[first + k]) || moved;
    }
    return moved;
}

/* When no fiber can move: either all have ended, or all wait at one barrier. */
static bool pass_barrier()
{
    unsigned ended = 0;
    for (unsigned i = 0; i < m.n; i++)
        ended += m.fibers[i].state == ENDED;
    if (ended == m.n)
        return false;
    for (unsigned i = 0; i < m.n; i++) {
        fiber *f = &m.fibers[i];
        if (f->state == AT_EXCHANGE)
            broken("an exchange never ends", f);
        if (f->state == AT_BARRIER && ended > 0)
            broken("a barrier that some threads never reach", f);
        if (!at_one_place(f, &m.fibers[0]))
            broken("threads wait at different barriers", f);
        f->state = READY;
    }
    return true;
}

static void run_block(bool falling)
{
    do {
        unsigned warps = (m.n + WARP - 1u) / WARP;
        for (bool moved = true; moved;) {
            moved = false;
            for (unsigned w = 0; w < warps; w++)
                moved = run_warp((falling ? warps - 1u - w : w) * WARP, falling) || moved;
        }
    } while (pass_barrier());
}

/* Fibers and stacks, made once; a page without access below each stack. */
static bool have_fibers()
{
    if (m.fibers != nullptr)
        return true;
    m.fibers = static_cast<fiber *>(calloc(MOST_THREADS, sizeof(fiber)));
    void *stacks = mmap(nullptr, MOST_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m.fibers == nullptr || stacks == MAP_FAILED)
        return false;
    m.stacks = static_cast<unsigned char *>(stacks);
    for (unsigned i = 0; i < MOST_THREADS; i++)
        (void)mprotect(m.stacks + i * STACK_BYTES, 4096, PROT_NONE);
    return true;
}

struct release_memory { /* when the library is unloaded */
    ~release_memory()
    {
        free(m.fibers);
        if (m.stacks != nullptr)
            (void)munmap(m.stacks, MOST_THREADS * STACK_BYTES);
    }
};
static release_memory at_end;

int simt_run(int64_t blocks, int64_t threads, size_t shared, const std::function<void()> &kernel)
{
    std::lock_guard<std::mutex> one_launch(lock);
    if (int error = simt_fail_now(); error != 0)
        return error;
    if (blocks < 1 || blocks > 0x7fffffff || threads < 1 || threads > MOST_THREADS ||
        threads % (int64_t)WARP != 0 || shared > (48u << 10) || !have_fibers())
        return 9; /* cudaErrorInvalidConfiguration */
    m.n = (unsigned)threads;
    m.kernel = &kernel;
    for (int64_t b = 0; b < blocks; b++) {
        /* not malloc: what the library allocates is counted (fake/runtime.c) */
        if (posix_memalign(&m.shared, 64, shared > 0 ? shared : 1) != 0)
            return 2; /* cudaErrorMemoryAllocation */
        memset(m.shared, 0xff, shared);
        for (unsigned i = 0; i < m.n; i++) {
            fiber *f = &m.fibers[i];
            f->here = {{i, 0, 0}, {(unsigned)b, 0, 0}, {m.n, 1, 1}, {(unsigned)blocks, 1, 1}};
            f->state = READY;
            f->turn = 0;
            prepare(f, i);
        }
        run_block(b % 2 == 1);
        free(m.shared);
    }
    return 0;
}

/* --- launches in graphs --- */

struct launch {
    int64_t blocks, threads;
    size_t shared;
    std::function<void()> kernel;
};

static int run_launch(void *work)
{
    const launch *l = static_cast<const launch *>(work);
    return simt_run(l->blocks, l->threads, l->shared, l->kernel);
}

static void drop_launch(void *work)
{
    delete static_cast<launch *>(work);
}

int simt_launch(cudaStream_t stream, int64_t blocks, int64_t threads, size_t shared,
                std::function<void()> kernel)
{
    launch *l = new launch{blocks, threads, shared, kernel};
    if (simt_keep(stream, run_launch, drop_launch, l) != 0)
        return simt_fail_now();
    int error = run_launch(l);
    delete l;
    return error;
}
