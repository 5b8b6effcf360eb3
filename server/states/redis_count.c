/* Values in Redis that are counted for their owner (see redis_count.h). */
#include "server/states/redis_count.h"

#include <stdio.h>
#include <string.h>

enum { N_KEYS = 3, NUMBER_SIZE = 24 };

/* KEYS: the value, the ends, the sizes. ARGV[1]: the id. */
#define FUNCTIONS                                                                                  \
    "local clock = redis.call('TIME')\n"                                                           \
    "local now = clock[1] * 1000 + math.floor(clock[2] / 1000)\n"                                  \
    "local function drop(id)\n"                                                                    \
    "  redis.call('ZREM', KEYS[2], id)\n"                                                          \
    "  local size = redis.call('HGET', KEYS[3], id)\n"                                             \
    "  if size then\n"                                                                             \
    "    redis.call('HDEL', KEYS[3], id)\n"                                                        \
    "    redis.call('HINCRBY', KEYS[3], '', '-' .. size)\n"                                        \
    "  end\n"                                                                                      \
    "end\n"                                                                                        \
    "local function note(id, size, ttl)\n"                                                         \
    "  drop(id)\n"                                                                                 \
    "  redis.call('ZADD', KEYS[2], now + ttl, id)\n"                                               \
    "  redis.call('HSET', KEYS[3], id, size)\n"                                                    \
    "  redis.call('HINCRBY', KEYS[3], '', size)\n"                                                 \
    "  for i = 2, 3 do\n"                                                                          \
    "    if redis.call('PTTL', KEYS[i]) < tonumber(ttl) then\n"                                    \
    "      redis.call('PEXPIRE', KEYS[i], ttl)\n"                                                  \
    "    end\n"                                                                                    \
    "  end\n"                                                                                      \
    "end\n"

/* ARGV: id, bytes, ttl, most ids, most bytes. {whether it was kept, ids, bytes} */
static const char set_script[] = FUNCTIONS
    "for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do drop(id) end\n"
    "local function sum() return tonumber(redis.call('HGET', KEYS[3], '') or 0) end\n"
    "local n, bytes = redis.call('ZCARD', KEYS[2]), sum()\n"
    "local old = redis.call('HGET', KEYS[3], ARGV[1])\n"
    "local more, max_n, max_bytes = old and 0 or 1, tonumber(ARGV[4]), tonumber(ARGV[5])\n"
    "if max_n > 0 and n + more > max_n or\n"
    "   max_bytes > 0 and bytes - tonumber(old or 0) + #ARGV[2] > max_bytes then\n"
    "  return {0, n, bytes}\n"
    "end\n"
    "redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])\n"
    "note(ARGV[1], #ARGV[2], ARGV[3])\n"
    "return {1, n + more, sum()}\n";

/* ARGV: id, ttl or 0. {whether it is there, its time left, its bytes} */
static const char get_script[] =
    FUNCTIONS "local ttl = tonumber(ARGV[2])\n"
              "if ttl > 0 then redis.call('PEXPIRE', KEYS[1], ttl) end\n"
              "local value = redis.call('GET', KEYS[1])\n"
              "if not value then drop(ARGV[1]) return {0} end\n"
              "if ttl > 0 then note(ARGV[1], #value, ttl) end\n"
              "return {1, redis.call('PTTL', KEYS[1]), value}\n";

/* ARGV: id. {how many were removed} */
static const char remove_script[] =
    FUNCTIONS "drop(ARGV[1])\nreturn {redis.call('DEL', KEYS[1])}\n";

static lx_redis_word word(const char *text)
{
    return (lx_redis_word){text, strlen(text)};
}

static int first_words(const lx_redis_counted *c, lx_redis_word *words)
{
    words[0] = word(c->key);
    words[1] = word(c->ends);
    words[2] = word(c->sizes);
    words[3] = word(c->id);
    return N_KEYS + 1;
}

/* `text` lives as long as the words. */
static lx_redis_word number(int64_t x, char text[NUMBER_SIZE])
{
    (void)snprintf(text, NUMBER_SIZE, "%lld", (long long)x);
    return word(text);
}

lx_status lx_redis_set_counted(lx_redis *r, const lx_redis_counted *c, const void *bytes, size_t n,
                               int64_t ttl_ms, int64_t deadline_ns, lx_error *err)
{
    char texts[3][NUMBER_SIZE];
    lx_redis_word words[LX_REDIS_SCRIPT_WORDS];
    lx_redis_list list;
    int k = first_words(c, words);
    words[k++] = (lx_redis_word){bytes, n};
    words[k++] = number(ttl_ms, texts[0]);
    words[k++] = number(c->max_n, texts[1]);
    words[k++] = number(c->max_bytes, texts[2]);
    lx_status st = lx_redis_script(r, set_script, words, N_KEYS, k, 0, deadline_ns, &list, err);
    if (st == LX_OK && list.numbers[0] == 0)
        st = lx_fail(err, LX_ERR_BUSY, "state",
                     "this key keeps %lld states with %lld bytes and no more fit (limits: %lld, "
                     "%lld; 0: none)",
                     (long long)list.numbers[1], (long long)list.numbers[2], (long long)c->max_n,
                     (long long)c->max_bytes);
    return st;
}

lx_status lx_redis_get_counted(lx_redis *r, const lx_redis_counted *c, int64_t ttl_ms, size_t max,
                               int64_t deadline_ns, void **bytes, size_t *n, int64_t *left_ms,
                               lx_error *err)
{
    char text[NUMBER_SIZE];
    lx_redis_word words[LX_REDIS_SCRIPT_WORDS];
    lx_redis_list list;
    int k = first_words(c, words);
    words[k++] = number(ttl_ms, text);
    lx_status st = lx_redis_script(r, get_script, words, N_KEYS, k, max, deadline_ns, &list, err);
    if (st != LX_OK)
        return st;
    if (list.bytes == NULL)
        return lx_fail(err, LX_ERR_NOT_FOUND, NULL, "Redis has no such key");
    *bytes = list.bytes;
    *n = list.n;
    *left_ms = list.numbers[1];
    return LX_OK;
}

lx_status lx_redis_remove_counted(lx_redis *r, const lx_redis_counted *c, int64_t deadline_ns,
                                  lx_error *err)
{
    lx_redis_word words[LX_REDIS_SCRIPT_WORDS];
    lx_redis_list list;
    int k = first_words(c, words);
    lx_status st = lx_redis_script(r, remove_script, words, N_KEYS, k, 0, deadline_ns, &list, err);
    if (st == LX_OK && list.numbers[0] == 0)
        st = lx_fail(err, LX_ERR_NOT_FOUND, NULL, "Redis has no such key");
    return st;
}
