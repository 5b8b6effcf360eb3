/* The order of a job's samples, best first (see job.h). */
#include "server/engine/job.h"

/* Better mean first; equal ones keep the order of their numbers. */
static bool ranks_before(const lx_job *job, int32_t a, int32_t b)
{
    float x = lx_job_mean_logprob(job, a), y = lx_job_mean_logprob(job, b);
    return x > y || (x == y && a < b);
}

void lx_job_rank(const lx_job *job, int32_t *order)
{
    int32_t n = lx_job_get_params(job)->n;
    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    for (int32_t gap = n / 2; gap > 0; gap /= 2) { /* shell sort: no memory, and n is small */
        for (int32_t i = gap; i < n; i++) {
            int32_t moved = order[i], k = i;
            for (; k >= gap && ranks_before(job, moved, order[k - gap]); k -= gap)
                order[k] = order[k - gap];
            order[k] = moved;
        }
    }
}
