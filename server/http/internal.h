/*
 * Connections, exchanges, workers and the watcher, for the files of the HTTP server only.
 *
 * Locks, in the order in which they may be taken (never the other way round):
 *   - watch lock: the connections, their deadlines and current exchanges
 *   - exchange lock: one exchange's {suspended, woken, left, completed, working, busy}. Calls of
 *     MHD_suspend_connection and MHD_resume_connection hold it, as they must agree with the flags.
 *   - workers' lock: the lines of exchanges that wait for a worker
 *
 * The watcher never wakes an exchange under the watch lock: it takes a reference first.
 *
 * An exchange (one request and its answer) is referenced by its connection until the completion
 * callback, by a streaming response, by the workers, and for moments by the watcher. The deferred
 * object is released with the last reference.
 */
#ifndef LINNET_SERVER_HTTP_INTERNAL_H
#define LINNET_SERVER_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <stdatomic.h>

#include "common/lock.h"
#include "server/http/front.h"
#include "server/http/headers.h"
#include "server/http/proxies.h"
#include "server/http/server.h"
#include "server/http/shares.h"

struct lx_exchange;
typedef struct lx_tls_pair lx_tls_pair; /* a certificate and its key */

/* The library's memory of a connection. It must hold a head as the front passes it on, the
   library's lists of its headers and arguments, and the head of the answer. */
enum { LX_HTTP_MEMORY_BYTES = 28 * 1024, LX_MAX_LINGERING = 64 };

typedef struct lx_http_conn {
    lx_http *http;
    struct lx_http_conn *newer, *older; /* idle connections */
    struct lx_exchange *exchange;       /* with a pending answer; NULL otherwise */
    int64_t deadline_ns;                /* when the socket is shut down, 0: never */
    lx_tls_pair *tls;                   /* the pair of its handshake; NULL without TLS */
    int fd;
    uint32_t generation; /* tells apart connections that had the same fd */
    bool hung_up;        /* the peer will send nothing more */
    bool idle, evicted;  /* in no request; shut down for others, and not closed yet */
    bool asked;          /* its first request has begun */
    bool refused;        /* closed while the peer still sends */
    lx_front front;      /* its thread only, as the number of exchanges */
    int64_t n_exchanges;
} lx_http_conn;

/* A socket that is only read until its peer ends; see watch.c. */
typedef struct lx_linger {
    int fd;
    int64_t deadline_ns, dropped;
} lx_linger;

#define LX_LINGER_KEY (UINT64_C(1) << 63) /* marks such a socket's events */

typedef struct lx_watch {
    pthread_mutex_t lock;
    pthread_t thread;
    int epoll_fd, stop_fd;
    lx_http_conn **by_fd;    /* [n_by_fd] open connections */
    int32_t n_by_fd, fd_end; /* no connection has had the fd fd_end or a higher one */
    uint32_t next_generation;
    /* Connections without a request: since their last answer, or since they began. */
    lx_http_conn *newest, *oldest;
    int32_t n_conns, n_evicted;
    int32_t most; /* open connections, before idle ones give way */
    int64_t ping_ns;
    lx_linger lingering[LX_MAX_LINGERING];
    int32_t n_lingering;
    bool started;
} lx_watch;

/* See workers.c. */
typedef struct lx_workers {
    pthread_mutex_t lock;
    pthread_cond_t more;                  /* exchanges that wait, or the end */
    struct lx_exchange *first, *last;     /* the heads of lines */
    void (*work)(struct lx_exchange *ex); /* lx_exchange_work */
    void (*drop)(struct lx_exchange *ex); /* lx_exchange_drop */
    pthread_t *threads;                   /* [n] */
    int32_t n;
    bool stopping;
} lx_workers;

struct lx_http {
    lx_http_options options;
    lx_shares shares; /* of options.bodies */
    lx_workers workers;
    struct MHD_Daemon *daemon;
    int listener; /* before the daemon has it, and once that is quiesced; else -1 */
    lx_watch watch;
    int32_t port;
    pthread_mutex_t tls_lock;
    lx_tls_pair *tls; /* for new connections; NULL: no TLS; guarded by tls_lock */
    _Atomic bool draining, stopping;
    _Atomic int64_t n_connections, n_exchanges, n_answering;
    _Atomic uint64_t responses[6], abandoned;
    _Atomic int64_t certificate_ends; /* Unix time; 0 without TLS */
    _Atomic uint64_t next_id;
    uint64_t id_prefix;
};

typedef enum lx_exchange_phase {
    LX_EXCHANGE_READING,
    LX_EXCHANGE_WORKING,
    LX_EXCHANGE_SENDING
} lx_exchange_phase;

typedef struct lx_exchange {
    lx_http *http;
    struct MHD_Connection *connection;
    lx_http_conn *conn;
    int64_t number; /* of the connection's exchanges */
    _Atomic int32_t refs;
    pthread_mutex_t lock;
    bool suspended, woken, left, completed; /* guarded by lock, as the next two */
    bool working;                           /* the answer is not ready for its connection yet */
    bool busy;                              /* a worker has it, or will */
    bool handled;                           /* the rest up to `phase`: of its worker, while busy */
    int64_t given_ns;                       /* when it was given to the workers first */
    lx_request request;
    lx_response response; /* made by a worker, for the connection's thread */
    struct lx_exchange *next_line, *after, *last; /* see workers.c; its lock */
    lx_exchange_phase phase; /* the connection's thread only, as are the rest */
    bool answering, ended;
    bool old_version;  /* HTTP/1.0: a stream's end is the connection's */
    size_t body_bytes; /* received, dropped ones included */
    lx_buffer body;
    lx_body_limit most;
    lx_share *share;    /* of the budget of bodies; NULL: it has no body */
    size_t reserved;    /* for it, of that share */
    size_t body_length; /* by Content-Length; 0 where it is chunked */
    lx_buffer out;      /* stream: made but not yet given to the library */
    size_t out_read;
    lx_deferred deferred; /* replaced, under the lock, when its finish hands over */
    lx_deferred before;   /* the one that did */
    _Atomic int64_t last_sent_ns;
    _Atomic bool streaming, ping_due;
    lx_pass pass;
    bool passed; /* `leave` is due */
    int64_t start_ns;
    int status; /* 0 until there is an answer */
    char id[LX_MAX_REQUEST_ID + 1];
    char trace[LX_TRACE_ID + 1]; /* "" without a traceparent */
    char method[16], path[96];   /* for the log, cut */
    char *shown;                 /* the body's beginning, for the log; NULL unless asked for */
    lx_request_facts facts;      /* for the log */
    lx_address client;           /* see proxies.h */
} lx_exchange;

/* exchange.c */
enum MHD_Result lx_exchange_on_call(void *cls, struct MHD_Connection *connection, const char *url,
                                    const char *method, const char *version, const char *upload,
                                    size_t *upload_bytes, void **con_cls);
void lx_exchange_on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                              enum MHD_RequestTerminationCode code);

/* turns.c */
static inline void lx_exchange_ref(lx_exchange *ex)
{
    atomic_fetch_add(&ex->refs, 1);
}
void lx_exchange_unref(lx_exchange *ex);
void lx_exchange_free_body(lx_exchange *ex);
void lx_exchange_wake(void *context);      /* there is more; any thread */
void lx_exchange_kill(lx_exchange *ex);    /* the client left; any thread */
void lx_exchange_cancel(lx_exchange *ex);  /* end the making of the answer; `finish` still sends */
bool lx_exchange_is_left(lx_exchange *ex); /* whether the client left; forgets a wake */
/* Suspends the connection until the next wake. False: a wake has come, the client left or the
   server stops, so look again. The connection's thread only. */
bool lx_exchange_suspend(lx_exchange *ex);
/* Gives the exchange to a worker and suspends the connection meanwhile. False: the client left or
   the server stops. The connection's thread only. */
bool lx_exchange_give(lx_exchange *ex);
/* Ends a worker's turn with the answer, or NULL without one. False: the worker must look again. */
bool lx_exchange_end_turn(lx_exchange *ex, const lx_response *rs);
void lx_exchange_drop(lx_exchange *ex); /* lx_exchange_work, when no worker has a turn any more */

/* exchange.c */
void lx_exchange_work(lx_exchange *ex); /* a worker's turn; takes a reference over */

/* workers.c */
/* n threads that call `work` for each exchange, and `drop` at the end for each waiting one. */
lx_status lx_workers_start(lx_workers *w, int32_t n, void (*work)(lx_exchange *ex),
                           void (*drop)(lx_exchange *ex), lx_error *err) LX_MUST_USE;
/* Takes a reference of the exchange, which `work` gets. False: they have stopped. */
bool lx_workers_add(lx_workers *w, lx_exchange *ex) LX_MUST_USE;
/* Waits for the exchanges at work and drops the waiting ones; lx_workers_add refuses from then on.
 */
void lx_workers_stop(lx_workers *w);
void lx_workers_fini(lx_workers *w); /* once no exchange is left */

/* response.c */
enum MHD_Result lx_http_queue(lx_exchange *ex, lx_response *rs, bool close);
enum MHD_Result lx_http_queue_stream(lx_exchange *ex, lx_response *rs);
/* Makes a stream's next piece; whether there is something to send, or to end for. */
bool lx_http_pull(lx_exchange *ex);

/* log.c */
void lx_http_keep_body(lx_exchange *ex); /* for the log, if it shows bodies */
void lx_http_log_request(const lx_exchange *ex, bool complete);

/* recv.c */
typedef struct lx_recv_source {
    const void *from;
    ssize_t (*read)(const void *from, char *to, size_t max); /* as recv; 0: the end */
    ssize_t again, failed; /* the results without bytes now, and without memory; errno is set too */
} lx_recv_source;

/* From now on the library reads the socket through the front. The connection's thread only. */
bool lx_recv_attach(int fd, lx_front *front) LX_MUST_USE;
void lx_recv_detach(int fd);
lx_front *lx_recv_front(int fd); /* NULL: there is none */
ssize_t lx_recv_through(lx_front *f, const lx_recv_source *source, char *to, size_t max);

/* watch.c */
void lx_linger_add(lx_watch *w, int fd); /* keeps a duplicate; any thread */
/* max_connections: as the library has it, of which a few are kept free for new ones. */
lx_status lx_watch_start(lx_watch *w, int32_t ping_s, int32_t max_connections,
                         lx_error *err) LX_MUST_USE;
void lx_watch_stop(lx_watch *w); /* also one that was never started */
/* Starts watching a new connection; false when its socket cannot be watched. */
bool lx_watch_open(lx_watch *w, lx_http_conn *conn, int64_t deadline_ns);
void lx_watch_close(lx_watch *w, lx_http_conn *conn);
void lx_watch_set_deadline(lx_watch *w, lx_http_conn *conn, int64_t deadline_ns);
/* A request begins, so the connection is not idle; and ends, so it is idle and may give way. */
void lx_watch_begin(lx_watch *w, lx_http_conn *conn, int64_t deadline_ns);
void lx_watch_end(lx_watch *w, lx_http_conn *conn, int64_t deadline_ns);
/* From now on a hang-up of the peer kills `ex`. False when it has hung up already. */
bool lx_watch_attach(lx_watch *w, lx_http_conn *conn, lx_exchange *ex);
/* Calls act for every exchange with a pending answer, outside the lock. */
void lx_watch_each(lx_watch *w, void (*act)(lx_exchange *ex));

/* listen.c */
lx_status lx_http_listen(const char *host, int32_t port, int *fd, int32_t *bound_port,
                         lx_error *err) LX_MUST_USE;

/* tls.c; see lx_http_renew_tls */
#define LX_TLS_VERSIONS "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" /* for GnuTLS */
/* Gives a new connection the newest pair, which it keeps until detach. NULL without TLS. */
lx_tls_pair *lx_http_tls_attach(lx_http *h, struct MHD_Connection *connection);
void lx_http_tls_detach(lx_tls_pair *pair); /* NULL is allowed */
void lx_http_tls_free(lx_http *h);          /* with the last connection gone */
bool lx_http_tls_find_recv(void);           /* once, before the library is started */

#endif
