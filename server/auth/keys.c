/* API keys and their limits (see keys.h). */
#include "server/auth/keys.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/lock.h"
#include "server/auth/digest.h"
#include "server/auth/secret.h"

enum { MAX_FILE = 4 << 20, S_PER_MINUTE = 60, BUSY_RETRY_S = 1, DIGEST_SHOWN = 8 };

_Static_assert((int)LX_OWNER_NAME >= (int)LX_MAX_KEY_NAME, "an owner is named after its key");

/* The requests or tokens that a key may use now. It fills evenly, up to those of a minute. */
typedef struct bucket {
    double left;
    int64_t filled_ns;
} bucket;

struct lx_key {
    lx_keys *keys;
    uint8_t digest[LX_SHA256_BYTES];
    char name[LX_MAX_KEY_NAME + 1];
    lx_owner owner;
    bool admin;
    bool fixed; /* of --api-key, not of a file */
    int64_t weight;
    lx_key *before; /* the list of all keys, also of replaced ones */
    /* under keys->lock */
    int32_t running;
    int64_t samples;
    bucket requests, tokens;
};

/* The keys that are in use. Requests read it without a lock, so a reload makes another table and
   keeps this one, as it keeps replaced keys: requests that they let in may still run. */
typedef struct key_table {
    struct key_table *before;
    int32_t n;
    lx_key *list[LX_MAX_KEYS];
} key_table;

struct lx_keys {
    lx_key_limits limits;
    pthread_mutex_t lock;
    lx_key anyone, public;
    key_table *_Atomic table;
    lx_key *last;                        /* of the list of all keys */
    int64_t shared_states, shared_bytes; /* of lx_keys_share; 0: not yet */
};

static void key_init(lx_key *key, lx_keys *keys, const char *name, const char *owner)
{
    key->keys = keys;
    key->weight = 1;
    key->requests.left = keys->limits.per_minute;
    key->tokens.left = (double)keys->limits.tokens;
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
    key_init(&k->anyone, k, "", "");
    key_init(&k->public, k, "", "#public"); /* no line's name begins so */
    k->anyone.admin = true;
    key_table *t = calloc(1, sizeof *t);
    atomic_store(&k->table, t);
    if (t == NULL) {
        lx_keys_free(k);
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the API keys");
    }
    *out = k;
    return LX_OK;
}

/* Frees the keys that were added after `last`: all of them, or only unused ones (keys NULL). */
static void free_keys(lx_keys *k, const lx_key *last, bool all)
{
    lx_key **at = &k->last;
    while (*at != last) {
        lx_key *key = *at;
        if (all || key->keys == NULL) {
            *at = key->before;
            free(key);
        } else {
            at = &key->before;
        }
    }
}

void lx_keys_free(lx_keys *k)
{
    if (k == NULL)
        return;
    free_keys(k, NULL, true);
    for (key_table *t = atomic_load(&k->table), *before; t != NULL; t = before) {
        before = t->before;
        free(t);
    }
    (void)pthread_mutex_destroy(&k->lock);
    free(k);
}

int32_t lx_keys_count(const lx_keys *k)
{
    return atomic_load(&k->table)->n;
}

/* --- adding --- */

static bool is_printable(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

static lx_key *find_digest(const key_table *t, const uint8_t *digest)
{
    lx_key *found = NULL;
    for (int32_t i = 0; i < t->n; i++) /* to the end, whatever is found */
        if (lx_equal_in_constant_time(t->list[i]->digest, digest, LX_SHA256_BYTES))
            found = t->list[i];
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

/* name NULL: the key gets a name by its place in the list, and its owner a name by its digest. */
static lx_status add_key(lx_keys *k, key_table *t, const char *name, const char *key, lx_key **out,
                         lx_error *err)
{
    char number[16], owner[LX_OWNER_NAME + 1];
    uint8_t digest[LX_SHA256_BYTES];
    lx_status st = check_key(name != NULL ? name : "", key, err);
    if (st == LX_OK && t->n == LX_MAX_KEYS)
        st = lx_fail(err, LX_ERR_TOO_LARGE, "api-key-file", "more than %d API keys", LX_MAX_KEYS);
    if (st == LX_OK)
        st = lx_sha256(key, strlen(key), digest, err);
    if (st == LX_OK && find_digest(t, digest) != NULL)
        st = lx_fail(err, LX_ERR_INVALID, "api-key", "an API key is given twice");
    if (st != LX_OK)
        return st;
    lx_key *new_key = calloc(1, sizeof *new_key);
    if (new_key == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an API key");
    (void)snprintf(number, sizeof number, "key-%d", t->n + 1);
    name_owner(name, digest, owner);
    key_init(new_key, k, name != NULL ? name : number, owner);
    memcpy(new_key->digest, digest, sizeof digest);
    new_key->before = k->last;
    k->last = t->list[t->n++] = *out = new_key;
    return LX_OK;
}

lx_status lx_keys_add(lx_keys *k, const char *name, const char *key, lx_error *err)
{
    lx_key *added = NULL;
    lx_status st = add_key(k, atomic_load(&k->table), name, key, &added, err);
    if (st == LX_OK)
        added->admin = added->fixed = true;
    return st;
}

static const struct key_option {
    const char *name;
    int64_t max;   /* of its number; 0: it has no value */
    size_t offset; /* in lx_key: an int64_t, or a bool without a value */
} key_options[] = {
    {"admin", 0, offsetof(lx_key, admin)},
    {"weight", LX_MAX_WEIGHT, offsetof(lx_key, weight)},
    {"max-states", 1 << 24, offsetof(lx_key, owner.max_states)},
    {"max-state-bytes", INT64_C(1000000000000000), offsetof(lx_key, owner.max_bytes)},
};

/* value: the text after the name's '=', NULL without one. */
static lx_status set_option(lx_key *key, const struct key_option *o, const char *value,
                            lx_error *err)
{
    char *end = NULL, *field = (char *)key + o->offset;
    if (o->max == 0) {
        *(bool *)field = true;
        return value == NULL ? LX_OK
                             : lx_fail(err, LX_ERR_INVALID, "api-key-file",
                                       "the option %s has no value", o->name);
    }
    int64_t n = value != NULL && *value >= '0' && *value <= '9' ? strtoll(value, &end, 10) : 0;
    if (end == NULL || *end != '\0' || n < 1 || n > o->max)
        return lx_fail(err, LX_ERR_INVALID, "api-key-file",
                       "the option %s needs a whole number from 1 to %lld", o->name,
                       (long long)o->max);
    *(int64_t *)(void *)field = n;
    return LX_OK;
}

/* "NAME" or "NAME=VALUE". seen: a bit per option that the line has had. */
static lx_status read_option(lx_key *key, int32_t key_number, char *text, unsigned *seen,
                             lx_error *err)
{
    char *equals = strchr(text, '=');
    if (equals != NULL)
        *equals = '\0';
    for (size_t i = 0; i < sizeof key_options / sizeof *key_options; i++) {
        if (strcmp(text, key_options[i].name) != 0)
            continue;
        if ((*seen & 1u << i) != 0)
            return lx_fail(err, LX_ERR_INVALID, "api-key-file",
                           "the option %s comes twice in a line", key_options[i].name);
        *seen |= 1u << i;
        return set_option(key, &key_options[i], equals != NULL ? equals + 1 : NULL, err);
    }
    return lx_fail(err, LX_ERR_INVALID, "api-key-file", "an option of key %d is unknown",
                   key_number); /* not repeated: it may be a key */
}

/* "KEY" or "NAME KEY OPTION..." */
static lx_status add_line(lx_keys *k, key_table *t, char *line, lx_error *err)
{
    static const char blank[] = " \t\r";
    char *rest = NULL;
    const char *first = strtok_r(line, blank, &rest);
    if (first == NULL || *first == '#')
        return LX_OK;
    const char *second = strtok_r(NULL, blank, &rest);
    lx_key *key = NULL;
    unsigned seen = 0;
    lx_status st =
        add_key(k, t, second != NULL ? first : NULL, second != NULL ? second : first, &key, err);
    for (char *option = strtok_r(NULL, blank, &rest); st == LX_OK && option != NULL;
         option = strtok_r(NULL, blank, &rest))
        st = read_option(key, t->n, option, &seen, err);
    return st;
}

static lx_status add_file(lx_keys *k, key_table *t, const char *path, lx_error *err)
{
    char *text = NULL, *rest = NULL;
    lx_status st = lx_secret_read_file(path, MAX_FILE, "api-key-file", &text, err);
    if (st != LX_OK)
        return st;
    size_t n = strlen(text);
    int32_t before = t->n;
    lx_error why = {0};
    for (char *line = strtok_r(text, "\n", &rest); line != NULL && st == LX_OK;
         line = strtok_r(NULL, "\n", &rest))
        st = add_line(k, t, line, &why);
    explicit_bzero(text, n);
    free(text);
    if (st != LX_OK)
        return lx_fail(err, st, "api-key-file", "--api-key-file %s: %s", path, why.text);
    if (t->n == before)
        return lx_fail(err, LX_ERR_INVALID, "api-key-file", "--api-key-file %s has no key", path);
    return LX_OK;
}

lx_status lx_keys_add_file(lx_keys *k, const char *path, lx_error *err)
{
    return add_file(k, atomic_load(&k->table), path, err);
}

/* --- finding --- */

lx_key *lx_keys_find_plain(lx_keys *k, const char *key)
{
    uint8_t digest[LX_SHA256_BYTES];
    const key_table *t = atomic_load(&k->table);
    if (t->n == 0)
        return &k->anyone;
    return lx_sha256(key, strlen(key), digest, NULL) == LX_OK ? find_digest(t, digest) : NULL;
}

lx_key *lx_keys_find(lx_keys *k, const char *authorization)
{
    static const char scheme[] = "Bearer ";
    bool has_key = strncasecmp(authorization, scheme, sizeof scheme - 1) == 0;
    const char *key = has_key ? authorization + sizeof scheme - 1 : "";
    return has_key || lx_keys_count(k) == 0 ? lx_keys_find_plain(k, key + strspn(key, " ")) : NULL;
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
    const key_table *t = atomic_load(&k->table);
    for (int32_t i = 0; i < t->n; i++)
        if (t->list[i]->admin)
            return true;
    return t->n == 0;
}

static void share(lx_owner *o, int64_t max_states, int64_t max_bytes)
{
    if (o->max_states == 0)
        o->max_states = (max_states + 1) / 2;
    if (o->max_bytes == 0)
        o->max_bytes = (max_bytes + 1) / 2;
}

static void share_table(const lx_keys *k, const key_table *t)
{
    for (int32_t i = 0; i < t->n && t->n > 1 && k->shared_states > 0; i++)
        share(&t->list[i]->owner, k->shared_states, k->shared_bytes);
}

void lx_keys_share(lx_keys *k, int64_t max_states, int64_t max_state_bytes)
{
    const key_table *t = atomic_load(&k->table);
    k->shared_states = max_states;
    k->shared_bytes = max_state_bytes;
    share_table(k, t);
    if (t->n > 0)
        share(&k->public.owner, max_states, max_state_bytes);
}

/* --- reading the file again --- */

static bool is_equal(const lx_key *a, const lx_key *b)
{
    return memcmp(a->digest, b->digest, sizeof a->digest) == 0 && strcmp(a->name, b->name) == 0 &&
           strcmp(a->owner.name, b->owner.name) == 0 && a->admin == b->admin &&
           a->weight == b->weight && a->owner.max_states == b->owner.max_states &&
           a->owner.max_bytes == b->owner.max_bytes;
}

/* Puts the old objects in the places of new keys that are like them, so that these keep their
   counts of requests and tokens. */
static void keep_unchanged(const key_table *old, key_table *t, lx_key_changes *changes)
{
    for (int32_t i = 0; i < t->n; i++) {
        lx_key *known = find_digest(old, t->list[i]->digest);
        bool unchanged = known != NULL && is_equal(known, t->list[i]);
        changes->n_added += known == NULL;
        changes->n_changed += known != NULL && !unchanged;
        if (unchanged) {
            t->list[i]->keys = NULL; /* for free_keys */
            t->list[i] = known;
        }
    }
    changes->n = t->n;
    changes->n_removed = old->n - (t->n - changes->n_added);
}

/* The keys of --api-key, which no file has; as new objects, since their limits may change. */
static lx_status add_fixed(lx_keys *k, const key_table *old, key_table *t, lx_error *err)
{
    for (int32_t i = 0; i < old->n; i++) {
        if (!old->list[i]->fixed)
            continue;
        lx_key *key = calloc(1, sizeof *key);
        if (key == NULL)
            return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for an API key");
        key_init(key, k, old->list[i]->name, old->list[i]->owner.name);
        memcpy(key->digest, old->list[i]->digest, sizeof key->digest);
        key->admin = key->fixed = true;
        key->before = k->last;
        k->last = t->list[t->n++] = key;
    }
    return LX_OK;
}

lx_status lx_keys_reload(lx_keys *k, const char *path, lx_key_changes *changes, lx_error *err)
{
    key_table *old = atomic_load(&k->table), *t = calloc(1, sizeof *t);
    lx_key *last = k->last;
    *changes = (lx_key_changes){.n = old->n};
    if (t == NULL)
        return lx_fail(err, LX_ERR_NO_MEMORY, NULL, "no memory for the API keys");
    lx_status st = add_fixed(k, old, t, err);
    if (st == LX_OK)
        st = add_file(k, t, path, err);
    if (st == LX_OK) {
        share_table(k, t);
        keep_unchanged(old, t, changes);
    }
    if (st != LX_OK || changes->n_added + changes->n_changed + changes->n_removed == 0) {
        free_keys(k, last, true);
        free(t);
        return st;
    }
    free_keys(k, last, false);
    t->before = old;
    atomic_store(&k->table, t);
    return LX_OK;
}

/* --- limits --- */

/* Under the lock: adds the share of the time since the last call. */
static void fill(bucket *b, double most, int64_t now_ns)
{
    double gone_s = (double)(now_ns - b->filled_ns) / (double)LX_NS_PER_S;
    if (b->filled_ns != 0 && gone_s > 0)
        b->left += gone_s * most / S_PER_MINUTE;
    if (b->left > most)
        b->left = most;
    b->filled_ns = now_ns;
}

/* Seconds until the bucket has as much as wanted. */
static int32_t wait_s(const bucket *b, double most, double wanted)
{
    return (int32_t)fmax(1, ceil((wanted - b->left) * S_PER_MINUTE / most));
}

lx_status lx_key_enter(lx_key *key, int64_t now_ns, int32_t *retry_after_s, lx_error *err)
{
    const lx_key_limits *limits = &key->keys->limits;
    LX_HOLD(&key->keys->lock);
    fill(&key->requests, limits->per_minute, now_ns);
    if (limits->concurrent > 0 && key->running >= limits->concurrent) {
        *retry_after_s = BUSY_RETRY_S;
        return lx_fail(err, LX_ERR_BUSY, NULL, "%d requests of this key are being answered already",
                       key->running);
    }
    if (limits->per_minute > 0 && key->requests.left < 1) {
        *retry_after_s = wait_s(&key->requests, limits->per_minute, 1);
        return lx_fail(err, LX_ERR_BUSY, NULL, "this key may make %d requests per minute",
                       limits->per_minute);
    }
    key->requests.left -= limits->per_minute > 0;
    key->running++;
    return LX_OK;
}

void lx_key_leave(lx_key *key)
{
    LX_HOLD(&key->keys->lock);
    key->running--;
}

/* --- samples and tokens of its requests --- */

lx_client lx_key_client(lx_key *key)
{
    return (lx_client){.key = key, .weight = (int32_t)key->weight};
}

lx_key *lx_key_of(const lx_client *client)
{
    return (lx_key *)(uintptr_t)client->key; /* made by the function above */
}

bool lx_key_counts_tokens(const lx_key *key)
{
    return key->keys->limits.tokens > 0;
}

static lx_status check_possible(const lx_key_limits *limits, const lx_key_load *load, lx_error *err)
{
    if (limits->samples > 0 && load->n_samples > limits->samples)
        return lx_fail(err, LX_ERR_INVALID, load->samples_field,
                       "the request is for %lld samples, but a key may have %d samples at once",
                       (long long)load->n_samples, limits->samples);
    if (limits->tokens > 0 && load->n_tokens > limits->tokens)
        return lx_fail(err, LX_ERR_INVALID, load->tokens_field,
                       "the request is for %lld new tokens, but a key may have %lld per minute",
                       (long long)load->n_tokens, (long long)limits->tokens);
    return LX_OK;
}

lx_status lx_key_take(lx_key *key, const lx_key_load *load, int64_t now_ns, int32_t *retry_after_s,
                      lx_error *err)
{
    const lx_key_limits *limits = &key->keys->limits;
    double most = (double)limits->tokens, wanted = (double)load->n_tokens;
    LX_HOLD(&key->keys->lock);
    lx_status st = check_possible(limits, load, err);
    if (st != LX_OK)
        return st;
    fill(&key->tokens, most, now_ns);
    if (limits->samples > 0 && key->samples + load->n_samples > limits->samples) {
        *retry_after_s = BUSY_RETRY_S;
        return lx_fail(err, LX_ERR_LIMIT, NULL,
                       "this key may have %d samples at once, and %lld are being made",
                       limits->samples, (long long)key->samples);
    }
    if (limits->tokens > 0 && key->tokens.left < wanted) {
        *retry_after_s = wait_s(&key->tokens, most, wanted);
        return lx_fail(err, LX_ERR_LIMIT, NULL, "this key may generate %lld new tokens per minute",
                       (long long)limits->tokens);
    }
    key->tokens.left -= limits->tokens > 0 ? wanted : 0;
    key->samples += load->n_samples;
    return LX_OK;
}

bool lx_key_has_room(lx_key *key, const lx_key_load *load, bool idle, int64_t now_ns)
{
    const lx_key_limits *limits = &key->keys->limits;
    LX_HOLD(&key->keys->lock);
    fill(&key->tokens, (double)limits->tokens, now_ns);
    double left = idle ? (double)limits->tokens : key->tokens.left;
    return (limits->samples == 0 ||
            load->n_samples + (idle ? 0 : key->samples) <= limits->samples) &&
           (limits->tokens == 0 || left >= (double)load->n_tokens);
}

void lx_key_give_back(lx_key *key, const lx_key_load *load, bool refund)
{
    LX_HOLD(&key->keys->lock);
    key->samples -= load->n_samples;
    if (refund && key->keys->limits.tokens > 0)
        key->tokens.left += (double)load->n_tokens;
}
