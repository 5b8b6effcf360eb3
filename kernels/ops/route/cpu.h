/* A row of the router. Lanes are experts; the equation is in op.h. */

/* p without its sum's division; returns that sum, or 1 for a sigmoid. */
static float route_shares(const lx_cpu_route *a)
{
    v16 nothing = v16_set1(-INFINITY), most = nothing, sum = v16_set1(0.0f);
    int32_t n = a->n_experts;
    for (int32_t i = 0; i < n; i += 16)
        most = v16_max(v16_load_n(a->x + i, n - i < 16 ? n - i : 16, nothing), most);
    most = v16_set1(v16_greatest(most));
    for (int32_t i = 0; i < n; i += 16) {
        v16 x = v16_load_n(a->x + i, n - i < 16 ? n - i : 16, nothing);
        v16 p = a->sigmoid ? v16_sigmoid(x) : v16_exp(v16_sub(x, most));
        v16_store(a->p + i, p);
        if (n - i < 16) /* lanes after the last expert count nothing */
            p = v16_load_n(a->p + i, n - i, v16_set1(0.0f));
        sum = v16_add(sum, p);
    }
    return a->sigmoid ? 1.0f : v16_sum(sum);
}

/* The greatest key; of equal keys, and without any number, the first. */
static int32_t route_next(const float *keys, int32_t n)
{
    int32_t best = 0;
    float most = -INFINITY;
    for (int32_t i = 0; i < n; i++) {
        if (keys[i] > most) {
            best = i;
            most = keys[i];
        }
    }
    return best;
}

/* The two greatest keys of n together. */
static float route_two(const float *keys, int32_t n)
{
    float most = -INFINITY, second = -INFINITY;
    for (int32_t i = 0; i < n; i++) {
        second = keys[i] > most ? most : keys[i] > second ? keys[i] : second;
        most = keys[i] > most ? keys[i] : most;
    }
    return most + second;
}

/* Takes the keys of the experts that are in none of the best groups. */
static void route_groups(const lx_cpu_route *a)
{
    int32_t size = a->n_groups > 0 ? a->n_experts / a->n_groups : 0;
    for (int32_t g = 0; g < a->n_groups; g++)
        a->groups[g] = route_two(a->keys + g * size, size);
    for (int32_t g = 0; g < a->n_groups; g++) {
        float own = a->groups[g];
        int32_t better = 0;
        for (int32_t i = 0; i < a->n_groups; i++)
            better += a->groups[i] > own || (a->groups[i] == own && i < g);
        for (int32_t i = g * size; i < (g + 1) * size && better >= a->active_groups; i++)
            a->keys[i] = -INFINITY;
    }
}

static void route(const lx_cpu_route *a)
{
    float all = route_shares(a), sum = a->eps;
    for (int32_t i = 0; i < a->n_experts; i++) {
        a->p[i] /= all;
        a->keys[i] = a->bias != NULL ? a->p[i] + a->bias[i] : a->p[i];
    }
    route_groups(a);
    for (int32_t k = 0; k < a->n_active; k++) {
        int32_t best = route_next(a->keys, a->n_experts);
        a->keys[best] = -INFINITY;
        a->y[k] = (float)best;
        sum += a->p[best];
    }
    for (int32_t k = 0; k < a->n_active; k++) {
        float p = a->p[(int32_t)a->y[k]];
        a->y[a->n_active + k] = a->scale * (a->normalise ? p / sum : p);
    }
}
