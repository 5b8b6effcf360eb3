/* The server's end: what runs is finished, suspended or, when the time is over, dropped. */
#ifndef LINNET_SERVER_CLI_DRAIN_H
#define LINNET_SERVER_CLI_DRAIN_H

#include <signal.h>

#include "server/http/server.h"
#include "server/registry/serving.h"
#include "server/states/store.h"

/*
 * Says for delay_s that it is not ready, and works on as before, so that those who send requests
 * have heard of it before the first is refused. Then takes no more, suspends those that asked for
 * it where the store outlives the process, and waits for the others until all are answered,
 * timeout_s is over, or another of `signals` comes, also in the delay; what is left then is
 * cancelled. Thread: the main one, with `signals` blocked.
 */
void lx_drain(double delay_s, int64_t timeout_s, lx_serving *serving, lx_state_store *states,
              lx_http *http, const sigset_t *signals);

#endif
