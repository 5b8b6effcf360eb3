/*
 * Parts of the readers of chats (chat_fields.c) that the readers of Anthropic's messages share
 * (message_fields.c). Both make the same messages, tools and variables for a template. Only
 * server/json/ includes this.
 */
#ifndef LINNET_SERVER_JSON_CHAT_FIELDS_H
#define LINNET_SERVER_JSON_CHAT_FIELDS_H

#include "server/json/request_fields.h"
#include "server/json/requests.h"

enum { LX_CHAT_MESSAGES = 1024, LX_CHAT_CALLS = 128 }; /* the most, of a request and of a message */

/* A string that is not empty and has no NUL. */
bool lx_chat_is_name(const json_t *value);
/* A copy for free(), NUL-terminated; NULL: no memory. */
char *lx_chat_copy(const char *text, size_t bytes);

/* Room for n messages in all, before the first. */
lx_status lx_chat_reserve_messages(size_t n, lx_completion_params *p, lx_error *err) LX_MUST_USE;
/* Appends a message. Takes the text, which may be NULL: no memory. */
lx_status lx_chat_add_message(lx_chat_role role, char *text, size_t bytes, lx_completion_params *p,
                              lx_error *err) LX_MUST_USE;
/* The bytes that a list of texts has with a line feed between each two, as the peers join them; -1
   where one part is no text. `response`: the parts are those of responses. */
int64_t lx_chat_joined_bytes(const json_t *parts, bool response);
/* Appends a message whose content is a text of so many bytes, or a list of texts that are joined;
   NULL is an empty text. */
lx_status lx_chat_keep_content(const json_t *content, size_t bytes, lx_chat_role role,
                               const lx_json_reading *r, lx_error *err) LX_MUST_USE;
/* The arguments of a call, which stand at `where`, as an object for the caller to free: most
   clients send them as a text of JSON, which is parsed within the bounds of a body. */
lx_status lx_chat_read_arguments(const json_t *value, const char *where, const lx_json_reading *r,
                                 json_t **out, lx_error *err) LX_MUST_USE;
/* Adds a call to an assistant's message, with its arguments as an object. */
lx_status lx_chat_add_call(lx_chat_message *m, const json_t *id, const json_t *name,
                           const json_t *arguments, lx_error *err) LX_MUST_USE;
/* Notes the call that a message of the role tool answers. */
lx_status lx_chat_set_call(lx_chat_message *m, const json_t *id, lx_error *err) LX_MUST_USE;
/* The last message's text becomes the prompt. */
lx_status lx_chat_keep_last(lx_completion_params *p, lx_error *err) LX_MUST_USE;

/* Sets a variable of the template. Takes the value, which may be NULL: no memory. */
lx_status lx_chat_set_variable(lx_completion_params *p, const char *name, json_t *value,
                               lx_error *err) LX_MUST_USE;
/* A tool in the form of chats, from a tool that has the members of its function next to its type
   and its schema under the name `parameters`. NULL: no memory. */
json_t *lx_chat_tool(const json_t *tool, const char *parameters);
/* Checks the tools and makes them a variable of the template. `make` appends each to *out in the
   form of chats; NULL: they have it. */
lx_status lx_chat_keep_tools(const json_t *value, const lx_json_reading *r,
                             lx_status (*make)(const json_t *value, const lx_json_reading *r,
                                               json_t *out, lx_error *err),
                             lx_error *err) LX_MUST_USE;
/* The answer has a call of the tool with this name. */
lx_status lx_chat_require_tool(lx_completion_params *p, const char *name,
                               lx_error *err) LX_MUST_USE;

#endif
