/* A pull parser of JSON, the only one: headers of safetensors files, records of profiles and
 * snapshots are read by it. The caller asks for what comes next. It takes no memory but for a
 * key that is longer than SW_JSON_KEY, which the text is longer than, and never calls itself,
 * so a hostile text can neither make it take much nor fill the stack.
 *
 * A text that it refuses is SW_FORMAT, and the message names the file and the place: the byte,
 * or the line and the column. */
#pragma once

#include "alloc/base/base.h"
#include <stdbool.h>

typedef struct sw_json_in sw_json_in;
struct sw_json_in {
    const unsigned char *text;
    size_t at, bytes; /* the next byte of `text`; its end */
    uint64_t before;  /* bytes of the file before `text` */
    /* Where `text` is used up: sets text, at, bytes and before to what follows; nothing does
     * where bytes stays 0. NULL: `text` is all. */
    sw_status (*more)(sw_json_in *in);
    void *context; /* of `more` */
    const char *path;
    const char *of;            /* "" or " of its header", after the byte in messages */
    uint64_t line, line_began; /* not 0: messages name line and column instead of the byte */
    bool python;               /* NaN and Infinity are words, as Python writes them */
    bool strict;               /* strings are UTF-8 and have no zero character */
};

/* The text of [text, text + bytes), messages by byte. */
sw_json_in sw_json_in_text(const char *text, size_t bytes, const char *path);

/* SW_FORMAT: what is wrong at the next byte. */
SW_MUST_USE sw_status sw_json_bad(const sw_json_in *in, const char *what);
/* The next byte that is no blank, which stays; -1 at the end. */
SW_MUST_USE sw_status sw_json_peek(sw_json_in *in, int *c);
/* Take `c` where it comes next. */
SW_MUST_USE sw_status sw_json_accept(sw_json_in *in, int c, bool *there);
SW_MUST_USE sw_status sw_json_expect(sw_json_in *in, int c);

typedef struct sw_json_text sw_json_text;
struct sw_json_text {
    char *to;
    size_t cap;    /* without `grow`, bytes past it are counted and dropped */
    size_t length; /* of the whole string, which has no zero after it */
    /* Make cap larger than length. */
    sw_status (*grow)(sw_json_text *text);
};
SW_MUST_USE sw_status sw_json_get_string(sw_json_in *in, sw_json_text *out);
/* A string of `bytes` at most with its zero, cut where it is longer. */
SW_MUST_USE sw_status sw_json_get_text(sw_json_in *in, char *to, size_t bytes);
/* An object: `member` is called after each key, which is whole and stays for the call, and
 * reads the value. A key with a zero character is refused. */
#define SW_JSON_KEY 48 /* bytes of a key, with its zero, that take no memory */
typedef sw_status sw_json_member(sw_json_in *in, const char *key, void *context);
SW_MUST_USE sw_status sw_json_get_object(sw_json_in *in, sw_json_member *member, void *context);

typedef struct {
    bool minus;
    bool whole;         /* it has neither fraction nor exponent, and is `magnitude` */
    uint64_t magnitude; /* where whole */
    double real;        /* always */
} sw_json_number;
/* Refused: what a double cannot hold, and more than 400 characters. A whole number past 64 bits
 * is not `whole`. */
SW_MUST_USE sw_status sw_json_get_number(sw_json_in *in, sw_json_number *out);
/* A whole number of 0 to INT64_MAX. */
SW_MUST_USE sw_status sw_json_get_count(sw_json_in *in, uint64_t *out);

typedef enum { SW_JSON_NULL, SW_JSON_FALSE, SW_JSON_TRUE, SW_JSON_NO_NUMBER } sw_json_word;
SW_MUST_USE sw_status sw_json_get_word(sw_json_in *in, sw_json_word *out);
/* Pass over any value. SW_FORMAT where brackets are nested too deep. */
SW_MUST_USE sw_status sw_json_skip(sw_json_in *in);
