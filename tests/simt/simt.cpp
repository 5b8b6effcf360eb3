/* The fibers of simt.h: the order in which they run, and the meetings that they wait for. */
#include "tests/simt/simt.h"
#include "tests/simt/race.h"
#include "tests/simt/switch.h"

#include <mutex>
#include <sys/mman.h>

#if defined(LX_SANITIZE_ADDRESS)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#if defined(LX_SIMT_RACES)
#define IF_RACES(call) (call)
#else
#define IF_RACES(call) ((void)0)
#endif

#define MOST_THREADS 1024
#define MOST_SHARED ((size_t)48 << 10)
#define BETWEEN ((size_t)64)           /* bytes between arrays of shared memory */
#define SHARED_BYTES (4 * MOST_SHARED) /* with the bytes between */
#define STACK_BYTES ((size_t)(SANITIZED ? 256 : 64) << 10) /* its frames are larger */
#define BELOW(i) ((i) % 64u * (size_t)192) /* of stacks at one distance a cache keeps few */
#define WARP 32u
#define MOST_COPIES 64u

struct copy {
    void *to;
    const void *from;
    unsigned group;
};

/* A block's fibers shall stay in the cache, so copies are elsewhere, and a meeting looks at a half.
 */
struct alignas(128) fiber {
    simt_here here;
    unsigned char *stack;
    simt_stack at;                /* where it continues */
    alignas(64) const char *file; /* of the barrier or exchange it waits at */
    int line;
    bool orders; /* memory, as a shuffle does not */
    uint32_t mask;
    unsigned turn; /* exchanges so far: two sets of values, since lanes leave one by one */
    uint32_t values[2];
    bool waited; /* for the kernels before */
    unsigned n_copies, n_groups;
};

/* A warp's lanes in sets; those in none wait at a barrier. */
struct warp {
    uint32_t ready, at_exchange, ended;
};

/* A round over a warp, its lanes in the order (k * step + from) mod 32, step odd. */
struct lanes {
    unsigned first, at, step;
    warp *of;
};

struct machine {
    fiber *fibers;
    copy (*copies)[MOST_COPIES]; /* of each thread, that are under way */
    unsigned char *stacks;
    unsigned n;
    warp warps[MOST_THREADS / WARP];
    fiber *running;
    lanes round;
    bool began; /* from the scheduler, not from another fiber */
    simt_stack scheduler;
    const void *scheduler_stack; /* for the address sanitizer */
    size_t scheduler_bytes;
    unsigned char *shared; /* [SHARED_BYTES], used up to `end` */
    size_t n_shared, fixed, end;
    uint64_t block; /* so far, of all launches */
    const simt_call *kernel;
};

static machine m; /* of the launch that runs; the lock keeps others out */
static std::mutex lock;
const simt_here *simt_at;

extern "C" int simt_fail_now(); /* fake/runtime.c, as is this */
extern "C" long simt_meetings;

[[noreturn]] static void broken(const char *what, const fiber *f)
{
    fprintf(stderr, "simt: %s: block %u, thread %u, at %s:%d\n", what, f->here.block.x,
            f->here.thread.x, f->file, f->line);
    abort();
}

/* --- switching --- */

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

/* The next of the round that can run; NULL: the round is over, for none becomes ready within it. */
static inline fiber *next_fiber()
{
    lanes *r = &m.round;
    unsigned lane;
    if (r->of->ready == 0u)
        return nullptr;
    do {
        lane = r->at % WARP;
        r->at += r->step;
    } while ((r->of->ready >> lane & 1u) == 0u);
    return &m.fibers[r->first + lane];
}

static inline __attribute__((always_inline)) void run_fiber(simt_stack *from, void **kept, fiber *f)
{
    m.running = f;
    simt_at = &f->here;
    IF_RACES(race_thread(f->here.thread.x));
    leave(kept, f->stack, STACK_BYTES);
    simt_switch(from, &f->at);
}

static uint32_t bit_of(const fiber *f)
{
    return 1u << f->here.thread.x % WARP;
}

/* The running fiber is not ready any more, but in `set` or, with NULL, at a barrier. Continues with
   the next one of the round, without a way over the scheduler, or with that. */
static inline __attribute__((always_inline)) void leave_fiber(fiber *f, uint32_t *set)
{
    void *kept = nullptr, **keep = set == &m.round.of->ended ? nullptr : &kept;
    m.round.of->ready &= ~bit_of(f);
    if (set != nullptr)
        *set |= bit_of(f);
    if (fiber *next = next_fiber(); next != nullptr) {
        m.began = false;
        run_fiber(&f->at, keep, next);
    } else {
        leave(keep, m.scheduler_stack, m.scheduler_bytes);
        simt_switch(&f->at, &m.scheduler);
    }
    arrive(kept, nullptr, nullptr);
}

static void body()
{
    fiber *f = m.running;
    const void *stack = nullptr;
    size_t n_bytes = 0;
    arrive(nullptr, &stack, &n_bytes);
    if (m.began) {
        m.scheduler_stack = stack;
        m.scheduler_bytes = n_bytes;
    }
    m.kernel->run(m.kernel->given);
    if (m.kernel->early && !f->waited)
        broken("it ends without having waited for the kernels before", f);
    if (f->n_copies > 0)
        broken("it ends with copies under way", f);
    leave_fiber(f, &m.round.of->ended);
    abort(); /* it is not resumed */
}

static void prepare(fiber *f, unsigned i)
{
    unsigned char *stack = f->stack = m.stacks + i * STACK_BYTES;
#if SANITIZED /* body()'s frame of the fiber before, which never returned */
    __asan_unpoison_memory_region(stack + STACK_BYTES - BELOW(i) - 4096, 4096);
#endif
    simt_begin(&f->at, stack, STACK_BYTES - BELOW(i), body);
}

/* --- called by kernels --- */

void *simt_shared()
{
    return m.shared;
}

static void forbid([[maybe_unused]] void *at, [[maybe_unused]] size_t n_bytes)
{
#if SANITIZED
    __asan_poison_memory_region(at, n_bytes);
#endif
}

/* For the threads of this block, with no value in it. */
static void allow_poisoned(void *at, size_t n_bytes)
{
#if SANITIZED
    __asan_unpoison_memory_region(at, n_bytes);
#endif
    memset(at, 0xff, n_bytes);
    if (n_bytes > 0)
        IF_RACES(race_shared(at, n_bytes));
}

/* The first thread of a block that comes here takes the place for all. */
void *simt_static(simt_site *site, size_t n_bytes)
{
    if (site->block != m.block) {
        *site = {m.block, m.end};
        m.fixed += n_bytes;
        m.end += (n_bytes + BETWEEN - 1) / BETWEEN * BETWEEN + BETWEEN;
        if (m.n_shared + m.fixed > MOST_SHARED)
            broken("more shared memory than a block has", m.running);
        allow_poisoned(m.shared + site->at, n_bytes);
    }
    return m.shared + site->at;
}

void simt_barrier(const char *file, int line)
{
    fiber *f = m.running;
    simt_meetings++;
    f->file = file;
    f->line = line;
    leave_fiber(f, nullptr);
}

static uint32_t meet(uint32_t mask, uint32_t value, unsigned lane, bool orders, const char *file,
                     int line)
{
    fiber *f = m.running;
    simt_meetings++;
    unsigned own = f->here.thread.x % WARP, turn = f->turn++ % 2u;
    f->file = file;
    f->line = line;
    f->orders = orders;
    f->mask = mask;
    f->values[turn] = value;
    if ((mask >> own & 1u) == 0u || lane >= WARP || (mask >> lane & 1u) == 0u)
        broken("an exchange with a lane outside its mask", f);
    leave_fiber(f, &m.round.of->at_exchange);
    return m.fibers[f->here.thread.x - own + lane].values[turn];
}

uint32_t simt_exchange(uint32_t mask, uint32_t value, unsigned lane, const char *file, int line)
{
    return meet(mask, value, lane, false, file, line);
}

void simt_warp_barrier(uint32_t mask, const char *file, int line)
{
    (void)meet(mask, 0u, m.running->here.thread.x % WARP, true, file, line);
}

static bool at_one_place(const fiber *a, const fiber *b)
{
    return a->line == b->line && (a->file == b->file || strcmp(a->file, b->file) == 0);
}

/* --- the scheduler --- */

/* Lets the lanes that f waits for continue, if all of them have arrived. */
static bool release(warp *w, fiber *f)
{
    fiber *lane = f - f->here.thread.x % WARP;
    if ((f->mask & w->ended) != 0u)
        broken("an exchange waits for a lane that has left", f);
    if ((f->mask & ~w->at_exchange) != 0u)
        return false;
    for (uint32_t left = f->mask; left != 0u; left &= left - 1u) {
        const fiber *other = lane + __builtin_ctz(left);
        if (!at_one_place(other, f) || other->mask != f->mask || other->turn != f->turn)
            broken("lanes meet in different exchanges", f);
    }
    w->at_exchange &= ~f->mask;
    w->ready |= f->mask;
    if (f->orders)
        IF_RACES(race_warp_sync(lane->here.thread.x, f->mask));
    return true;
}

/* One round over a warp (see lanes); true while any of its threads moved. */
static bool run_warp(unsigned first, unsigned from, unsigned step)
{
    warp *w = &m.warps[first / WARP];
    m.round = {first, from, step, w};
    fiber *f = next_fiber();
    bool moved = f != nullptr;
    if (moved) {
        void *kept = nullptr;
        m.began = true;
        run_fiber(&m.scheduler, &kept, f);
        arrive(kept, nullptr, nullptr);
    }
    for (uint32_t left = w->at_exchange; left != 0u; left &= (left - 1u) & w->at_exchange)
        moved = release(w, &m.fibers[first + (unsigned)__builtin_ctz(left)]) || moved;
    return moved;
}

/* When no fiber can move: either all have ended, or all wait at one barrier. */
static bool pass_barrier()
{
    unsigned ended = 0;
    for (unsigned i = 0; i < m.n; i += WARP)
        ended += (unsigned)__builtin_popcount(m.warps[i / WARP].ended);
    if (ended == m.n)
        return false;
    for (unsigned i = 0; i < m.n; i++) {
        fiber *f = &m.fibers[i];
        const warp *w = &m.warps[i / WARP];
        if ((w->at_exchange & bit_of(f)) != 0u)
            broken("an exchange never ends", f);
        if ((w->ended & bit_of(f)) == 0u && ended > 0)
            broken("a barrier that some threads never reach", f);
        if (!at_one_place(f, &m.fibers[0]))
            broken("threads wait at different barriers", f);
    }
    for (unsigned i = 0; i < m.n; i += WARP)
        m.warps[i / WARP].ready = ~0u;
    return true;
}

/* --- orders --- */

enum order { AS_BLOCKS, WARP_FIRST, WARP_FIRST_FALLING, DRAWN };

static uint64_t drawn; /* the state of a generator (splitmix64) */

static order read_order()
{
    const char *text = getenv("LINNET_SIMT_SEED");
    drawn = text != nullptr ? strtoull(text, nullptr, 10) : 0u;
    return drawn < DRAWN ? (order)drawn : DRAWN;
}

static order wanted_order()
{
    static const order o = read_order();
    return o;
}

static unsigned draw(unsigned below)
{
    uint64_t x = drawn += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (unsigned)((x ^ x >> 31) % below);
}

static bool run_falling(unsigned first, bool falling)
{
    return run_warp(first, falling ? WARP - 1u : 0u, falling ? WARP - 1u : 1u);
}

/* One round over the warps; true while any moved. */
static bool run_warps(order o, bool odd)
{
    unsigned warps = m.n / WARP, from = o == DRAWN ? draw(warps) : 0u;
    bool moved = false, falling = o == WARP_FIRST_FALLING || (o == AS_BLOCKS && odd);
    for (unsigned w = 0; w < warps; w++) {
        unsigned first = (falling ? warps - 1u - w : (w + from) % warps) * WARP;
        if (o == DRAWN) {
            for (unsigned rounds = draw(4u); rounds > 0u; rounds--)
                moved = run_warp(first, draw(WARP), 2u * draw(WARP / 2u) + 1u) || moved;
        } else {
            bool again = run_falling(first, falling);
            moved = moved || again;
            while (o != AS_BLOCKS && again)
                again = run_falling(first, falling);
        }
    }
    for (unsigned w = 0; o == DRAWN && !moved && w < warps; w++) /* none that was drawn could */
        moved = run_falling(w * WARP, false);
    return moved;
}

static void run_block(order o, bool odd)
{
    do {
        while (run_warps(o, odd)) {
        }
        IF_RACES(race_barrier());
    } while (pass_barrier());
}

/* Fibers, stacks and shared memory, made once; a page without access below each stack. They do not
   come from malloc, because allocations of the library are counted (fake/runtime.c). */
static bool have_fibers()
{
    if (m.fibers != nullptr)
        return true;
    size_t n_bytes = MOST_THREADS * STACK_BYTES + SHARED_BYTES;
    void *stacks = mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
        return false;
    m.stacks = static_cast<unsigned char *>(stacks);
    m.shared = m.stacks + MOST_THREADS * STACK_BYTES;
    for (unsigned i = 0; i < MOST_THREADS; i++)
        (void)mprotect(m.stacks + i * STACK_BYTES, 4096, PROT_NONE);
    m.fibers = new fiber[MOST_THREADS]();
    m.copies = new copy[MOST_THREADS][MOST_COPIES]();
    return true;
}

struct release_memory { /* when the library is unloaded */
    ~release_memory()
    {
        delete[] m.fibers;
        delete[] m.copies;
        if (m.stacks != nullptr)
            (void)munmap(m.stacks, MOST_THREADS * STACK_BYTES + SHARED_BYTES);
    }
};
static release_memory at_end;

/* A block's shared memory; the rest is poisoned where an array is placed. */
static void begin_shared(size_t dynamic)
{
    m.n_shared = dynamic;
    m.fixed = 0;
    m.end = (dynamic + BETWEEN - 1) / BETWEEN * BETWEEN + BETWEEN;
    forbid(m.shared, SHARED_BYTES);
    allow_poisoned(m.shared, dynamic);
}

static void run_one(int64_t b, int64_t blocks, size_t shared, order o)
{
    m.block++;
    IF_RACES(race_block((uint32_t)b));
    begin_shared(shared);
    for (unsigned i = 0; i < m.n; i += WARP)
        m.warps[i / WARP] = {~0u, 0u, 0u};
    for (unsigned i = 0; i < m.n; i++) {
        fiber *f = &m.fibers[i];
        f->here = {{i, 0, 0}, {(unsigned)b, 0, 0}, {m.n, 1, 1}, {(unsigned)blocks, 1, 1}};
        f->turn = 0;
        f->waited = false;
        f->n_copies = f->n_groups = 0;
        f->file = "its kernel";
        f->line = 0;
        prepare(f, i);
    }
    run_block(o, b % 2 == 1);
    IF_RACES(race_end());
}

static int check_launch(int64_t blocks, int64_t threads, size_t shared)
{
    bool possible = blocks >= 1 && blocks <= 0x7fffffff && threads >= 1 &&
                    threads <= MOST_THREADS && threads % (int64_t)WARP == 0 &&
                    shared <= MOST_SHARED;
    return possible ? 0 : 9; /* cudaErrorInvalidConfiguration */
}

static int run_kernel(int64_t blocks, int64_t threads, size_t shared, const simt_call &kernel)
{
    std::lock_guard<std::mutex> one_launch(lock);
    const order o = wanted_order();
    if (int error = simt_fail_now(); error != 0)
        return error;
    if (!have_fibers())
        return 2; /* cudaErrorMemoryAllocation */
    m.n = (unsigned)threads;
    m.kernel = &kernel;
    IF_RACES(race_launch());
    IF_RACES(race_own(m.stacks, MOST_THREADS * STACK_BYTES));
    IF_RACES(race_own(m.fibers, MOST_THREADS * sizeof *m.fibers));
    IF_RACES(race_own(m.copies, MOST_THREADS * sizeof *m.copies));
    IF_RACES(race_own(&simt_at, sizeof simt_at));
    IF_RACES(race_own(kernel.given, kernel.n_bytes));
    for (int64_t b = 0; b < blocks; b++)
        run_one(o == WARP_FIRST_FALLING ? blocks - 1 - b : b, blocks, shared, o);
    return 0;
}

/* --- memory of a thread outside its work --- */

void simt_wait_for_others()
{
    m.running->waited = true;
}

void simt_begin_copy(void *to, const void *from, const char *file, int line)
{
    fiber *f = m.running;
    f->file = file;
    f->line = line;
    if (f->n_copies == MOST_COPIES)
        broken("more copies under way than there is room for", f);
    m.copies[f->here.thread.x][f->n_copies++] = {to, from, f->n_groups};
}

void simt_end_copies()
{
    m.running->n_groups++;
}

bool simt_take_copy(unsigned pending, void **to, const void **from)
{
    fiber *f = m.running;
    copy *copies = m.copies[f->here.thread.x];
    if (f->n_copies == 0 || copies[0].group + pending >= f->n_groups)
        return false;
    *to = copies[0].to;
    *from = copies[0].from;
    f->n_copies--;
    for (unsigned i = 0; i < f->n_copies; i++)
        copies[i] = copies[i + 1];
    return true;
}

/* --- launches in graphs --- */

struct launch {
    int64_t blocks, threads;
    size_t shared;
    simt_call kernel;
};

static int run_launch(void *work)
{
    const launch *l = static_cast<const launch *>(work);
    return run_kernel(l->blocks, l->threads, l->shared, l->kernel);
}

static void drop_launch(void *work)
{
    launch *l = static_cast<launch *>(work);
    l->kernel.drop(l->kernel.given);
    delete l;
}

int simt_launch(cudaStream_t stream, int64_t blocks, int64_t threads, size_t shared,
                simt_call kernel)
{
    int error = simt_fail_now();
    if (error == 0)
        error = check_launch(blocks, threads, shared);
    if (error != 0)
        kernel.drop(kernel.given);
    else
        simt_queue(stream, run_launch, drop_launch, new launch{blocks, threads, shared, kernel});
    return error;
}
