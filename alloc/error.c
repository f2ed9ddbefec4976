/* Status names and the error of the calling thread. */
#include "alloc/base.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[512];

const char *sw_status_name(sw_status status)
{
    static const char *const names[] = {"ok",          "invalid", "nomem", "format", "io",
                                        "unsupported", "stale",   "busy",  "device", "stopped"};
    return (unsigned)status < sizeof names / sizeof *names ? names[status] : "?";
}

const char *sw_last_error(void)
{
    return message;
}

sw_status sw_error_set(sw_status status, const char *file, int line, const char *format, ...)
{
    char text[sizeof message]; /* an argument may be the message before */
    va_list list;
    (void)file; /* for a debugger's breakpoint here: the caller's frame has them */
    (void)line;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    for (char *p = text; *p != '\0'; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    memcpy(message, text, strlen(text) + 1);
    return status;
}
