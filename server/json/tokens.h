/* Requests and answers of /tokenize and /detokenize, as plain structs (see answers.h). */
#ifndef LINNET_SERVER_JSON_TOKENS_H
#define LINNET_SERVER_JSON_TOKENS_H

#include "common/buffer.h"
#include "model/tokenizers/tokenizer.h"
#include "server/json/limits.h"
#include "server/json/parts.h"

typedef struct lx_tokenize_params {
    char model[LX_MAX_MODEL_NAME]; /* "": the first of text */
    char *content;                 /* owned */
    size_t bytes;
    bool add_special;    /* those that the model puts before every prompt */
    bool parse_special;  /* names of special tokens in the content are these tokens */
    bool with_pieces;    /* the answer says what each token stands for */
    lx_json_notes notes; /* of the body */
} lx_tokenize_params;

typedef struct lx_detokenize_params {
    char model[LX_MAX_MODEL_NAME];
    int32_t *tokens; /* [n], owned; the model may not have them */
    size_t n;
    lx_json_notes notes; /* of the body */
} lx_detokenize_params;

/* LX_ERR_INVALID with the field's name; free with fini, also after a failure. */
lx_status lx_json_read_tokenize(const char *body, size_t bytes, lx_tokenize_params *p,
                                lx_error *err) LX_MUST_USE;
lx_status lx_json_read_detokenize(const char *body, size_t bytes, lx_detokenize_params *p,
                                  lx_error *err) LX_MUST_USE;
void lx_tokenize_params_fini(lx_tokenize_params *p);
void lx_detokenize_params_fini(lx_detokenize_params *p);

/* {"tokens": [...]}: numbers, or with pieces {"id", "piece"}, a piece being a text or, where that
   is not UTF-8, its bytes. */
void lx_json_write_tokens(const lx_tokenizer *t, const lx_token_list *list, bool with_pieces,
                          lx_buffer *out);
/* {"content": "..."} */
void lx_json_write_content(const lx_buffer *text, lx_buffer *out);

#endif
