/*
 * Many streaming clients in one thread, for tests/bench/http_load.py.
 *
 *   http_load PORT PATH BODY CLIENTS RAMP WARM SECONDS TIMEOUT
 *
 * Each client sends the same POST again and again over a connection that is kept, the first one at
 * its place in RAMP seconds. It counts the data between RAMP + WARM and RAMP + WARM + SECONDS. A
 * request that takes longer than TIMEOUT seconds ends the run as a failure. Prints one JSON object:
 * tokens, events, bytes, answers, time to first token, and gaps between events in milliseconds. It
 * has the client's processor time, too, since client and server share the cores.
 *
 * A token is a number of a "values" array, or, in an event without one, the event itself, unless
 * its "text" is empty. It does no more than find them: the body's chunks are taken off, each line
 * is looked at once.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CLIENTS = 20000, LINE = 512, BLOCK = 64 * 1024, BATCH = 256, MAX_GAPS = 1 << 22 };

typedef enum where { STATUS_LINE, HEADERS, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILER } where;

typedef struct client {
    int fd;
    where at;
    bool closes, ok;
    size_t chunk_left, n_line; /* of `line` so much is used; a longer one is cut */
    int64_t sent_ns, last_ns;  /* of this request; its newest event with tokens, 0: none yet */
    int64_t tokens;            /* of this request */
    char line[LINE];
} client;

typedef struct list {
    double *ms;
    size_t n;
} list;

static struct {
    struct sockaddr_in address;
    char *request;
    size_t request_bytes;
    int epoll_fd;
    int64_t begin_ns, end_ns;
    int64_t tokens, events, bytes, answers, refused;
    list first, gaps, per_token;
} load;

static int64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what)
{
    (void)fprintf(stderr, "http_load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static bool counts(int64_t now)
{
    return now >= load.begin_ns && now < load.end_ns;
}

static void note(list *l, double ms)
{
    if (l->n < MAX_GAPS)
        l->ms[l->n++] = ms;
}

/* --- one connection --- */

static void send_request(client *c, int64_t now)
{
    c->at = STATUS_LINE;
    c->n_line = 0;
    c->closes = c->ok = false;
    c->sent_ns = now;
    c->last_ns = c->tokens = 0;
    if (send(c->fd, load.request, load.request_bytes, MSG_NOSIGNAL) != (ssize_t)load.request_bytes)
        die("send");
}

static void open_client(client *c)
{
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&load.address, sizeof load.address) != 0)
        die("connect");
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(load.epoll_fd, EPOLL_CTL_ADD, c->fd, &e) != 0)
        die("epoll");
    send_request(c, now_ns());
}

static void end_answer(client *c, int64_t now)
{
    if (c->ok && counts(now))
        load.answers++;
    if (c->closes) {
        (void)close(c->fd);
        open_client(c);
    } else {
        send_request(c, now);
    }
}

static int64_t tokens_of(const char *line)
{
    const char *values = strstr(line, "\"values\":[");
    if (values == NULL)
        return strstr(line, "\"text\": \"\"") == NULL && strstr(line, "\"text\":\"\"") == NULL &&
               strstr(line, "\"b64_json\"") == NULL;
    int64_t n = 1;
    for (const char *p = values; *p != '\0' && *p != ']'; p++)
        n += *p == ',';
    return n;
}

static void on_event(client *c, int64_t now)
{
    int64_t n = tokens_of(c->line);
    if (n == 0)
        return;
    if (counts(now)) {
        load.tokens += n;
        load.events++;
    }
    if (c->last_ns == 0) {
        note(&load.first, (double)(now - c->sent_ns) / 1e6);
    } else if (counts(now)) {
        note(&load.gaps, (double)(now - c->last_ns) / 1e6);
        note(&load.per_token, (double)(now - c->last_ns) / 1e6 / (double)n);
    }
    c->tokens += n;
    c->last_ns = now;
}

static void on_line(client *c, int64_t now)
{
    c->line[c->n_line] = '\0';
    switch (c->at) {
    case STATUS_LINE:
        c->ok = strstr(c->line, " 200 ") != NULL;
        load.refused += !c->ok;
        c->at = HEADERS;
        break;
    case HEADERS:
        if (strncasecmp(c->line, "connection: close", 17) == 0)
            c->closes = true;
        if (c->n_line == 0) {
            c->at = CHUNK_SIZE;
            c->chunk_left = 0;
        }
        break;
    case TRAILER:
        if (c->n_line == 0)
            end_answer(c, now);
        break;
    default:
        if (strncmp(c->line, "data: {", 7) == 0)
            on_event(c, now);
        break;
    }
}

/* Adds the part of the line in data[n]; returns the number of bytes taken. */
static size_t take_line(client *c, const char *data, size_t n, int64_t now)
{
    const char *end = memchr(data, '\n', n);
    size_t length = end != NULL ? (size_t)(end - data) : n;
    size_t room = LINE - 1 - c->n_line, keep = length < room ? length : room;
    memcpy(c->line + c->n_line, data, keep);
    c->n_line += keep;
    if (end == NULL)
        return n;
    if (c->n_line > 0 && c->line[c->n_line - 1] == '\r')
        c->n_line--;
    on_line(c, now);
    c->n_line = 0;
    return length + 1;
}

/* Skips a chunk's size and the line end after its data, byte by byte. The line that a chunk leaves
   unfinished continues in the next chunk, so it is not touched. */
static void take_frame(client *c, char byte)
{
    if (c->at == CHUNK_END) {
        if (byte == '\n')
            c->at = CHUNK_SIZE;
    } else if (byte == '\n') {
        c->at = c->chunk_left > 0 ? CHUNK : TRAILER;
        c->n_line = c->at == TRAILER ? 0 : c->n_line;
    } else if (byte != '\r') {
        char digit[2] = {byte, '\0'};
        c->chunk_left = c->chunk_left * 16 + strtoul(digit, NULL, 16);
    }
}

static void take(client *c, const char *data, size_t n, int64_t now)
{
    while (n > 0) {
        size_t used = 1;
        if (c->at == CHUNK_SIZE || c->at == CHUNK_END) {
            take_frame(c, *data);
        } else if (c->at == CHUNK) {
            used = take_line(c, data, n < c->chunk_left ? n : c->chunk_left, now);
            c->chunk_left -= used;
            if (c->chunk_left == 0)
                c->at = CHUNK_END;
        } else {
            used = take_line(c, data, n, now);
        }
        data += used;
        n -= used;
    }
}

static void on_readable(client *c, char *block)
{
    ssize_t n = recv(c->fd, block, BLOCK, MSG_DONTWAIT);
    int64_t now = now_ns();
    if (n > 0) {
        if (counts(now))
            load.bytes += n;
        take(c, block, (size_t)n, now);
    } else if (n == 0) { /* closed without an announcement; the answer ends here */
        c->closes = true;
        end_answer(c, now);
    } else if (errno != EAGAIN && errno != EINTR) {
        die("recv");
    }
}

/* --- the run --- */

static void make_request(const char *path, const char *body)
{
    static const char head[] = "POST %s HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s";
    int n = snprintf(NULL, 0, head, path, strlen(body), body);
    load.request = malloc((size_t)n + 1);
    if (load.request == NULL)
        die("memory");
    load.request_bytes =
        (size_t)snprintf(load.request, (size_t)n + 1, head, path, strlen(body), body);
}

static double cpu_seconds(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static int64_t longest_wait(const client *clients, int n, int64_t now)
{
    int64_t most = 0;
    for (int i = 0; i < n; i++) {
        int64_t since = clients[i].last_ns != 0 ? clients[i].last_ns : clients[i].sent_ns;
        most = now - since > most ? now - since : most;
    }
    return most;
}

/* Clients are opened one after the other over the ramp. Returns the processor time of the part that
   counts. */
static double run(client *clients, int n, int64_t start, int64_t ramp_ns, int64_t timeout_ns)
{
    static char block[BLOCK];
    struct epoll_event events[BATCH];
    double cpu = 0;
    bool counting = false;
    int n_open = 0;
    for (int64_t now = start; now < load.end_ns; now = now_ns()) {
        while (n_open < n && now - start >= ramp_ns * n_open / n)
            open_client(&clients[n_open++]);
        if (!counting && now >= load.begin_ns) {
            cpu = cpu_seconds();
            counting = true;
        }
        int k = epoll_wait(load.epoll_fd, events, BATCH, n_open < n ? 1 : 10);
        for (int i = 0; i < k; i++)
            on_readable(events[i].data.ptr, block);
        if (k == 0 && longest_wait(clients, n_open, now) > timeout_ns) {
            (void)fprintf(stderr, "http_load: a client has waited too long\n");
            exit(1);
        }
    }
    return cpu_seconds() - cpu;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_list(const char *name, list *l)
{
    qsort(l->ms, l->n, sizeof *l->ms, by_value);
    if (l->n == 0) {
        (void)printf(", \"%s\": null", name);
        return;
    }
    (void)printf(", \"%s\": {\"n\": %zu, \"p50\": %.4f, \"p99\": %.4f, \"max\": %.4f}", name, l->n,
                 l->ms[(l->n - 1) / 2], l->ms[(l->n - 1) * 99 / 100], l->ms[l->n - 1]);
}

static void grab(list *l)
{
    l->ms = malloc(MAX_GAPS * sizeof *l->ms);
    if (l->ms == NULL)
        die("memory");
}

int main(int argc, char **argv)
{
    int n = argc == 9 ? atoi(argv[4]) : 0;
    if (n < 1 || n > MAX_CLIENTS) {
        (void)fprintf(stderr, "http_load PORT PATH BODY CLIENTS RAMP WARM SECONDS TIMEOUT\n");
        return 2;
    }
    load.address = (struct sockaddr_in){.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)atoi(argv[1])),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    make_request(argv[2], argv[3]);
    grab(&load.first);
    grab(&load.gaps);
    grab(&load.per_token);
    client *clients = calloc((size_t)n, sizeof *clients);
    load.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (clients == NULL || load.epoll_fd < 0)
        die("start");
    double seconds = atof(argv[7]);
    int64_t start = now_ns(), ramp = (int64_t)(atof(argv[5]) * 1e9);
    load.begin_ns = start + ramp + (int64_t)(atof(argv[6]) * 1e9);
    load.end_ns = load.begin_ns + (int64_t)(seconds * 1e9);
    double cpu = run(clients, n, start, ramp, (int64_t)(atof(argv[8]) * 1e9));
    int64_t silent = 0;
    for (int i = 0; i < n; i++)
        silent += clients[i].last_ns == 0;
    (void)printf("{\"clients\": %d, \"seconds\": %g, \"tokens_per_second\": %.1f", n, seconds,
                 (double)load.tokens / seconds);
    (void)printf(", \"events_per_second\": %.1f, \"bytes_per_second\": %.0f, \"answers\": %lld",
                 (double)load.events / seconds, (double)load.bytes / seconds,
                 (long long)load.answers);
    (void)printf(", \"refused\": %lld, \"waiting\": %lld, \"client_cpu\": %.4f",
                 (long long)load.refused, (long long)silent, cpu / seconds);
    print_list("first_ms", &load.first);
    print_list("gap_ms", &load.gaps);
    print_list("token_ms", &load.per_token);
    (void)printf("}\n");
    return 0;
}
