/*
 * The options of linnet serve: one table, from which parsing, --help and the documentation come.
 */
#ifndef LINNET_SERVER_CLI_SERVE_OPTIONS_H
#define LINNET_SERVER_CLI_SERVE_OPTIONS_H

#include <stdbool.h>

#include "server/cli/cli.h"

/* Values of the options of lx_serve_command (cli.h). */
typedef struct lx_serve_options {
    lx_cli_model_options local; /* model may be NULL */
    const char *host, *models, *log_level, *state_store, *state_key, *state_store_password_file;
    int64_t port, slots, queue, http_threads, max_connections, connection_timeout, read_timeout;
    int64_t answer_memory, body_memory;
    int64_t ping, max_body, max_upload, max_n, max_prompt, max_tokens, max_images, drain_timeout;
    int64_t state_mb, prefix_cache_mb, prefix_store_mb, prefix_every, draft, state_ttl, max_states,
        max_state_bytes;
    int64_t key_concurrency, key_rate, key_tokens, key_samples, key_states, key_state_bytes;
    int64_t per_address;
    const char *api_key, *api_key_file, *public_paths, *cors_origins, *allowed_hosts, *tls_cert,
        *tls_key;
    const char *log_format, *config, *font, *trusted_proxies, *model_slots, *model_queue;
    bool check, log_prompts, share_prefixes, model_sampling;
    double timeout, state_store_timeout, probe_interval, queue_timeout, first_token_timeout,
        drain_delay;
} lx_serve_options;

/* Runs the command with an lx_serve_options (cmd_serve.c). */
lx_status lx_serve(void *values, const char *const *rest, lx_error *err) LX_MUST_USE;

#endif
