/*
 * The table that an instruction set fills: the inner loop of every operation, on plain pointers
 * (kernels/ops/NAME/cpu_job.h). body.h is the one text of all tables. A set that differs from
 * another in its products only has `linear` alone, and `others` names the table with the rest:
 * lx_cpu_choose joins them. The comment at lx_isa lists the tables with equal bits. Thread: any;
 * nothing here has state.
 */
#ifndef LINNET_KERNELS_CPU_ISA_H
#define LINNET_KERNELS_CPU_ISA_H

#include "kernels/objects.h"
#include "kernels/row_ranges.h"

#define LX_OP_FILE cpu_job.h
#include "kernels/ops.def"

typedef struct lx_cpu_isa lx_cpu_isa;
struct lx_cpu_isa {
    const char *name;
    const lx_cpu_isa *others; /* NULL: this table is whole */
    bool floats_only;         /* has products of f32 and bf16 weights alone, for precision f32 */
#define LX_OP(name) lx_cpu_##name##_loop *name;
#include "kernels/ops.def"
};

extern const lx_cpu_isa lx_cpu_plain, lx_cpu_amxplain, lx_cpu_neonbf16plain;
#if defined(__x86_64__)
extern const lx_cpu_isa lx_cpu_avx2, lx_cpu_avx512, lx_cpu_avx512bf16, lx_cpu_avx512vnni,
    lx_cpu_amx;
#elif defined(__aarch64__)
extern const lx_cpu_isa lx_cpu_neon, lx_cpu_neondot, lx_cpu_neonbf16;
#endif

#endif
