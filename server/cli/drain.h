/* The server's end: what runs is finished, suspended or, when the time is over, dropped. */
#ifndef LINNET_SERVER_CLI_DRAIN_H
#define LINNET_SERVER_CLI_DRAIN_H

#include <signal.h>

#include "server/http/server.h"
#include "server/registry/serving.h"
#include "server/states/store.h"

/*
 * Takes no more requests, suspends those that asked for it where the store outlives the process,
 * and waits for the others until all are answered, timeout_s is over, or another of `signals`
 * comes; what is left then is cancelled. Thread: the main one, with `signals` blocked.
 */
void lx_drain(int64_t timeout_s, lx_serving *serving, lx_state_store *states, lx_http *http,
              const sigset_t *signals);

#endif
