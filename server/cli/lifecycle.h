/*
 * The server and the system around it: the limit of open files, the service manager, and the
 * server's end.
 */
#ifndef LINNET_SERVER_CLI_LIFECYCLE_H
#define LINNET_SERVER_CLI_LIFECYCLE_H

#include <signal.h>
#include <time.h>

#include "server/http/server.h"
#include "server/registry/serving.h"
#include "server/states/store.h"

/* Raises the limit of open files (ulimit -n, LimitNOFILE=) as far as allowed. *out: `wanted`
   connections, or the number that the limit leaves. The open files, n_threads HTTP threads and the
   server's other files come first. LX_ERR_INVALID where it leaves none, with a limit that
   suffices. */
lx_status lx_lifecycle_connections(int64_t wanted, int32_t n_threads, int32_t *out,
                                   lx_error *err) LX_MUST_USE;

/*
 * Sends a message to the service manager by the notify protocol of systemd: a datagram of lines
 * "NAME=value" ("READY=1") to the socket that NOTIFY_SOCKET names. Without that variable nothing
 * happens. A message that cannot be sent is logged, and changes nothing else. Any thread.
 */
void lx_lifecycle_notify(const char *message);

/*
 * The watchdog of systemd (WatchdogSec= in the unit): the manager restarts a service that is silent
 * for longer than WATCHDOG_USEC. lx_lifecycle_watchdog sends a sign of life unless an engine is
 * stalled or its device lost, and without that variable nothing. lx_lifecycle_watchdog_pause is the
 * time to wait between two calls, a third of the manager's patience.
 */
void lx_lifecycle_watchdog(lx_serving_state state);
struct timespec lx_lifecycle_watchdog_pause(void);

/*
 * For delay_s the server says that it is not ready, and works on as before, so that its clients'
 * balancer learns of it before the first request is refused. Then the server takes no more
 * requests, and suspends requests that asked for it if the store outlives the process. It waits
 * until all other requests are answered, timeout_s is over, or another of `signals` comes (also in
 * the delay), and cancels the rest. Thread: the main one, with `signals` blocked.
 */
void lx_lifecycle_drain(double delay_s, int64_t timeout_s, lx_serving *serving,
                        lx_state_store *states, lx_http *http, const sigset_t *signals);

#endif
