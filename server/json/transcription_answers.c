/*
 * Answers with transcriptions (see transcriptions.h). A word is a token; a segment ends where
 * nothing is said for LONG_PAUSE_S.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/json/fields.h"
#include "server/json/parts.h"
#include "server/json/transcriptions.h"

#define LONG_PAUSE_S 1.0

/* --- segments --- */

/* The first token after the segment that begins with token i. */
static int32_t segment_end(const lx_transcription *t, int32_t i)
{
    int32_t k = i + 1;
    while (k < t->n && t->tokens[k].start - t->tokens[k - 1].end < LONG_PAUSE_S)
        k++;
    return k;
}

/* Where the text of token i begins. */
static const char *text_of(const lx_transcription *t, int32_t i)
{
    const char *at = t->text;
    for (int32_t k = 0; k < i; k++)
        at += strlen(t->tokens[k].text);
    return at;
}

static json_t *make_segment_text(const lx_transcription *t, int32_t from, int32_t to)
{
    const char *text = text_of(t, from);
    return json_stringn(text, (size_t)(text_of(t, to) - text));
}

static void write_segments(const lx_transcription *t, lx_buffer *out)
{
    int32_t id = 0;
    lx_buffer_puts(out, ",\"segments\":[");
    for (int32_t i = 0, end = 0; i < t->n; i = end, id++) {
        end = segment_end(t, i);
        lx_buffer_puts(out, i > 0 ? "," : "");
        lx_json_open(json_pack("{s:i, s:i, s:f, s:f, s:o}", "id", id, "seek", 0, "start",
                               t->tokens[i].start, "end", t->tokens[end - 1].end, "text",
                               make_segment_text(t, i, end)),
                     out);
        lx_buffer_puts(out, ",\"tokens\":[");
        for (int32_t k = i; k < end; k++)
            lx_buffer_printf(out, "%s%d", k > i ? "," : "", t->tokens[k].id);
        lx_buffer_puts(out, "],\"temperature\":0.0}");
    }
    lx_buffer_puts(out, "]");
}

static void write_words(const lx_transcription *t, lx_buffer *out)
{
    lx_buffer_puts(out, ",\"words\":[");
    for (int32_t i = 0; i < t->n; i++)
        lx_json_item(i,
                     json_pack("{s:s, s:f, s:f}", "word", t->tokens[i].text, "start",
                               t->tokens[i].start, "end", t->tokens[i].end),
                     out);
    lx_buffer_puts(out, "]");
}

/* --- JSON --- */

/* No language is found out: it is the one that the client said, or undetermined (ISO 639-2). */
static void write_json(const lx_json_transcript *t, lx_buffer *out)
{
    const lx_transcription *said = t->said;
    const lx_transcription_params *p = t->asked;
    lx_json_open(json_pack("{s:s, s:{s:s, s:f}, s:s, s:s}", "text", said->text, "usage", "type",
                           "duration", "seconds", said->duration, "model", t->model,
                           "system_fingerprint", t->fingerprint),
                 out);
    if (p->format == LX_TRANSCRIPT_VERBOSE)
        lx_json_members(json_pack("{s:s, s:s, s:f}", "task", "transcribe", "language",
                                  p->language[0] != '\0' ? p->language : "und", "duration",
                                  said->duration),
                        out);
    if (p->segments)
        write_segments(said, out);
    if (p->words)
        write_words(said, out);
    lx_json_write_notes(&p->notes, out);
    lx_buffer_puts(out, "}");
}

/* --- text --- */

static void write_time(double seconds, char mark, lx_buffer *out)
{
    long long ms = llround(seconds * 1000);
    lx_buffer_printf(out, "%02lld:%02lld:%02lld%c%03lld", ms / 3600000, ms / 60000 % 60,
                     ms / 1000 % 60, mark, ms % 1000);
}

/* Subtitles: SRT numbers them and has a comma in its times, WebVTT a head and a point. */
static void write_subtitles(const lx_transcription *t, bool vtt, lx_buffer *out)
{
    char mark = vtt ? '.' : ',';
    int number = 1;
    lx_buffer_puts(out, vtt ? "WEBVTT\n\n" : "");
    for (int32_t i = 0, end = 0; i < t->n; i = end) {
        end = segment_end(t, i);
        if (!vtt)
            lx_buffer_printf(out, "%d\n", number++);
        write_time(t->tokens[i].start, mark, out);
        lx_buffer_puts(out, " --> ");
        write_time(t->tokens[end - 1].end, mark, out);
        lx_buffer_puts(out, "\n");
        const char *text = text_of(t, i);
        lx_buffer_append(out, text, (size_t)(text_of(t, end) - text));
        lx_buffer_puts(out, "\n\n");
    }
}

void lx_json_write_transcript(const lx_json_transcript *t, lx_buffer *out)
{
    switch (t->asked->format) {
    case LX_TRANSCRIPT_JSON:
    case LX_TRANSCRIPT_VERBOSE:
        write_json(t, out);
        break;
    case LX_TRANSCRIPT_TEXT:
        lx_buffer_puts(out, t->said->text);
        lx_buffer_puts(out, "\n");
        break;
    case LX_TRANSCRIPT_SRT:
    case LX_TRANSCRIPT_VTT:
        write_subtitles(t->said, t->asked->format == LX_TRANSCRIPT_VTT, out);
        break;
    }
}

const char *lx_transcript_type(lx_transcript_format format)
{
    switch (format) {
    case LX_TRANSCRIPT_TEXT:
        return "text/plain; charset=utf-8";
    case LX_TRANSCRIPT_SRT:
        return "application/x-subrip; charset=utf-8";
    case LX_TRANSCRIPT_VTT:
        return "text/vtt; charset=utf-8";
    case LX_TRANSCRIPT_JSON:
    case LX_TRANSCRIPT_VERBOSE:
        break;
    }
    return "application/json";
}

/* --- events --- */

void lx_json_write_transcript_delta(const lx_transcription *said, int32_t i, lx_buffer *out)
{
    lx_json_dump(
        json_pack("{s:s, s:s}", "type", "transcript.text.delta", "delta", said->tokens[i].text),
        out);
}

/* OpenAI's last event counts no seconds but tokens: those that go in are the sound's rows. */
void lx_json_write_transcript_done(const lx_json_transcript *t, lx_buffer *out)
{
    int rows = t->rows, n = t->said->n;
    json_t *usage = json_pack("{s:s, s:i, s:{s:i, s:i}, s:i, s:i}", "type", "tokens",
                              "input_tokens", rows, "input_token_details", "audio_tokens", rows,
                              "text_tokens", 0, "output_tokens", n, "total_tokens", rows + n);
    lx_json_open(json_pack("{s:s, s:s, s:o, s:s, s:s}", "type", "transcript.text.done", "text",
                           t->said->text, "usage", usage, "model", t->model, "system_fingerprint",
                           t->fingerprint),
                 out);
    lx_json_write_notes(&t->asked->notes, out);
    lx_buffer_puts(out, "}");
}

/* --- what they take --- */

/* A word, a segment, an event and a subtitle each have at most TOKEN_TEXT bytes and the token's, a
   byte of which may be escaped. */
enum { HEAD = 8192, TOKEN_TEXT = 320, ESCAPED = 6 };

static bool has_times(const lx_transcription_params *p)
{
    return p->format != LX_TRANSCRIPT_JSON && p->format != LX_TRANSCRIPT_TEXT;
}

/* The text itself, in segments, in words. */
int64_t lx_transcript_text_bytes(const lx_transcription_params *p, int64_t n, int64_t token_bytes)
{
    int64_t text = ESCAPED * token_bytes;
    return HEAD + n * (has_times(p) ? TOKEN_TEXT + 3 * text : text);
}
