/* In place of probe_tls.c where LINNET_TLS is off: a probe of https:// ends where TLS would begin.
 */
#include "common/features.h"
#include "server/cli/probe_internal.h"

static lx_status refuse(lx_error *err)
{
    return lx_fail(err, LX_ERR_INVALID, "tls-cert", "--tls-cert: " LX_WITHOUT("TLS", "LINNET_TLS"));
}

lx_status lx_probe_tls_open(lx_probe_link *link, lx_error *err)
{
    (void)link;
    return refuse(err);
}

lx_status lx_probe_tls_send(lx_probe_link *link, const char *text, size_t n, size_t *sent,
                            lx_error *err)
{
    (void)link;
    (void)text;
    (void)n;
    (void)sent;
    return refuse(err);
}

lx_status lx_probe_tls_receive(lx_probe_link *link, char *room, size_t n, size_t *got,
                               lx_error *err)
{
    (void)link;
    (void)room;
    (void)n;
    (void)got;
    return refuse(err);
}

void lx_probe_tls_close(lx_probe_link *link)
{
    (void)link;
}
