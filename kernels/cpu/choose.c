/*
 * Chooses the instruction set when a back end is opened: the one that was asked for, or the best
 * that the processor has for the precision.
 */
#include <stdint.h>

#include "kernels/cpu/cpu.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx512vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

static bool has_avx512bf16(void)
{
    return has_avx512vnni() && __builtin_cpu_supports("avx512bf16");
}

/*
 * Tiles are 8 KiB of registers, which Linux saves only for a process that has asked. It refuses
 * where it does not know them, or where a thread's stack for signals would be too small.
 */
static bool may_use_tiles(void)
{
    enum { ARCH_REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQUEST_PERMISSION, TILE_DATA) == 0;
}

static bool has_amx(void)
{
    enum { BF16 = 1 << 22, TILE = 1 << 24, INT8 = 1 << 25, ALL = BF16 | TILE | INT8 };
    unsigned a, b, c, d;
    return has_avx512bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & ALL) == ALL &&
           may_use_tiles();
}

#elif defined(__aarch64__)

#include <sys/auxv.h>

static bool has_neon(void)
{
    enum { ASIMD = 1 << 1 };
    return (getauxval(AT_HWCAP) & ASIMD) != 0;
}

static bool has_neondot(void)
{
    enum { ASIMDDP = 1 << 20 };
    return has_neon() && (getauxval(AT_HWCAP) & ASIMDDP) != 0;
}

static bool has_neonbf16(void)
{
    enum { I8MM = 1 << 13, BF16 = 1 << 14, ALL = I8MM | BF16 };
    return has_neondot() && (getauxval(AT_HWCAP2) & ALL) == ALL;
}

#endif

static bool has_plain(void)
{
    return true;
}

const char *lx_isa_name(lx_isa isa)
{
    static const char *const names[] = {"auto",       "plain",      "avx2",     "avx512",
                                        "avx512bf16", "avx512vnni", "amx",      "amxplain",
                                        "neon",       "neondot",    "neonbf16", "neonbf16plain"};
    return (size_t)isa < sizeof names / sizeof names[0] ? names[isa] : NULL;
}

const char *lx_precision_name(lx_precision precision)
{
    static const char *const names[] = {"f32", "auto", "int8", "int4"};
    return (size_t)precision < sizeof names / sizeof names[0] ? names[precision] : NULL;
}

#define BIT(precision) (1u << (precision))
#define WHOLE (BIT(LX_PRECISION_INT8) | BIT(LX_PRECISION_INT4))
#define ROUNDED (BIT(LX_PRECISION_AUTO) | WHOLE)
#define ANY (BIT(LX_PRECISION_F32) | ROUNDED)

/* Stands for a table that this build does not have (cmake/instruction_sets.cmake). */
extern const lx_cpu_isa lx_cpu_left_out;
const lx_cpu_isa lx_cpu_left_out = {.name = "left out"};

/* Whether this build leaves out the table, or its products of a precision. */
static bool is_left_out(const lx_cpu_isa *table, lx_precision precision)
{
    return table == &lx_cpu_left_out || (table->floats_only && precision != LX_PRECISION_F32);
}

typedef struct choice {
    lx_isa isa;
    unsigned precisions; /* that it is for */
    bool (*is_there)(void);
    const lx_cpu_isa *table;
} choice;

/* Best first; plain C is always there, so an entry after it is taken only when asked for. */
static const choice choices[] = {
#if defined(__x86_64__)
    {LX_ISA_AMX, ROUNDED, has_amx, &lx_cpu_amx},
    {LX_ISA_AVX512_BF16, BIT(LX_PRECISION_AUTO), has_avx512bf16, &lx_cpu_avx512bf16},
    {LX_ISA_AVX512_VNNI, WHOLE, has_avx512vnni, &lx_cpu_avx512vnni},
    {LX_ISA_AVX512, ANY, has_avx512, &lx_cpu_avx512},
    {LX_ISA_AVX2, ANY, has_avx2, &lx_cpu_avx2},
#elif defined(__aarch64__)
    {LX_ISA_NEON_BF16, ROUNDED, has_neonbf16, &lx_cpu_neonbf16},
    {LX_ISA_NEON_DOT, WHOLE, has_neondot, &lx_cpu_neondot},
    {LX_ISA_NEON, ANY, has_neon, &lx_cpu_neon},
#endif
    {LX_ISA_PLAIN, ANY, has_plain, &lx_cpu_plain},
    {LX_ISA_AMX_PLAIN, ROUNDED, has_plain, &lx_cpu_amxplain},
    {LX_ISA_NEON_BF16_PLAIN, ROUNDED, has_plain, &lx_cpu_neonbf16plain},
};

static const char *precisions_of(const choice *c)
{
    return c->precisions == ROUNDED ? "auto, int8 or int4"
           : c->precisions == WHOLE ? "int8 or int4"
                                    : "auto";
}

/* A table with the loops that it leaves to others. */
static lx_cpu_isa joined(const lx_cpu_isa *table)
{
    if (table->others == NULL)
        return *table;
    lx_cpu_isa whole = joined(table->others);
    whole.name = table->name;
    whole.others = table->others;
    whole.floats_only = table->floats_only;
    whole.linear = table->linear;
    return whole;
}

lx_status lx_cpu_choose(const lx_backend_options *o, lx_cpu_isa *out, lx_error *err)
{
    const char *name = lx_isa_name(o->isa);
    if (name == NULL)
        return lx_fail(err, LX_ERR_INVALID, "isa", "unknown instruction set %d", (int)o->isa);
    if (lx_precision_name(o->precision) == NULL)
        return lx_fail(err, LX_ERR_INVALID, "precision", "unknown precision %d", (int)o->precision);
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        const choice *c = &choices[i];
        if (o->isa != LX_ISA_AUTO && o->isa != c->isa)
            continue;
        bool allowed = (c->precisions & BIT(o->precision)) != 0;
        if (!allowed && o->isa != LX_ISA_AUTO)
            return lx_fail(err, LX_ERR_INVALID, "isa", "%s is for precision %s", name,
                           precisions_of(c));
        if (is_left_out(c->table, o->precision)) {
            if (o->isa == LX_ISA_AUTO)
                continue;
            return lx_fail(
                err, LX_ERR_UNSUPPORTED, "isa",
                "%s with precision %s is not in this build, which is for one machine or for tests; "
                "build with -DLINNET_INSTRUCTION_SETS=all",
                name, lx_precision_name(o->precision));
        }
        if (allowed && c->is_there()) {
            *out = joined(c->table);
            return LX_OK;
        }
    }
    if (o->isa == LX_ISA_AUTO)
        return lx_fail(err, LX_ERR_UNSUPPORTED, "isa",
                       "this build is for another processor; build with "
                       "-DLINNET_INSTRUCTION_SETS=all");
    return lx_fail(err, LX_ERR_UNSUPPORTED, "isa", "this processor has no %s", name);
}
