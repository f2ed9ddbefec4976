/* Status names and the error of the calling thread. */
#include "alloc/base/assert.h"
#include "alloc/base/base.h"
#include "alloc/base/error.h"
#include "alloc/base/message.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[512], note[512];
static _Thread_local uint64_t count;

#define LONGEST (3 * 4096) /* two paths as long as paths can be, and the words around them */

const char *sw_status_name(sw_status status)
{
    static const char *const names[] = {"ok",          "invalid", "nomem", "format", "io",
                                        "unsupported", "stale",   "busy",  "device", "stopped"};
    return (unsigned)status < sizeof names / sizeof *names ? names[status] : "?";
}

uint64_t sw_error_count(void)
{
    return count;
}

const char *sw_last_error(void)
{
    return message;
}

static void keep_line(char *to, const char *format, va_list list)
{
    char text[LONGEST]; /* an argument may be the message before */
    (void)sw_message_list(text, sizeof text, format, list);
    for (char *p = text; *p != '\0'; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    /* A message that is too long loses its middle: paths are at the start and in the middle of
     * messages, the reason is at the end. Characters of UTF-8 stay whole. */
    const size_t n = strlen(text);
    const size_t capacity = sizeof message - 4;
    size_t head = n, tail = n;
    if (n >= sizeof message) {
        head = capacity / 2;
        tail = n - (capacity - head);
        while (((unsigned char)text[head] & 0xc0) == 0x80)
            head--;
        while (((unsigned char)text[tail] & 0xc0) == 0x80)
            tail++;
    }
    memcpy(to, text, head);
    if (head < n)
        memcpy(to + head, "...", 3);
    memcpy(to + head + (head < n ? 3 : 0), text + tail, n - tail + 1);
}

sw_status sw_error_set(sw_status status, const char *file, int line, const char *format, ...)
{
    va_list list;
    (void)file; /* for a debugger's breakpoint here: the caller's frame has them */
    (void)line;
    va_start(list, format);
    keep_line(message, format, list);
    va_end(list);
    count++;
    return status;
}

const char *sw_last_note(void)
{
    return note;
}

void swi_note_set(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    keep_line(note, format, list);
    va_end(list);
}

/* ---- message ----------------------------------------------------------------------------- */

/* See message.h. Conversions are cut out of the format one by one and left to snprintf. */

#define SPEC_BYTES 32

const char *sw_digits(char *to, uint64_t n)
{
    char plain[24];
    const int length = snprintf(plain, sizeof plain, "%llu", (unsigned long long)n);
    int at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            to[at++] = ',';
        to[at++] = plain[i];
    }
    to[at] = '\0';
    return to;
}

typedef struct {
    char *to;
    size_t bytes, used; /* used: of the whole text, also of what had no room */
} writer;

static void put(writer *w, const char *text, size_t n)
{
    if (w->bytes > 0 && w->used < w->bytes - 1) {
        const size_t room = w->bytes - 1 - w->used, fits = n < room ? n : room;
        memcpy(w->to + w->used, text, fits);
        w->to[w->used + fits] = '\0';
    }
    w->used += n;
}

/* snprintf with the spec straight after what is there. */
#define PUT_ONE(w, ...)                                                                        \
    do {                                                                                       \
        const size_t at_ = (w)->used < (w)->bytes ? (w)->used : (w)->bytes;                    \
        const int n_ = snprintf((w)->to + at_, (w)->bytes - at_, __VA_ARGS__);                 \
        (w)->used += n_ > 0 ? (size_t)n_ : 0;                                                  \
    } while (0)

typedef struct {
    char text[SPEC_BYTES]; /* "%-*.*s" */
    int stars;             /* ints before the value */
    char length[3], kind;  /* "ll", 'u' */
    bool bytes;            /* it counts bytes */
} spec;

/* The conversion at a '%'; what stands after it. */
static const char *read_spec(const char *format, spec *out)
{
    const char *at = format + 1;
    out->stars = 0;
    for (; strchr("-+ #0123456789.*", *at) != NULL && *at != '\0'; at++)
        out->stars += *at == '*';
    size_t n = 0;
    for (; strchr("hljzt", *at) != NULL && *at != '\0' && n < 2; at++)
        out->length[n++] = *at;
    out->length[n] = '\0';
    out->kind = *at;
    at += *at != '\0';
    n = (size_t)(at - format);
    SW_ASSERT(n < SPEC_BYTES);
    n = n < SPEC_BYTES ? n : SPEC_BYTES - 1;
    memcpy(out->text, format, n);
    out->text[n] = '\0';
    out->bytes = strncmp(at, " bytes", 6) == 0;
    return at;
}

/* The formats are those of callers: the compiler has checked their arguments. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#define PUT_VALUE(w, s, stars, value)                                                          \
    do {                                                                                       \
        if ((s)->stars == 0)                                                                   \
            PUT_ONE(w, (s)->text, value);                                                      \
        else if ((s)->stars == 1)                                                              \
            PUT_ONE(w, (s)->text, (stars)[0], value);                                          \
        else                                                                                   \
            PUT_ONE(w, (s)->text, (stars)[0], (stars)[1], value);                              \
    } while (0)

static void put_digits(writer *w, uint64_t n)
{
    char digits[32];
    sw_digits(digits, n);
    put(w, digits, strlen(digits));
}

/* Numbers below zero count nothing. */
static bool is_grouped(const spec *s, bool negative)
{
    const size_t plain = strlen("%u") + strlen(s->length); /* no flags and no width */
    const bool counts = s->kind == 'u' || (s->bytes && (s->kind == 'd' || s->kind == 'i'));
    return counts && !negative && strlen(s->text) == plain &&
           (s->bytes || strcmp(s->length, "z") == 0);
}

static void put_whole(writer *w, const spec *s, const int *stars, va_list *list)
{
    if (strcmp(s->length, "z") == 0 || strcmp(s->length, "t") == 0) {
        const size_t n = va_arg(*list, size_t);
        if (is_grouped(s, false))
            put_digits(w, n);
        else
            PUT_VALUE(w, s, stars, n);
    } else if (strcmp(s->length, "ll") == 0 || strcmp(s->length, "j") == 0) {
        const long long n = va_arg(*list, long long);
        if (is_grouped(s, s->kind != 'u' && n < 0))
            put_digits(w, (uint64_t)n);
        else
            PUT_VALUE(w, s, stars, n);
    } else if (strcmp(s->length, "l") == 0) {
        const long n = va_arg(*list, long);
        if (is_grouped(s, s->kind != 'u' && n < 0))
            put_digits(w, (unsigned long)n);
        else
            PUT_VALUE(w, s, stars, n);
    } else {
        const int n = va_arg(*list, int);
        if (is_grouped(s, s->kind != 'u' && n < 0))
            put_digits(w, (unsigned)n);
        else
            PUT_VALUE(w, s, stars, n);
    }
}

static void put_value(writer *w, const spec *s, const int *stars, va_list *list)
{
    if (strchr("diuxXo", s->kind) != NULL)
        put_whole(w, s, stars, list);
    else if (s->kind == 'c')
        PUT_VALUE(w, s, stars, va_arg(*list, int));
    else if (s->kind == 's')
        PUT_VALUE(w, s, stars, va_arg(*list, const char *));
    else if (s->kind == 'p')
        PUT_VALUE(w, s, stars, va_arg(*list, void *));
    else
        PUT_VALUE(w, s, stars, va_arg(*list, double));
}
#pragma GCC diagnostic pop

int sw_message_list(char *to, size_t bytes, const char *format, va_list given)
{
    writer w = {to, bytes, 0};
    va_list list;
    if (bytes > 0)
        to[0] = '\0';
    va_copy(list, given); /* an array on some machines: its address would be another type */
    while (*format != '\0') {
        const size_t n = strcspn(format, "%");
        put(&w, format, n);
        format += n;
        if (*format == '\0')
            break;
        spec s;
        int stars[2] = {0, 0};
        format = read_spec(format, &s);
        for (int i = 0; i < s.stars && i < 2; i++)
            stars[i] = va_arg(list, int);
        if (s.kind == '%')
            put(&w, "%", 1);
        else if (s.kind != '\0')
            put_value(&w, &s, stars, &list);
    }
    va_end(list);
    return (int)w.used;
}

int sw_message(char *to, size_t bytes, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int n = sw_message_list(to, bytes, format, list);
    va_end(list);
    return n;
}
