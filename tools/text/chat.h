/* Conversations to ids and labels, as the chat template of a Hugging Face folder renders them.
 * There is no Jinja here: each template is a rendering of its own, chosen by a checksum of the
 * folder's text. */
#pragma once

#include "runtime/data/documents.h"
#include "tools/text/tokenizer.h"

/* qwen2.5, qwen2.5-base (another system turn where a conversation has none), qwen3, smollm2,
 * llama3.2, chatml (no system turn of its own), and plain: texts as they are, an end token
 * after each answer. NULL-terminated. */
extern const char *const chat_templates[];

typedef struct chat chat;

/* Read tokenizer.json, tokenizer_config.json and chat_template.jinja of a folder; the last two
 * may be missing. `name` is one of chat_templates; NULL: the folder's own, and where that is
 * unknown, or there is none, conversations of messages are refused (SW_UNSUPPORTED, with the
 * way out) when one comes.
 *
 * Llama 3.2 has a date in its system turn: always that of the template where no clock is given
 * (26 Jul 2024), so that the ids are the same on every day. */
SW_MUST_USE sw_status chat_open(chat **out, const char *folder, const char *name);
void chat_close(chat *c); /* NULL is fine */
tokenizer *chat_tokenizer(chat *c);
const char *chat_name(const chat *c); /* NULL: none */
int32_t chat_end(const chat *c);      /* the token that ends an answer; -1: none */

/* Add the ids of a turn of the user, and of the begin of an answer. */
SW_MUST_USE sw_status chat_prompt(chat *c, token_ids *ids, const char *text);

/* One conversation: n ids and their labels, which are the id or SWI_NOT_COUNTED; they are
 * valid for the call. */
typedef sw_status chat_each(void *context, const int32_t *ids, const int32_t *labels, size_t n);

/* Read a file of JSON objects, one in a line, also compressed by gzip (at most unpack_bytes; 0:
 * a GiB). Each has one of
 *
 *     messages               role and content each; answers and their end token count
 *     prompt and completion  both lists of messages, or both texts: the completion counts, and
 *                            the tokenizer's end token comes after texts
 *     text                   all counts; the tokenizer's end token comes after it
 *
 * A content is a text, or a list of parts of text. Keys of other names are passed over; tools
 * and tool calls are refused. Messages of failures have file and line. The reading
 * ends where `each` does not return SW_OK, with that. */
SW_MUST_USE sw_status chat_read(chat *c, const char *path, size_t unpack_bytes, chat_each *each,
                                void *context);
