/* Fields of a transcription that other servers know and that change nothing here: clients send them
   to every server alike, and the answer says so. */
#ifndef LINNET_SERVER_JSON_TRANSCRIPTION_FIELDS_H
#define LINNET_SERVER_JSON_TRANSCRIPTION_FIELDS_H

static const char *const lx_speech_ignored[] = {"language",
                                                "prompt",
                                                "temperature",
                                                "chunking_strategy",
                                                "include",
                                                "known_speaker_names",
                                                "known_speaker_references"};

enum { LX_N_SPEECH_IGNORED = sizeof lx_speech_ignored / sizeof *lx_speech_ignored };

#endif
