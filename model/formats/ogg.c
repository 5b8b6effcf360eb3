/* The first pages of an Ogg file, through libogg and libvorbis, and the order of all (see ogg.h).
 */
#include "model/formats/ogg.h"

#include <ogg/ogg.h>
#include <stdbool.h>
#include <string.h>
#include <vorbis/codec.h>

#define FAR ((uint64_t)1 << 31) /* samples */

enum { PACKETS = 3, MOST_BYTES = 1 << 20, POSITION = 6, POSITION_END = 14 };

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

static uint64_t position_of(const uint8_t *page)
{
    uint64_t position = 0;
    for (int i = POSITION_END - 1; i >= POSITION; i--)
        position = position << 8 | page[i];
    return position;
}

bool lx_ogg_goes_back(const uint8_t *data, size_t bytes)
{
    const uint8_t *end = data + bytes, *page = data;
    uint64_t farthest = 0;
    while ((page = memmem(page, (size_t)(end - page), "OggS", 4)) != NULL &&
           end - page >= POSITION_END) {
        uint64_t position = position_of(page++);
        if (position == UINT64_MAX) /* no packet ends there */
            continue;
        if (position < farthest && farthest - position >= FAR)
            return true;
        farthest = position > farthest ? position : farthest;
    }
    return false;
}
