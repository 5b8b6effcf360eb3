/* In place of probe_tls.c where LINNET_TLS is off: a probe of https:// ends where TLS would begin.
 */
#include "common/features.h"
#include "server/cli/probe.h"

lx_status lx_probe_tls_open(lx_probe_link *link, lx_error *err)
{
    (void)link;
    return lx_fail(err, LX_ERR_INVALID, "tls-cert", "--tls-cert: " LX_WITHOUT("TLS", "LINNET_TLS"));
}

/* Not reached, as no connection is opened. */
ssize_t lx_probe_tls_move(lx_probe_link *link, lx_probe_way way, char *data, size_t n,
                          short *events, lx_error *err)
{
    (void)link;
    (void)way;
    (void)data;
    (void)n;
    (void)events;
    (void)lx_fail(err, LX_ERR_INVALID, "tls-cert", LX_WITHOUT("TLS", "LINNET_TLS"));
    return -1;
}

void lx_probe_tls_close(lx_probe_link *link)
{
    (void)link;
}
