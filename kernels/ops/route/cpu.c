#include "kernels/cpu/cpu.h"

static void run(const lx_cpu *c, const void *args, const lx_cpu_part *part, float *scratch)
{
    const lx_route_args *a = args;
    lx_cpu_range rows = lx_cpu_shared_rows(part, a->rows);
    for (int64_t row = rows.from; row < rows.to; row++)
        c->isa->route(&(lx_cpu_route){.x = a->x->data + row * a->n_experts,
                                      .bias = lx_array_at(a->bias, 0),
                                      .y = a->y->data + 2 * row * a->n_active,
                                      .p = scratch,
                                      .keys = scratch + lx_cpu_route_lanes(a->n_experts),
                                      .groups = scratch + 2 * lx_cpu_route_lanes(a->n_experts),
                                      .n_experts = a->n_experts,
                                      .n_active = a->n_active,
                                      .n_groups = a->n_groups,
                                      .active_groups = a->active_groups,
                                      .sigmoid = a->sigmoid,
                                      .normalise = a->normalise,
                                      .scale = a->scale,
                                      .eps = a->eps});
}

static int64_t scratch(const void *args)
{
    const lx_route_args *a = args;
    return 2 * lx_cpu_route_lanes(a->n_experts) + a->n_groups;
}

/* The search for an expert among 512 takes half a microsecond. */
static int64_t pieces(const lx_cpu *c, const void *args)
{
    const lx_route_args *a = args;
    return (int64_t)lx_batch_rows(c->batch, a->rows) * a->n_active * a->n_experts / 512;
}

LX_DEFINE_CPU(route, .scratch = scratch, .pieces = pieces, .is_by_rows = true, .run = run);
