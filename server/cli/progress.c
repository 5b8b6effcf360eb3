/* One line that is written over itself (see progress.h): bar, percentage, units a second. */
#include "server/cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

enum { BAR = 30 };

void lx_progress_begin(lx_progress *p, const char *unit, int64_t total)
{
    *p = (lx_progress){.on = isatty(STDERR_FILENO) == 1,
                       .unit = unit,
                       .total = total > 0 ? total : 1,
                       .start_ns = lx_now_ns()};
}

void lx_progress_update(lx_progress *p, int64_t done)
{
    int64_t now = lx_now_ns();
    if (!p->on || now < p->next_ns)
        return;
    char bar[BAR + 1];
    int filled = (int)(done * BAR / p->total);
    memset(bar, ' ', BAR);
    memset(bar, '#', (size_t)filled);
    bar[BAR] = '\0';
    double seconds = (double)(now - p->start_ns) / 1e9;
    (void)fprintf(stderr, "\r[%s] %3d %%  %.0f %s/s\033[K", bar, (int)(done * 100 / p->total),
                  seconds > 0 ? (double)done / seconds : 0.0, p->unit);
    (void)fflush(stderr);
    p->next_ns = now + 100 * LX_NS_PER_MS;
}

void lx_progress_end(lx_progress *p)
{
    if (p->on)
        (void)fputs("\r\033[K", stderr);
}
