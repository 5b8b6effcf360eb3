/* The first pages of an Ogg file, through libogg and libvorbis, and the order of all (see ogg.h).
 */
#include "model/formats/ogg.h"

#include <ogg/ogg.h>
#include <stdbool.h>
#include <string.h>
#include <vorbis/codec.h>

#define FAR ((uint64_t)1 << 31) /* samples */
#define NONE UINT64_MAX         /* the position of a page in which no packet ends */

/* PACKETS, OPUS_HEAD: the packets before the first of Vorbis's and of Opus's sound. HEADER: bytes
   before a page's segments; the last is their number. MOST_SUMS: how often a byte is summed up on
   average, where pages seem to begin within each other. */
enum {
    PACKETS = 3,
    OPUS_HEAD = 2,
    MOST_BYTES = 1 << 20,
    MOST_PAGE = 65307,
    HEADER = 27,
    MOST_SUMS = 16
};

typedef struct reader {
    ogg_sync_state sync;
    ogg_stream_state stream;
    vorbis_info info;
    vorbis_comment comment;
} reader;

static bool next_page(reader *r, ogg_page *page)
{
    return ogg_sync_pageout(&r->sync, page) == 1;
}

/* Pages follow each other and are of one stream. */
static bool next_packet(reader *r, ogg_packet *packet)
{
    ogg_page page;
    int found;
    while ((found = ogg_stream_packetout(&r->stream, packet)) == 0)
        if (!next_page(r, &page) || ogg_page_bos(&page) != 0 ||
            ogg_stream_pagein(&r->stream, &page) != 0)
            return false;
    return found == 1;
}

static bool has_vorbis_packets(reader *r)
{
    ogg_packet packet;
    bool ok = true;
    vorbis_info_init(&r->info);
    vorbis_comment_init(&r->comment);
    for (int i = 0; ok && i < PACKETS; i++)
        ok = next_packet(r, &packet) &&
             vorbis_synthesis_headerin(&r->info, &r->comment, &packet) == 0;
    vorbis_comment_clear(&r->comment);
    vorbis_info_clear(&r->info);
    return ok;
}

static bool begins_with(const ogg_page *page, const char *letters)
{
    size_t n = strlen(letters);
    return page->body_len >= (long)n && memcmp(page->body, letters, n) == 0;
}

static lx_ogg_head head_of_stream(reader *r, ogg_page *first)
{
    if (begins_with(first, "OpusHead"))
        return LX_OGG_READ;
    if (!begins_with(first, "\1vorbis"))
        return LX_OGG_OTHER;
    if (ogg_stream_init(&r->stream, ogg_page_serialno(first)) != 0)
        return LX_OGG_DAMAGED;
    bool ok = ogg_stream_pagein(&r->stream, first) == 0 && has_vorbis_packets(r);
    (void)ogg_stream_clear(&r->stream);
    return ok ? LX_OGG_READ : LX_OGG_DAMAGED;
}

static bool fill(reader *r, const uint8_t *data, size_t bytes)
{
    size_t n = bytes < MOST_BYTES ? bytes : MOST_BYTES;
    char *to = ogg_sync_buffer(&r->sync, (long)n);
    if (to == NULL)
        return false;
    memcpy(to, data, n);
    return ogg_sync_wrote(&r->sync, (long)n) == 0;
}

lx_ogg_head lx_ogg_head_of(const uint8_t *data, size_t bytes)
{
    reader r;
    ogg_page first;
    lx_ogg_head head = LX_OGG_DAMAGED;
    (void)ogg_sync_init(&r.sync);
    if (fill(&r, data, bytes) && next_page(&r, &first) && ogg_page_bos(&first) != 0)
        head = head_of_stream(&r, &first);
    (void)ogg_sync_clear(&r.sync);
    return head;
}

/* Bytes of the page that begins here; 0 where it would end after the file's end. */
static size_t bytes_of_page(const uint8_t *page, size_t left)
{
    if (left < HEADER || left < (size_t)HEADER + page[HEADER - 1])
        return 0;
    size_t head = (size_t)HEADER + page[HEADER - 1], n = head;
    for (size_t i = HEADER; i < head; i++)
        n += page[i];
    return n <= left ? n : 0;
}

/* Sound may spell the beginning of a page by chance, but not its checksum. */
static bool is_page(reader *r, const uint8_t *data, size_t bytes, ogg_page *page)
{
    (void)ogg_sync_reset(&r->sync);
    return bytes > 0 && fill(r, data, bytes) && ogg_sync_pageseek(&r->sync, page) > 0;
}

static bool goes_back(reader *r, const uint8_t *data, size_t bytes)
{
    const uint8_t *end = data + bytes, *at = data;
    size_t to_sum = MOST_SUMS * bytes;
    uint64_t farthest = 0;
    for (; (at = memmem(at, (size_t)(end - at), "OggS", 4)) != NULL; at++) {
        ogg_page page;
        size_t n = bytes_of_page(at, (size_t)(end - at));
        if (n > to_sum)
            return true;
        to_sum -= n;
        uint64_t position = is_page(r, at, n, &page) ? (uint64_t)ogg_page_granulepos(&page) : NONE;
        if (position == NONE)
            continue;
        if (position < farthest && farthest - position >= FAR)
            return true;
        farthest = position > farthest ? position : farthest;
    }
    return false;
}

/* Bytes of the first stream: whole pages without a gap, of one serial number, of which only the
   first begins a stream and only the last may end one. 0: the pages are not so. After the two
   packets of Opus's head, a packet ends in every page: libsndfile reads freed memory in a page
   without. No packet of Opus is so long that a page cannot hold its end. */
static size_t first_stream(reader *r, const uint8_t *data, size_t bytes)
{
    bool ended = false, opus = false;
    int serial = 0, packets = 0;
    for (size_t at = 0, n; at < bytes; at += n) {
        ogg_page page;
        n = bytes_of_page(data + at, bytes - at);
        if (!is_page(r, data + at, n, &page))
            return 0;
        if (at > 0 && ogg_page_bos(&page) != 0)
            return at;
        if (ended || (at > 0 && ogg_page_serialno(&page) != serial))
            return 0;
        opus |= at == 0 && begins_with(&page, "OpusHead");
        if (opus && packets >= OPUS_HEAD && ogg_page_packets(&page) == 0)
            return 0;
        packets += ogg_page_packets(&page);
        serial = ogg_page_serialno(&page);
        ended = ogg_page_eos(&page) != 0;
    }
    return bytes;
}

size_t lx_ogg_link(const uint8_t *data, size_t bytes)
{
    reader r;
    (void)ogg_sync_init(&r.sync);
    size_t n = ogg_sync_buffer(&r.sync, MOST_PAGE) != NULL ? first_stream(&r, data, bytes) : 0;
    (void)ogg_sync_clear(&r.sync);
    return n;
}

bool lx_ogg_goes_back(const uint8_t *data, size_t bytes)
{
    reader r;
    (void)ogg_sync_init(&r.sync);
    bool back = ogg_sync_buffer(&r.sync, MOST_PAGE) == NULL || goes_back(&r, data, bytes);
    (void)ogg_sync_clear(&r.sync);
    return back;
}
