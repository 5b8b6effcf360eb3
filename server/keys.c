/* API keys and their limits (see keys.h). */
#include "server/keys.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/clock.h"
#include "server/digest.h"
#include "server/secret.h"

enum { MAX_FILE = 4 << 20, S_PER_MINUTE = 60, BUSY_RETRY_S = 1, DIGEST_SHOWN = 8 };

static const int64_t MAX_STATES = 1 << 24, MAX_STATE_BYTES = INT64_C(1000000000000000);

_Static_assert((int)LX_OWNER_NAME >= (int)LX_MAX_KEY_NAME, "an owner is named after its key");

struct lx_key {
    lx_keys *keys;
    uint8_t digest[LX_SHA256_BYTES];
    char name[LX_MAX_KEY_NAME + 1];
    lx_owner owner;
    bool admin;
    /* under keys->lock */
    int32_t running;
    double tokens; /* requests it may still make now */
    int64_t filled_ns;
};

struct lx_keys {
    lx_key_limits limits;
    pthread_mutex_t lock;
    lx_key everybody, public;
    lx_key *list[LX_MAX_KEYS];
    int32_t n;
};

static void key_init(lx_key *key, lx_keys *keys, const char *name, const char *owner)
{
    key->keys = keys;
    key->tokens = keys->limits.per_minute;
    (void)snprintf(key->name, sizeof key->name, "%s", name);
    (void)snprintf(key->owner.name, sizeof key->owner.name, "%s", owner);
    key->owner.max_states = keys->limits.max_states;
    key->owner.max_bytes = keys->limits.max_state_bytes;
}

lx_status lx_keys_new(const lx_key_limits *limits, lx_keys **out, lx_error *err)
{
    lx_keys *k = calloc(1, sizeof *k);
    if (k == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the API keys");
    k->limits = *limits;
    (void)pthread_mutex_init(&k->lock, NULL);
    key_init(&k->everybody, k, "", "");
    key_init(&k->public, k, "", "#public"); /* no line's name begins so */
    k->everybody.admin = true;
    *out = k;
    return LX_OK;
}

void lx_keys_free(lx_keys *k)
{
    if (k == NULL)
        return;
    for (int32_t i = 0; i < k->n; i++)
        free(k->list[i]);
    (void)pthread_mutex_destroy(&k->lock);
    free(k);
}

int32_t lx_keys_count(const lx_keys *k)
{
    return k->n;
}

/* --- adding
 * -------------------------------------------------------------------------------------- */

static bool is_printable(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

static lx_key *find_digest(lx_keys *k, const uint8_t *digest)
{
    lx_key *found = NULL;
    for (int32_t i = 0; i < k->n; i++) /* to the end, whatever is found */
        if (lx_equal_in_constant_time(k->list[i]->digest, digest, LX_SHA256_BYTES))
            found = k->list[i];
    return found;
}

static lx_status check_key(const char *name, const char *key, lx_error *err)
{
    size_t n = strlen(key);
    if (n == 0 || n > LX_MAX_KEY_BYTES || !is_printable(key))
        return lx_fail(err, LX_ERR_INVALID, "api-key",
                       "an API key has 1 to %d printable ASCII characters without spaces",
                       LX_MAX_KEY_BYTES);
    if (strlen(name) > LX_MAX_KEY_NAME || !is_printable(name))
        return lx_fail(err, LX_ERR_INVALID, "api-key-file",
                       "the name of an API key has at most %d printable ASCII characters",
                       LX_MAX_KEY_NAME);
    return LX_OK;
}

static void name_owner(const char *name, const uint8_t *digest, char owner[LX_OWNER_NAME + 1])
{
    owner[0] = '\0';
    if (name != NULL && strcmp(name, LX_DEFAULT_KEY_NAME) != 0)
        (void)snprintf(owner, LX_OWNER_NAME + 1, "%s", name);
    for (int i = 0; name == NULL && i < DIGEST_SHOWN; i++)
        (void)snprintf(owner + 1 + (size_t)2 * (size_t)i, 3, "%02x", digest[i]);
    if (name == NULL)
        owner[0] = '#'; /* as no line's name begins */
}

/* name NULL: it is called after its place in the list, and owns by its digest. */
static lx_status add_key(lx_keys *k, const char *name, const char *key, lx_key **out, lx_error *err)
{
    char number[16], owner[LX_OWNER_NAME + 1];
    uint8_t digest[LX_SHA256_BYTES];
    lx_status st = check_key(name != NULL ? name : "", key, err);
    if (st == LX_OK && k->n == LX_MAX_KEYS)
        st = lx_fail(err, LX_ERR_TOO_LARGE, "api-key-file", "more than %d API keys", LX_MAX_KEYS);
    if (st == LX_OK)
        st = lx_sha256(key, strlen(key), digest, err);
    if (st == LX_OK && find_digest(k, digest) != NULL)
        st = lx_fail(err, LX_ERR_INVALID, "api-key", "an API key is given twice");
    if (st != LX_OK)
        return st;
    lx_key *new_key = calloc(1, sizeof *new_key);
    if (new_key == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an API key");
    (void)snprintf(number, sizeof number, "key-%d", k->n + 1);
    name_owner(name, digest, owner);
    key_init(new_key, k, name != NULL ? name : number, owner);
    memcpy(new_key->digest, digest, sizeof digest);
    k->list[k->n++] = *out = new_key;
    return LX_OK;
}

lx_status lx_keys_add(lx_keys *k, const char *name, const char *key, lx_error *err)
{
    lx_key *added = NULL;
    lx_status st = add_key(k, name, key, &added, err);
    if (st == LX_OK)
        added->admin = true;
    return st;
}

static lx_status read_admin(lx_key *key, const char *value, lx_error *err)
{
    if (value != NULL)
        return lx_fail(err, LX_ERR_INVALID, "api-key-file", "the option admin has no value");
    key->admin = true;
    return LX_OK;
}

static lx_status read_count(const char *name, const char *value, int64_t max, int64_t *out,
                            lx_error *err)
{
    char *end = NULL;
    long long n = value != NULL && *value >= '0' && *value <= '9' ? strtoll(value, &end, 10) : 0;
    if (end == NULL || *end != '\0' || n < 1 || n > max)
        return lx_fail(err, LX_ERR_INVALID, "api-key-file",
                       "the option %s wants a whole number from 1 to %lld", name, (long long)max);
    *out = n;
    return LX_OK;
}

static lx_status read_max_states(lx_key *key, const char *value, lx_error *err)
{
    return read_count("max-states", value, MAX_STATES, &key->owner.max_states, err);
}

static lx_status read_max_state_bytes(lx_key *key, const char *value, lx_error *err)
{
    return read_count("max-state-bytes", value, MAX_STATE_BYTES, &key->owner.max_bytes, err);
}

static const struct key_option {
    const char *name;
    /* value: what follows the name's '=', NULL without one */
    lx_status (*read)(lx_key *key, const char *value, lx_error *err);
} key_options[] = {
    {"admin", read_admin},
    {"max-states", read_max_states},
    {"max-state-bytes", read_max_state_bytes},
};

/* "NAME" or "NAME=VALUE". */
static lx_status read_option(lx_key *key, char *text, lx_error *err)
{
    char *equals = strchr(text, '=');
    if (equals != NULL)
        *equals = '\0';
    for (size_t i = 0; i < sizeof key_options / sizeof *key_options; i++)
        if (strcmp(text, key_options[i].name) == 0)
            return key_options[i].read(key, equals != NULL ? equals + 1 : NULL, err);
    return lx_fail(err, LX_ERR_INVALID, "api-key-file",
                   "what follows a name and a key is no option of a key (number %d)",
                   key->keys->n); /* not repeated: it may be a key */
}

/* "KEY" or "NAME KEY OPTION..." */
static lx_status add_line(lx_keys *k, char *line, lx_error *err)
{
    static const char blank[] = " \t\r";
    char *rest = NULL;
    const char *first = strtok_r(line, blank, &rest);
    if (first == NULL || *first == '#')
        return LX_OK;
    const char *second = strtok_r(NULL, blank, &rest);
    lx_key *key = NULL;
    lx_status st =
        add_key(k, second != NULL ? first : NULL, second != NULL ? second : first, &key, err);
    for (char *option = strtok_r(NULL, blank, &rest); st == LX_OK && option != NULL;
         option = strtok_r(NULL, blank, &rest))
        st = read_option(key, option, err);
    return st;
}

lx_status lx_keys_add_file(lx_keys *k, const char *path, lx_error *err)
{
    char *text = NULL, *rest = NULL;
    lx_status st = lx_secret_read_file(path, MAX_FILE, "api-key-file", &text, err);
    if (st != LX_OK)
        return st;
    size_t n = strlen(text);
    int32_t before = k->n;
    lx_error why = {0};
    for (char *line = strtok_r(text, "\n", &rest); line != NULL && st == LX_OK;
         line = strtok_r(NULL, "\n", &rest))
        st = add_line(k, line, &why);
    lx_secret_wipe(text, n);
    free(text);
    if (st != LX_OK)
        return lx_fail(err, st, "api-key-file", "--api-key-file %s: %s", path, why.text);
    if (k->n == before)
        return lx_fail(err, LX_ERR_INVALID, "api-key-file", "--api-key-file %s holds no key", path);
    return LX_OK;
}

/* --- finding
 * ------------------------------------------------------------------------------------- */

lx_key *lx_keys_find(lx_keys *k, const char *authorization)
{
    static const char scheme[] = "Bearer ";
    uint8_t digest[LX_SHA256_BYTES];
    if (k->n == 0)
        return &k->everybody;
    if (strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
        return NULL;
    const char *key = authorization + sizeof scheme - 1;
    key += strspn(key, " ");
    if (lx_sha256(key, strlen(key), digest, NULL) != LX_OK)
        return NULL;
    return find_digest(k, digest);
}

const char *lx_key_name(const lx_key *key)
{
    return key->name;
}

lx_key *lx_keys_public(lx_keys *k)
{
    return &k->public;
}

const lx_owner *lx_key_owner(const lx_key *key)
{
    return &key->owner;
}

bool lx_key_is_admin(const lx_key *key)
{
    return key->admin;
}

bool lx_keys_have_admin(const lx_keys *k)
{
    for (int32_t i = 0; i < k->n; i++)
        if (k->list[i]->admin)
            return true;
    return k->n == 0;
}

static void share(lx_owner *o, int64_t max_states, int64_t max_bytes)
{
    if (o->max_states == 0)
        o->max_states = (max_states + 1) / 2;
    if (o->max_bytes == 0)
        o->max_bytes = (max_bytes + 1) / 2;
}

void lx_keys_share(lx_keys *k, int64_t max_states, int64_t max_state_bytes)
{
    for (int32_t i = 0; i < k->n && k->n > 1; i++)
        share(&k->list[i]->owner, max_states, max_state_bytes);
    if (k->n > 0)
        share(&k->public.owner, max_states, max_state_bytes);
}

/* --- limits
 * -------------------------------------------------------------------------------------- */

/* Under the lock: puts in what has come since the last time. */
static void fill(lx_key *key, int64_t now_ns)
{
    double most = key->keys->limits.per_minute;
    double gone_s = (double)(now_ns - key->filled_ns) / (double)LX_NS_PER_S;
    if (key->filled_ns != 0 && gone_s > 0)
        key->tokens += gone_s * most / S_PER_MINUTE;
    if (key->tokens > most)
        key->tokens = most;
    key->filled_ns = now_ns;
}

static lx_status enter_locked(lx_key *key, int64_t now_ns, int32_t *retry_after_s, lx_error *err)
{
    const lx_key_limits *limits = &key->keys->limits;
    fill(key, now_ns);
    if (limits->concurrent > 0 && key->running >= limits->concurrent) {
        *retry_after_s = BUSY_RETRY_S;
        return lx_fail(err, LX_ERR_BUSY, NULL, "%d requests of this key are being answered already",
                       key->running);
    }
    if (limits->per_minute > 0 && key->tokens < 1) {
        double wait_s = (1 - key->tokens) * S_PER_MINUTE / limits->per_minute;
        *retry_after_s = (int32_t)fmax(1, ceil(wait_s));
        return lx_fail(err, LX_ERR_BUSY, NULL, "this key may make %d requests a minute",
                       limits->per_minute);
    }
    key->tokens -= limits->per_minute > 0;
    key->running++;
    return LX_OK;
}

lx_status lx_key_enter(lx_key *key, int64_t now_ns, int32_t *retry_after_s, lx_error *err)
{
    (void)pthread_mutex_lock(&key->keys->lock);
    lx_status st = enter_locked(key, now_ns, retry_after_s, err);
    (void)pthread_mutex_unlock(&key->keys->lock);
    return st;
}

void lx_key_leave(lx_key *key)
{
    (void)pthread_mutex_lock(&key->keys->lock);
    key->running--;
    (void)pthread_mutex_unlock(&key->keys->lock);
}
