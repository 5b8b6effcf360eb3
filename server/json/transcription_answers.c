/*
 * Answers with transcriptions (see answers.h). A word is a token; a segment ends where
 * nothing is said for LONG_PAUSE_S.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/json/answers.h"
#include "server/json/parts.h"

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

static void write_segments(const lx_transcription *t, lx_buffer *out)
{
    int32_t id = 0;
    lx_json_put(out, ",'segments':[");
    for (int32_t i = 0, end = 0; i < t->n; i = end, id++) {
        const char *text = text_of(t, i);
        end = segment_end(t, i);
        lx_buffer_puts(out, i > 0 ? "," : "");
        lx_json_put(out, "{'id':%d,'seek':0,'start':%f,'end':%f,'text':%.*s,'tokens':[", id,
                    t->tokens[i].start, t->tokens[end - 1].end, (int)(text_of(t, end) - text),
                    text);
        for (int32_t k = i; k < end; k++)
            lx_buffer_printf(out, "%s%d", k > i ? "," : "", t->tokens[k].id);
        lx_json_put(out, "],'temperature':0.0}");
    }
    lx_buffer_puts(out, "]");
}

static void write_words(const lx_transcription *t, lx_buffer *out)
{
    lx_json_put(out, ",'words':[");
    for (int32_t i = 0; i < t->n; i++) {
        lx_buffer_puts(out, i > 0 ? "," : "");
        lx_json_put(out, "{'word':%s,'start':%f,'end':%f}", t->tokens[i].text, t->tokens[i].start,
                    t->tokens[i].end);
    }
    lx_buffer_puts(out, "]");
}

/* --- JSON --- */

/* No language is found out: it is the one that the client said, or undetermined (ISO 639-2). */
static void write_json(const lx_json_transcript *t, lx_buffer *out)
{
    const lx_transcription *said = t->said;
    const lx_transcription_params *p = t->asked;
    lx_json_put(out,
                "{'text':%s,'usage':{'type':'duration','seconds':%f},'model':%s,"
                "'system_fingerprint':%s",
                said->text, said->duration, t->model, t->fingerprint);
    if (p->format == LX_TRANSCRIPT_VERBOSE)
        lx_json_put(out, ",'task':'transcribe','language':%s,'duration':%f",
                    p->language[0] != '\0' ? p->language : "und", said->duration);
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
    lx_transcript_format format = t->asked->format;
    if (format == LX_TRANSCRIPT_JSON || format == LX_TRANSCRIPT_VERBOSE)
        write_json(t, out);
    else if (format == LX_TRANSCRIPT_TEXT)
        lx_buffer_printf(out, "%s\n", t->said->text);
    else
        write_subtitles(t->said, format == LX_TRANSCRIPT_VTT, out);
}

const char *lx_transcript_type(lx_transcript_format format)
{
    static const char *const types[] = {
        [LX_TRANSCRIPT_JSON] = "application/json",
        [LX_TRANSCRIPT_VERBOSE] = "application/json",
        [LX_TRANSCRIPT_TEXT] = "text/plain; charset=utf-8",
        [LX_TRANSCRIPT_SRT] = "application/x-subrip; charset=utf-8",
        [LX_TRANSCRIPT_VTT] = "text/vtt; charset=utf-8",
    };
    return types[format];
}

/* --- events --- */

void lx_json_write_transcript_delta(const lx_transcription *said, int32_t i, lx_buffer *out)
{
    lx_json_put(out, "{'type':'transcript.text.delta','delta':%s}", said->tokens[i].text);
}

/* OpenAI's last event counts tokens in place of seconds; the input tokens are the sound's rows. */
void lx_json_write_transcript_done(const lx_json_transcript *t, lx_buffer *out)
{
    int rows = t->rows, n = t->said->n;
    lx_json_put(out,
                "{'type':'transcript.text.done','text':%s,'usage':{'type':'tokens',"
                "'input_tokens':%d,'input_token_details':{'audio_tokens':%d,'text_tokens':0},"
                "'output_tokens':%d,'total_tokens':%d},'model':%s,'system_fingerprint':%s",
                t->said->text, rows, rows, n, rows + n, t->model, t->fingerprint);
    lx_json_write_notes(&t->asked->notes, out);
    lx_buffer_puts(out, "}");
}

/* --- memory of an answer --- */

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
