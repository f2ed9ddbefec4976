/* Status names and the error of the calling thread. */
#include "alloc/base/error.h"
#include "alloc/base/base.h"
#include "alloc/base/message.h"
#include "alloc/base/note.h"
#include <stdarg.h>
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

/* A message that is too long loses its middle: paths are at the start and in the middle of
 * messages, the reason is at the end. Characters of UTF-8 stay whole. */
static void keep(char *to, const char *text, size_t n)
{
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

static void keep_line(char *to, const char *format, va_list list)
{
    char text[LONGEST]; /* an argument may be the message before */
    (void)sw_message_list(text, sizeof text, format, list);
    for (char *p = text; *p != '\0'; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    keep(to, text, strlen(text));
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
