/* Ids and texts by a vocabulary. A text becomes ids by the longest token at each place. That is
 * one of the ways to write it in tokens, and not always the way of the tokenizer that made the
 * training's ids: who needs that gives the ids. */
#include "tools/train/sample_tokens.h"
#include <string.h>

static const char blank_byte[] = "\xc4\xa0", blank_piece[] = "\xe2\x96\x81";

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

sw_status sample_tokens_open(sample_tokens *t, const char *path)
{
    SW_TRY(swi_vocabulary_read(&t->vocabulary, path, 0));
    SW_TRY(sw_heap_alloc(&t->token, SW_HEAP_FILES, (size_t)t->vocabulary.n * sizeof *t->token));
    const char *at = t->vocabulary.text;
    for (int64_t i = 0; i < t->vocabulary.n; i++, at += strlen(at) + 1) {
        t->token[i] = at;
        if (begins(at, blank_byte))
            t->style = SAMPLE_BYTE_LEVEL;
        else if (begins(at, blank_piece) && t->style == SAMPLE_PLAIN)
            t->style = SAMPLE_PIECES;
    }
    return SW_OK;
}

void sample_tokens_close(sample_tokens *t)
{
    if (t->token != NULL)
        sw_heap_free(t->token, SW_HEAP_FILES, (size_t)t->vocabulary.n * sizeof *t->token);
    swi_vocabulary_free(&t->vocabulary);
    t->token = NULL;
}

/* ---- bytes as characters ----------------------------------------------------------------- */

/* GPT-2's tokens write these bytes as the character of that number, and all others as
 * characters from 256 on. */
static bool is_itself(int byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

static int character_of(int byte)
{
    int others = 0;
    if (is_itself(byte))
        return byte;
    for (int i = 0; i < byte; i++)
        others += !is_itself(i);
    return 256 + others;
}

/* -1 where no byte is written so. */
static int byte_of(int character)
{
    for (int i = 0; i < 256; i++)
        if (character_of(i) == character)
            return i;
    return -1;
}

/* How a byte of a text stands in tokens; ended by a zero. */
static void write_byte(sample_style style, int byte, char to[4])
{
    const int c = style == SAMPLE_BYTE_LEVEL ? character_of(byte) : 0;
    if (style == SAMPLE_PIECES && byte == ' ')
        memcpy(to, blank_piece, sizeof blank_piece);
    else if (c < 0x80)
        snprintf(to, 4, "%c", byte);
    else
        snprintf(to, 4, "%c%c", 0xc0 | c >> 6, 0x80 | (c & 0x3f));
}

/* ---- from texts -------------------------------------------------------------------------- */

/* How many bytes of `text` the token is the writing of; 0: it does not go on so. */
static size_t matches(sample_style style, const char *text, const char *token)
{
    size_t n = 0;
    while (*token != '\0' && text[n] != '\0') {
        char as[4];
        write_byte(style, (unsigned char)text[n], as);
        if (!begins(token, as))
            return 0;
        token += strlen(as);
        n++;
    }
    return *token == '\0' ? n : 0;
}

sw_status sample_tokens_encode(const sample_tokens *t, const char *text,
                               void (*take)(void *context, int id), void *context)
{
    for (const char *at = text; *at != '\0';) {
        size_t longest = 0;
        int id = 0;
        for (int64_t i = 0; i < t->vocabulary.n; i++) {
            const size_t n = matches(t->style, at, t->token[i]);
            if (n > longest) {
                longest = n;
                id = (int)i;
            }
        }
        if (longest == 0)
            SW_FAIL(SW_INVALID, "no token of the vocabulary begins as byte %zu of the prompt",
                    (size_t)(at - text) + 1);
        take(context, id);
        at += longest;
    }
    return SW_OK;
}

/* ---- to texts ---------------------------------------------------------------------------- */

void sample_tokens_write(const sample_tokens *t, int id, FILE *to)
{
    const char *at = id < t->vocabulary.n ? t->token[id] : "";
    while (*at != '\0') {
        int c = (unsigned char)*at, n = 1;
        if ((c & 0xe0) == 0xc0 && (at[1] & 0xc0) == 0x80) {
            c = (c & 0x1f) << 6 | (at[1] & 0x3f);
            n = 2;
        }
        const bool character = t->style == SAMPLE_BYTE_LEVEL && (c < 0x80 || n == 2);
        const int byte = character ? byte_of(c) : -1;
        if (byte >= 0) {
            putc(byte, to);
            at += n;
        } else if (t->style == SAMPLE_PIECES && begins(at, blank_piece)) {
            putc(' ', to);
            at += strlen(blank_piece);
        } else {
            putc(*at++, to);
        }
    }
}
