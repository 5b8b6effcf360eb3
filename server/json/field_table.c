/* The table of request fields (see request_fields.h). */
#include "server/json/request_fields.h"

#include <stddef.h>

#include "model/ctc.h"
#include "server/json/fields.h"
#include "server/json/requests.h"

/* Routes. */
enum {
    COMPLETIONS = 1 << LX_JSON_COMPLETIONS,
    CHAT = 1 << LX_JSON_CHAT,
    RESPONSES = 1 << LX_JSON_RESPONSES,
    MESSAGES = 1 << LX_JSON_MESSAGES,
    TOKENS_OF_MESSAGES = 1 << LX_JSON_MESSAGE_TOKENS,
    PROMPTS_OF_MESSAGES = MESSAGES | TOKENS_OF_MESSAGES,
    GENERATIONS = 1 << LX_JSON_GENERATIONS,
    EDITS = 1 << LX_JSON_EDITS,
    EDITS_FORM = 1 << LX_JSON_EDITS_FORM,
    SCORE = 1 << LX_JSON_SCORE,
    SCORE_FORM = 1 << LX_JSON_SCORE_FORM,
    STATES = 1 << LX_JSON_STATES,
    FORK = 1 << LX_JSON_FORK,
    TOKENIZE = 1 << LX_JSON_TOKENIZE,
    DETOKENIZE = 1 << LX_JSON_DETOKENIZE,
    TEMPLATE = 1 << LX_JSON_TEMPLATE,
    CHATS = CHAT | TEMPLATE,
    SPEECH = 1 << LX_JSON_TRANSCRIPTIONS,
    CONVERSATION = 1 << LX_JSON_CONVERSATION,
    METADATA = 1 << LX_JSON_METADATA,
    ITEMS = 1 << LX_JSON_ITEMS,
    CONVERSATIONS = CONVERSATION | METADATA | ITEMS,
    RELOAD = 1 << LX_JSON_RELOAD,
    CHOICES = COMPLETIONS | CHAT,
    OPENAI_TEXT = CHOICES | RESPONSES,
    TEXT = OPENAI_TEXT | MESSAGES,
    EDIT = EDITS | EDITS_FORM,
    IMAGES = GENERATIONS | EDIT,
    SCORES = SCORE | SCORE_FORM,
    ALL = (1 << LX_JSON_ROUTES) - 1,
};

/* Neutral values. */
enum {
    FALSE = LX_NEUTRAL_FALSE,
    TRUE = LX_NEUTRAL_TRUE,
    ZERO = LX_NEUTRAL_ZERO,
    ONE = LX_NEUTRAL_ONE,
    MINUS = LX_NEUTRAL_MINUS,
    EMPTY = LX_NEUTRAL_EMPTY,
    AUTO = LX_NEUTRAL_AUTO,
    NONE = LX_NEUTRAL_NONE,
};

/* The struct that a route's fields are members of. */
typedef lx_completion_params text;
typedef lx_image_params images;
typedef lx_score_params score;
typedef lx_state_create state;
typedef lx_state_fork forks;
typedef lx_tokenize_params tokenized;
typedef lx_detokenize_params detokenized;
typedef lx_transcription_params speech;

#define AT(type, member) .at = offsetof(type, member)
#define BOOL(name, routes, type, member)                                                           \
    {                                                                                              \
        name, routes, LX_FIELD_BOOL, AT(type, member)                                              \
    }
#define INT32(name, routes, type, member, least, most)                                             \
    {                                                                                              \
        name, routes, LX_FIELD_INT32, AT(type, member), 0, least, most                             \
    }
/* Which has other names, too: member_field says by which it was read. */
#define NAMED(name, routes, type, member, least, most)                                             \
    {                                                                                              \
        name, routes, LX_FIELD_INT32, AT(type, member), 0, least, most,                            \
            .at_name = offsetof(type, member##_field)                                              \
    }
#define INT64(name, routes, type, member, least, most)                                             \
    {                                                                                              \
        name, routes, LX_FIELD_INT64, AT(type, member), 0, least, most                             \
    }
#define REAL(name, routes, type, member, least, most)                                              \
    {                                                                                              \
        name, routes, LX_FIELD_REAL, AT(type, member), 0, least, most                              \
    }
#define STRING(name, routes, type, member, bytes, most)                                            \
    {                                                                                              \
        name, routes, LX_FIELD_TEXT, AT(type, member), offsetof(type, bytes), 0, most              \
    }
#define ID(name, routes, type, member, least)                                                      \
    {                                                                                              \
        name, routes, LX_FIELD_TEXT, AT(type, member), 0, least, 0                                 \
    }
#define OWN(name, routes, type, member, reader)                                                    \
    {                                                                                              \
        name, routes, LX_FIELD_OWN, AT(type, member), .read = lx_read_##reader                     \
    }
#define LABEL(name, routes)                                                                        \
    {                                                                                              \
        name, routes, LX_FIELD_LABEL, .why = NULL                                                  \
    }
#define REFUSED(name, routes, values, reason)                                                      \
    {                                                                                              \
        name, routes, LX_FIELD_REFUSED, .why = (reason), .neutral = (values)                       \
    }
#define IGNORED(name, routes, values, reason)                                                      \
    {                                                                                              \
        name, routes, LX_FIELD_IGNORED, .why = (reason), .neutral = (values)                       \
    }

/* Fields that one task reads. */
#define TASK_WORD(name, routes, type, member)                                                      \
    ID(name, routes, type, fields.at[LX_ASKED_##member].text, 0),
#define TASK_TEXT(name, routes, type, member)                                                      \
    STRING(name, routes, type, fields.at[LX_ASKED_##member].text,                                  \
           fields.at[LX_ASKED_##member].bytes, 0),
#define TASK_CHOICE(name, routes, type, member)                                                    \
    OWN(name, routes, type, fields.at[LX_ASKED_##member].text, choice),

/* Rows of one route stand in the order in which a bad body names them. Of two names of one field
   the later counts. */
static const lx_field rows[] = {
    {"model", ALL & ~(FORK | CONVERSATIONS | RELOAD), LX_FIELD_OWN, 0,
     .read = lx_read_model}, /* the first member of each */

    /* Fields of the responses' clients that would make another answer. */
    REFUSED("background", RESPONSES, FALSE, "an answer comes on the connection that asks for it"),
    REFUSED("prompt", RESPONSES, FALSE, "prompts are not kept: send the text as input"),
    REFUSED("messages", RESPONSES, FALSE, "send them as input"),
    REFUSED("max_tokens", RESPONSES, FALSE, "it is max_output_tokens here"),
    REFUSED("max_completion_tokens", RESPONSES, FALSE, "it is max_output_tokens here"),
    REFUSED("logprobs", RESPONSES, FALSE, "it is include: [\"message.output_text.logprobs\"] here"),
    REFUSED("n", RESPONSES, ONE, "a response is one answer: use /v1/chat/completions"),
    REFUSED("best_of", RESPONSES, ONE, "use /v1/completions"),
    REFUSED("echo", RESPONSES, FALSE, "use /v1/completions"),
    REFUSED("suffix", RESPONSES, EMPTY, "leave it out"),
    REFUSED("response_format", RESPONSES, FALSE, "it is text.format here"),
    REFUSED("state", RESPONSES, FALSE, "use /v1/completions"),
    REFUSED("return_state", RESPONSES, FALSE, "use /v1/completions"),
    REFUSED("suspend", RESPONSES, FALSE, "use /v1/completions"),
    REFUSED("park", RESPONSES, FALSE, "use /v1/completions"),
    /* Fields of chats' clients that Anthropic names otherwise, or has no place for. */
    REFUSED("stop", MESSAGES, EMPTY, "it is stop_sequences here"),
    REFUSED("response_format", MESSAGES, FALSE, "it is output_config.format here"),
    REFUSED("n", MESSAGES, ONE, "a message is one answer: use /v1/chat/completions"),
    REFUSED("mcp_servers", MESSAGES, EMPTY, "the server calls no tools: send them as tools"),
    REFUSED("container", MESSAGES, EMPTY, "the server runs no code"),
    IGNORED("max_completion_tokens", MESSAGES, 0, "it is max_tokens here"),
    IGNORED("instructions", MESSAGES, 0, "use system"),

    OWN("truncation", RESPONSES, text, truncates, truncation),
    ID("previous_response_id", RESPONSES, text, state, 1),
    OWN("conversation", RESPONSES, text, conversation, conversation),
    BOOL("store", RESPONSES, text, store),

    /* States, which say where a request begins. */
    REFUSED("state", CHAT | MESSAGES, 0,
            "a chat cannot continue from a state: use /v1/completions"),
    REFUSED("state", EDIT, 0, "an edit begins with its picture: use /v1/images/generations"),
    BOOL("return_state", CHOICES, text, return_state),
    OWN("park", CHOICES, text, suspend, suspend), /* the first name of the next one */
    OWN("suspend", CHOICES, text, suspend, suspend),
    ID("state", COMPLETIONS, text, state, 1),

    /* The text that is answered. */
    OWN("prompt", COMPLETIONS, text, prompts, prompt),
    OWN("system", PROMPTS_OF_MESSAGES, text, messages, system),
    OWN("messages", PROMPTS_OF_MESSAGES, text, messages, blocks),
    OWN("messages", CHATS, text, messages, messages),
    STRING("instructions", RESPONSES, text, instructions, instructions_bytes, 0),
    OWN("input", RESPONSES, text, messages, input),
    BOOL("continue_final_message", CHATS, text, continues),
    BOOL("add_generation_prompt", CHATS, text, begins_answer),
    OWN("tools", CHATS | RESPONSES, text, variables, tools),
    OWN("tool_choice", CHATS | RESPONSES, text, tool_choice, tool_choice),
    {"parallel_tool_calls", CHATS | RESPONSES, LX_FIELD_NOT, AT(text, serial_calls)},
    OWN("tools", PROMPTS_OF_MESSAGES, text, variables, message_tools),
    OWN("tool_choice", PROMPTS_OF_MESSAGES, text, tool_choice, message_tool_choice),
    OWN("thinking", PROMPTS_OF_MESSAGES, text, variables, thinking),
    OWN("cache_control", PROMPTS_OF_MESSAGES, text, model, cache_control),
    OWN("chat_template_kwargs", CHATS, text, variables, template_variables),
    OWN("enable_thinking", CHATS, text, variables, enable_thinking),

    /* How many answers of how many tokens, and how these are drawn. */
    INT32("n", CHOICES, text, n, 1, LX_FIELD_MAX_N),
    NAMED("max_tokens", COMPLETIONS, text, max_tokens, 0, LX_MAX_ASKED_TOKENS),
    NAMED("max_tokens", CHAT | MESSAGES, text, max_tokens, 1, LX_MAX_ASKED_TOKENS),
    NAMED("max_completion_tokens", CHAT, text, max_tokens, 1, LX_MAX_ASKED_TOKENS),
    NAMED("max_output_tokens", RESPONSES, text, max_tokens, 1, LX_MAX_ASKED_TOKENS),
    NAMED("min_tokens", TEXT, text, min_tokens, 0, LX_MAX_ASKED_TOKENS),
    NAMED("min_new_tokens", TEXT, text, min_tokens, 0, LX_MAX_ASKED_TOKENS),
    INT32("top_k", TEXT, text, sampling.top_k, -1, LX_MAX_ASKED_TOKENS),
    OWN("seed", TEXT, text, sampling, seed),
    {"draft", TEXT, LX_FIELD_NOT, AT(text, sampling.no_draft)},
    REAL("temperature", TEXT, text, sampling.temperature, 0, 10),
    REAL("top_p", TEXT, text, sampling.top_p, 1e-6, 1),
    REAL("frequency_penalty", TEXT, text, sampling.frequency_penalty, -2, 2),
    REAL("presence_penalty", TEXT, text, sampling.presence_penalty, -2, 2),
    REAL("repetition_penalty", TEXT, text, sampling.repetition_penalty, 0.01, 10),
    REAL("min_p", TEXT, text, sampling.min_p, 0, 1),
    REAL("typical_p", TEXT, text, sampling.typical_p, 1e-6, 1),
    OWN("logit_bias", TEXT, text, biases, logit_bias),
    OWN("allowed_token_ids", TEXT, text, allowed, allowed_token_ids),
    BOOL("rank", COMPLETIONS, text, rank),
    BOOL("rules", TEXT, text, rules),
    BOOL("normalize", TEXT, text, normalize),
    BOOL("ignore_eos", TEXT, text, ignore_eos),
#define FIELD(task, name, kind) TASK_##kind(#name, TEXT, text, name)
#include "model/tasks/fields.def"
#undef FIELD
    INT64("timeout_ms", TEXT, text, timeout_ms, 1, LX_MAX_TIMEOUT_MS),

    /* In which form they are answered. */
    OWN("stop", OPENAI_TEXT, text, stops, stop),
    OWN("stop_sequences", MESSAGES, text, stops, stop),
    BOOL("include_stop_str_in_output", TEXT, text, keeps_stop),
    BOOL("stream", TEXT, text, stream),
    OWN("stream_options", CHOICES, text, include_usage, stream_options),
    OWN("stream_options", RESPONSES, text, model, padded_stream),
    INT32("logprobs", COMPLETIONS, text, n_logprobs, 0, 5),
    BOOL("logprobs", CHAT, text, wants_logprobs),
    OWN("include", RESPONSES, text, wants_logprobs, include),
    INT32("top_logprobs", CHAT | RESPONSES, text, n_top, 0, LX_MAX_TOP),
    BOOL("return_token_ids", CHOICES, text, return_token_ids),
    OWN("text", RESPONSES, text, model, response_text),
    OWN("output_config", MESSAGES, text, model, output_config),
    OWN("response_format", CHOICES, text, model, text_format),
    OWN("json_schema", TEXT, text, model, json_schema),
    OWN("grammar", TEXT, text, model, gbnf),
    OWN("structured_outputs", TEXT, text, model, structured_outputs),
    OWN("guided_json", TEXT, text, model, json_schema),
    OWN("guided_regex", TEXT, text, model, regex),
    OWN("guided_choice", TEXT, text, model, choice_of),
    OWN("guided_grammar", TEXT, text, model, gbnf),
    OWN("regex", TEXT, text, model, regex),
    OWN("ebnf", TEXT, text, model, gbnf),
    BOOL("echo", COMPLETIONS, text, echo),
    INT32("best_of", COMPLETIONS, text, best_of, 1, LX_FIELD_MAX_N),
    REFUSED("suffix", COMPLETIONS, EMPTY, "text cannot be put before a suffix: leave it out"),

    /* Fields of text routes that say what happens anyway, or what to use instead. */
    IGNORED("max_completion_tokens", COMPLETIONS, 0, "it is max_tokens here"),
    IGNORED("max_output_tokens", CHOICES, 0, "it is max_tokens here"),
    IGNORED("n_predict", TEXT, MINUS, "use max_tokens"),
    IGNORED("num_predict", TEXT, MINUS, "use max_tokens"),
    IGNORED("max_new_tokens", TEXT, 0, "use max_tokens"),
    IGNORED("max_length", TEXT, 0, "use max_tokens"),
    IGNORED("messages", COMPLETIONS, 0, "use /v1/chat/completions"),
    IGNORED("prompt", CHAT, 0, "use messages, or /v1/completions"),
    IGNORED("input", CHOICES, 0, "use /v1/responses"),
    IGNORED("instructions", CHOICES, 0, "use a message of the role system"),
    IGNORED("echo", CHAT, FALSE, "use /v1/completions"),
    IGNORED("best_of", CHAT, ONE, "use /v1/completions"),
    IGNORED("rank", CHAT | RESPONSES, FALSE, "use /v1/completions"),
    IGNORED("suffix", CHAT, EMPTY, NULL),
    IGNORED("top_logprobs", COMPLETIONS, ZERO, "it is logprobs here"),
    IGNORED("continue_final_message", COMPLETIONS | RESPONSES, FALSE, NULL),
    IGNORED("add_generation_prompt", COMPLETIONS | RESPONSES, TRUE, NULL),
    IGNORED("return_token_ids", RESPONSES, FALSE, NULL),
    IGNORED("repeat_penalty", TEXT, ONE, "it is repetition_penalty here"),
    IGNORED("typ_p", TEXT, ONE, "it is typical_p here"),
    IGNORED("tfs_z", TEXT, ONE, NULL),
    IGNORED("top_a", TEXT, ZERO, NULL),
    IGNORED("top_n_sigma", TEXT, MINUS, NULL),
    IGNORED("mirostat", TEXT, ZERO, NULL),
    IGNORED("xtc_probability", TEXT, ZERO, NULL),
    IGNORED("dry_multiplier", TEXT, ZERO, NULL),
    IGNORED("dynatemp_range", TEXT, ZERO, NULL),
    IGNORED("n_keep", TEXT, ZERO | MINUS, NULL),
    IGNORED("n_probs", TEXT, ZERO, "use logprobs"),
    IGNORED("cache_prompt", TEXT, TRUE, NULL),
    IGNORED("use_beam_search", TEXT, FALSE, NULL),
    IGNORED("num_beams", TEXT, ONE, NULL),
    IGNORED("do_sample", TEXT, TRUE, "temperature 0 takes the likeliest token"),
    IGNORED("no_repeat_ngram_size", TEXT, ZERO, NULL),
    IGNORED("length_penalty", TEXT, ONE, NULL),
    IGNORED("skip_special_tokens", TEXT, TRUE, NULL),
    IGNORED("spaces_between_special_tokens", TEXT, TRUE, NULL),
    IGNORED("add_special_tokens", COMPLETIONS, TRUE, "send the prompt as tokens"),
    IGNORED("add_special_tokens", CHAT | RESPONSES | MESSAGES, FALSE, NULL),
    IGNORED("stop_token_ids", TEXT, EMPTY, "use stop"),
    IGNORED("bad_words", TEXT, EMPTY, "use logit_bias"),
    IGNORED("tools", COMPLETIONS, EMPTY, "no tool is called"),
    IGNORED("tool_choice", COMPLETIONS, AUTO | NONE, NULL),
    IGNORED("functions", TEXT, EMPTY, "no function is called"),
    IGNORED("function_call", TEXT, AUTO | NONE, NULL),
    IGNORED("parallel_tool_calls", COMPLETIONS, FALSE | TRUE, NULL),
    IGNORED("service_tier", TEXT, AUTO, NULL),
    IGNORED("store", CHOICES, FALSE, "answers are not kept"),
    IGNORED("metadata", CHOICES, EMPTY, NULL),
    OWN("metadata", MESSAGES, text, model, message_metadata),

    /* Images. */
    INT32("n", IMAGES, images, n, 1, LX_FIELD_MAX_N),
    OWN("seed", IMAGES, images, sampling, seed),
    {"draft", IMAGES, LX_FIELD_NOT, AT(images, sampling.no_draft)},
    REAL("temperature", IMAGES, images, sampling.temperature, 0, 10),
    INT64("timeout_ms", IMAGES, images, timeout_ms, 1, LX_MAX_TIMEOUT_MS),
    STRING("prompt", IMAGES, images, prompt, prompt_bytes, LX_MAX_IMAGE_PROMPT),
    OWN("class", IMAGES, images, class_number, class),
    OWN("size", IMAGES, images, size, size),
    OWN("response_format", IMAGES, images, model, only_b64),
    OWN("output_format", IMAGES, images, model, only_png),
    BOOL("contact_sheet", IMAGES, images, contact_sheet),
    BOOL("stream", IMAGES, images, stream),
    INT32("partial_images", IMAGES, images, partial_images, 0, LX_MAX_PARTIAL_IMAGES),
    OWN("stream_unit", IMAGES, images, stream_unit, stream_unit),
    ID("state", GENERATIONS, images, state, 1),
    BOOL("return_state", IMAGES, images, return_state),
    OWN("park", IMAGES, images, suspend, suspend),
    OWN("suspend", IMAGES, images, suspend, suspend),
    INT32("max_tokens", IMAGES, images, max_tokens, 1, LX_MAX_JOB_VALUES),
    OWN("images", EDITS, images, image, images),
    OWN("mask", EDITS, images, mask, mask),
    IGNORED("quality", IMAGES, AUTO | NONE, NULL),
    IGNORED("style", IMAGES, AUTO, NULL),
    IGNORED("background", IMAGES, AUTO | NONE, NULL),
    IGNORED("moderation", IMAGES, AUTO, NULL),
    IGNORED("image", GENERATIONS, 0, "use /v1/images/edits"),
    IGNORED("image", EDITS, 0, "it is images here"),

    /* Scores. */
    INT64("timeout_ms", SCORES, score, timeout_ms, 1, LX_MAX_TIMEOUT_MS),
    STRING("prompt", SCORE, score, prompt, prompt_bytes, 0),
    STRING("completion", SCORE, score, completion, completion_bytes, 0),
    OWN("image", SCORE, score, image, file),

    /* States. */
    STRING("prompt", STATES, state, prompt, prompt_bytes, 0),
    OWN("image", STATES, state, image, file),
    OWN("mask", STATES, state, mask, file),
    BOOL("rules", STATES, state, rules),
    BOOL("normalize", STATES, state, normalize),
#define FIELD(task, name, kind) TASK_##kind(#name, STATES, state, name)
#include "model/tasks/fields.def"
#undef FIELD
    OWN("seed", STATES, state, sampling, seed),
    INT64("timeout_ms", STATES, state, timeout_ms, 1, LX_MAX_TIMEOUT_MS),
    OWN("class", STATES, state, class_number, class),
    INT32("n", FORK, forks, n, 1, LX_FIELD_MAX_N),
    OWN("seeds", FORK, forks, seeds, seeds),

    /* Responses and conversations. */
    OWN("items", CONVERSATION | ITEMS, text, messages, items),
    OWN("metadata", RESPONSES | CONVERSATION | METADATA, text, metadata, metadata),

    /* Tokens. */
    BOOL("add_special", TOKENIZE, tokenized, add_special),
    BOOL("parse_special", TOKENIZE, tokenized, parse_special),
    BOOL("with_pieces", TOKENIZE, tokenized, with_pieces),
    STRING("content", TOKENIZE, tokenized, content, bytes, 0),
    OWN("tokens", DETOKENIZE, detokenized, tokens, tokens),

    /* Sounds. */
    OWN("response_format", SPEECH, speech, format, transcript_format),
    OWN("timestamp_granularities", SPEECH, speech, words, granularities),
    {"language", SPEECH, LX_FIELD_OWN, AT(speech, language), .read = lx_read_language,
     .noted = true},
    IGNORED("prompt", SPEECH, EMPTY, NULL),
    {"temperature", SPEECH, LX_FIELD_REAL, AT(speech, temperature), 0, 0, 1, .noted = true},
    INT32("beam", SPEECH, speech, beam, 0, LX_CTC_MAX_WIDTH),
    BOOL("stream", SPEECH, speech, stream),
    INT64("timeout_ms", SPEECH, speech, timeout_ms, 1, LX_MAX_TIMEOUT_MS),
    IGNORED("chunking_strategy", SPEECH, AUTO, NULL),

    REFUSED("model", RELOAD, 0, "a reload reads all models again"),

    /* No answer of any server depends on these. */
    LABEL("user", TEXT | IMAGES),
    LABEL("safety_identifier", TEXT),
    LABEL("prompt_cache_key", TEXT),
};

enum { N_ROWS = sizeof rows / sizeof *rows };

_Static_assert(offsetof(text, model) == 0 && offsetof(images, model) == 0 &&
                   offsetof(score, model) == 0 && offsetof(state, model) == 0 &&
                   offsetof(tokenized, model) == 0 && offsetof(detokenized, model) == 0 &&
                   offsetof(speech, model) == 0,
               "the row of model is for all");

const lx_field *lx_json_field_row(int32_t i)
{
    return i >= 0 && i < N_ROWS ? &rows[i] : NULL;
}
