/* The table of linnet serve's options (see serve_options.h). */
#include "server/cli/serve_options.h"

#include "server/engine/engine.h"

#define LX_OPTIONS lx_serve_options
static const lx_option options[] = {
    LX_CLI_CONFIG_OPTION,
    LX_FLAG("check", check, "off",
            "The command reads options, keys, certificate and models as at a start, computes a "
            "step of each model and ends: status 0 says that the server could start. It neither "
            "listens nor opens the store of states."),
    LX_STRING("host", host, "127.0.0.1", "NAME", "The server listens on this address."),
    LX_INT("port", port, "8080", 0, 65535, "N",
           "The server listens on this TCP port; 0 takes any free port, which the log names.",
           .letter = 'p'),
    LX_STRING("models", models, NULL, "DIR[:DIR]",
              "The server serves the models of these folders: each folder is a model if it has a "
              "config.json, otherwise each of its subfolders that has one is, and each GGUF file. "
              "Without --models and --model it serves the models that came with linnet."),
    LX_STRING(
        "model", local.model, NULL, "DIR",
        "The server serves this model: a folder, a GGUF file, or the name of a model that came "
        "with linnet.",
        .letter = 'm', .several = "--models DIR:DIR"),
    LX_CLI_BACKEND_OPTIONS,
    LX_INT("slots", slots, "0", 0, 65536, "N",
           "The server computes at most N samples per model at once. 0 takes as many as fit the "
           "model's part of the memory, up to 256; on a GPU as many as fit three quarters of its "
           "memory, up to 16384."),
    LX_INT("queue", queue, "1024", 0, 1000000, "N",
           "At most N prompts per model wait; further requests are refused."),
    LX_STRING("model-slots", model_slots, NULL, "LIST",
              "These models have other --slots: MODEL=N,MODEL=N."),
    LX_STRING("model-queue", model_queue, NULL, "LIST",
              "These models have another --queue: MODEL=N,MODEL=N."),
    LX_INT("state-mb", state_mb, "0", 0, 1 << 20, "MIB",
           "The growing part of states (of kinds that keep rows) takes at most this many MiB per "
           "model. 0 takes the most that the states of all slots can need, or as much of this as "
           "fits. Large requests may take seven eighths of it."),
    LX_INT("prefix-cache-mb", prefix_cache_mb, "32", 0, 1 << 20, "MIB",
           "States kept for prompts with a common beginning take at most this many MiB per model; "
           "0 keeps no states. On a CPU the kept states of all models take at most an eighth of "
           "the memory. "
           "The growing part of these states counts in --state-mb and gives way to requests."),
    LX_INT("prefix-store-mb", prefix_store_mb, "1024", 0, 1 << 30, "MIB",
           "With states in the file NAME.db, kept states of long prompts also go to the file "
           "NAME-prefixes.db, so that they outlive the process. It has at most this many MiB; 0 "
           "writes none."),
    LX_INT("prefix-every", prefix_every, "0", 0, 1 << 20, "N",
           "The prefix cache also keeps a state every N prompt tokens; each costs a step. 0 keeps "
           "states at ends and branches, where messages of a chat begin, and at ends of steps in "
           "prompts of open texts."),
    LX_FLAG("share-prefixes", share_prefixes, "off",
            "API keys share the states of the prefix cache. This is faster if many keys send one "
            "long beginning. Times and cached_tokens then reveal prompts to other keys."),
    LX_CLI_DRAFT_OPTION,
    LX_INT("http-threads", http_threads, "2", 1, 64, "N",
           "N threads read requests and send answers, and N further threads process the requests."),
    LX_INT("max-connections", max_connections, "12000", 1, 1000000, "N",
           "The server holds at most N open connections; fewer if the limit of open files is "
           "lower, or if a sixteenth of the memory holds fewer. Before none is left, it closes the "
           "connections that have been idle the longest."),
    LX_INT("connection-timeout", connection_timeout, "60", 1, 3600, "S",
           "The server closes a connection after this many seconds of silence."),
    LX_INT("read-timeout", read_timeout, "30", 1, 3600, "S",
           "A request's head must arrive within this many seconds, and again its body."),
    LX_INT("ping", ping, "15", 0, 3600, "S",
           "After this many seconds of silence in a stream the server sends a comment; 0 never "
           "sends one."),
    LX_INT("max-body", max_body, "1048576", 256, 1 << 30, "BYTES",
           "A request's body has at most this many bytes."),
    LX_INT("max-upload", max_upload, "8388608", 256, 1 << 30, "BYTES",
           "A form with a sound or a picture has at most this many bytes, in place of --max-body."),
    LX_INT("answer-memory", answer_memory, "0", 0, 1 << 20, "MIB",
           "All requests and answers take at most this many MiB; a request that does not fit is "
           "refused. 0 takes the memory that weights, slots and limits leave, up to 1024."),
    LX_INT("body-memory", body_memory, "0", 0, 1 << 20, "MIB",
           "All bodies that are being read take at most this many MiB; a body that does not fit is "
           "refused unread. 0 takes an eighth of the memory, up to 128, and enough for one body."),
    LX_INT("max-n", max_n, "128", 1, 4096, "N", "A completion asks for at most N answers."),
    LX_INT("max-prompt", max_prompt, "8192", 1, 1 << 18, "N",
           "A prompt has at most N tokens, for models whose answers have no fixed end."),
    LX_INT("max-tokens", max_tokens, "4096", 1, 1 << 18, "N",
           "An answer has at most N tokens, for models whose answers have no fixed end."),
    LX_FLAG("model-sampling", model_sampling, "off",
            "Requests for text that leave out temperature, top_p, top_k, min_p or "
            "repetition_penalty take its value from the model's generation_config.json."),
    LX_INT("max-images", max_images, "1000", 1, 100000, "N",
           "A request asks for at most N images."),
    LX_REAL("timeout", timeout, "60", 0.001, 86400, "S",
            "A request must be answered within this many seconds, waiting included."),
    LX_REAL("probe-interval", probe_interval, "5", 0, 3600, "S",
            "After this many idle seconds a model checks its device by computing one row; 0 never "
            "checks."),
    LX_REAL("queue-timeout", queue_timeout, "0", 0, 86400, "S",
            "A request waits at most this many seconds for a slot; 0 allows as many as --timeout."),
    LX_REAL("first-token-timeout", first_token_timeout, "0", 0, 86400, "S",
            "A request must have its first token within this many seconds; 0 allows as many as "
            "--timeout."),
    LX_REAL("drain-delay", drain_delay, "0", 0, 3600, "S",
            "For this many seconds after SIGTERM, /readyz reports not ready and the server still "
            "takes requests."),
    LX_INT("drain-timeout", drain_timeout, "30", 0, 3600, "S",
           "After --drain-delay, running answers have this many seconds to finish."),
    LX_STRING("state-store", state_store, "memory", "PLACE",
              "States are kept in memory, or outlive the process: in the file NAME.db, which the "
              "server makes if it is not there, or in Redis at "
              "redis://[user:password@]host[:port][/db]."),
    LX_STRING("state-store-password-file", state_store_password_file, NULL, "FILE",
              "The first line of this file is the password of a redis:// URL that has none."),
    LX_REAL("state-store-timeout", state_store_timeout, "2", 0.001, 3600, "S",
            "Redis must answer within this many seconds, and one second more for each 8 MB of a "
            "state."),
    LX_INT("state-ttl", state_ttl, "3600", 1, 31536000, "S",
           "A state is kept for this many seconds after its last use."),
    LX_INT("max-states", max_states, "100000", 1, 1 << 24, "N",
           "The store in memory or in a file keeps at most N states."),
    LX_INT("max-state-bytes", max_state_bytes, "0", 0, 1e15, "BYTES",
           "The store keeps at most this many bytes of states; 0 takes an eighth of the memory, up "
           "to 1 GiB, or 16 GiB in a file."),
    LX_STRING("api-key", api_key, NULL, "KEY",
              "Clients must send this API key; --api-key-file takes several keys."),
    LX_STRING("api-key-file", api_key_file, NULL, "FILE",
              "Clients must send an API key of this file. A line is KEY, or NAME KEY and then any "
              "of admin, weight=N, max-states=N and max-state-bytes=N."),
    LX_STRING("public", public_paths, "/health,/livez,/readyz,/v1/health,/v2/health/*", "PATHS",
              "The paths of this list need no API key; a path that ends in * stands for all paths "
              "with that beginning."),
    LX_INT("key-concurrency", key_concurrency, "0", 0, 1000000, "N",
           "At most N requests of an API key are answered at once; 0 sets no limit."),
    LX_INT("key-rate", key_rate, "0", 0, 1000000000, "N",
           "An API key has at most N requests per minute; 0 sets no limit."),
    LX_INT("key-states", key_states, "0", 0, 1 << 24, "N",
           "At most N states are kept for an API key; 0 sets no limit. With several keys, a key "
           "may fill at most half of the store in memory."),
    LX_INT("key-state-bytes", key_state_bytes, "0", 0, 1e15, "BYTES",
           "At most this many bytes of states are kept for an API key; 0 sets no limit. With "
           "several keys, a key may fill at most half of the store in memory."),
    LX_INT("key-tokens", key_tokens, "0", 0, 1e12, "N",
           "An API key has at most N new tokens per minute; 0 sets no limit."),
    LX_INT("key-samples", key_samples, "0", 0, 1000000000, "N",
           "An API key has at most N samples (prompts times n) at once; 0 sets no limit."),
    LX_STRING("cors-origins", cors_origins, NULL, "LIST",
              "Pages of these origins may use the API; * allows all."),
    LX_STRING(
        "allowed-hosts", allowed_hosts, NULL, "LIST",
        "A request's Host header may have these names, in addition to addresses and local names. "
        "*.example stands for all names below example, * for all names. With API keys and "
        "without this list all names are allowed."),
    LX_STRING("tls-cert", tls_cert, NULL, "FILE",
              "The server serves HTTPS with this certificate (PEM, with its chain)."),
    LX_STRING("tls-key", tls_key, NULL, "FILE",
              "This file is the private key of --tls-cert (PEM)."),
    LX_INT("connections-per-address", per_address, "0", 0, 1000000, "N",
           "A client address holds at most N open connections; 0 sets no limit."),
    LX_STRING("trusted-proxies", trusted_proxies, NULL, "LIST",
              "The X-Forwarded-For of proxies with these addresses or networks (10.0.0.0/8) names "
              "the client, in the log and for the client's share of --body-memory."),
    LX_STRING(
        "font", font, NULL, "FILE",
        "This font draws the pictures that other sites show with links to couplets and poems; the "
        "word none turns these pictures off. Without it the server takes the first of "
        "Debian's Chinese fonts that is installed."),
    LX_CHOICE("log-format", log_format, "text", "text|json", "FORMAT",
              "The log has lines of text, or one JSON object per line."),
    LX_FLAG("log-prompts", log_prompts, "off", "The log shows the beginning of each request."),
    LX_STRING("state-key", state_key, NULL, "SECRET",
              "The server signs states with this secret, and refuses states with another "
              "signature. Set it in the environment: other users can see command lines."),
    LX_CHOICE("log-level", log_level, "info", "debug|info|warn|error", "LEVEL",
              "The log has messages of this level and above."),
};

const lx_command lx_serve_command = {
    .name = "serve",
    .brief = "serve models over HTTP",
    .summary = "Serves models over HTTP: the page at /, the API under /v1/.",
    LX_COMMAND(lx_serve),
    .variables = true,
    .notes =
        "An argument takes precedence over its environment variable, and that over --config.\n"
        "SIGTERM or SIGINT lets running answers finish and ends with status 0; a second signal "
        "ends\n"
        "the server at once. SIGHUP reads the models, the file of keys and the certificate again:\n"
        "new requests use the new weights, running requests end on the old ones.\n",
};
