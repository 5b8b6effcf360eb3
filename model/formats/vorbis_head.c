/*
 * The three packets that begin an Ogg Vorbis file (see vorbis_head.h), through libogg and
 * libvorbis.
 */
#include "model/formats/vorbis_head.h"

#include <ogg/ogg.h>
#include <string.h>
#include <vorbis/codec.h>

enum { PACKETS = 3, MOST_BYTES = 1 << 20 };

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

static bool read_packets(reader *r)
{
    ogg_packet packet;
    for (int i = 0; i < PACKETS; i++)
        if (!next_packet(r, &packet) ||
            vorbis_synthesis_headerin(&r->info, &r->comment, &packet) != 0)
            return false;
    return true;
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

bool lx_vorbis_has_head(const uint8_t *data, size_t bytes)
{
    reader r;
    ogg_page page;
    bool ok = false;
    (void)ogg_sync_init(&r.sync);
    vorbis_info_init(&r.info);
    vorbis_comment_init(&r.comment);
    if (fill(&r, data, bytes) && next_page(&r, &page) && ogg_page_bos(&page) != 0 &&
        ogg_stream_init(&r.stream, ogg_page_serialno(&page)) == 0) {
        ok = ogg_stream_pagein(&r.stream, &page) == 0 && read_packets(&r);
        (void)ogg_stream_clear(&r.stream);
    }
    vorbis_comment_clear(&r.comment);
    vorbis_info_clear(&r.info);
    (void)ogg_sync_clear(&r.sync);
    return ok;
}
