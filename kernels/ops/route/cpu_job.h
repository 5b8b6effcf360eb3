/* A row of the router. */
typedef struct lx_cpu_route {
    const float *x, *bias; /* bias may be NULL */
    float *y;
    float *p, *keys; /* scratch, [lx_cpu_route_lanes(n_experts)] each */
    float *groups;   /* scratch, [n_groups] */
    int32_t n_experts, n_active, n_groups, active_groups;
    bool sigmoid, normalise;
    float scale, eps;
} lx_cpu_route;

static inline int64_t lx_cpu_route_lanes(int64_t n_experts)
{
    return (n_experts + 15) / 16 * 16;
}

typedef void lx_cpu_route_loop(const lx_cpu_route *job);
