/* The table of formats, and their output. */
#include "alloc/base/assert.h"
#include "profiler/inspect/sink.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SINK(id) extern const sw_sink sw_sink_##id;
#include "profiler/inspect/sinks.def"
#undef SINK

static const sw_sink *const sinks[] = {
#define SINK(id) &sw_sink_##id,
#include "profiler/inspect/sinks.def"
#undef SINK
};

const sw_sink *sw_sink_at(uint32_t i)
{
    return i < sizeof sinks / sizeof *sinks ? sinks[i] : NULL;
}

const sw_sink *sw_sink_find(const char *name)
{
    for (uint32_t i = 0; i < sizeof sinks / sizeof *sinks; i++)
        if (strcmp(sinks[i]->name, name) == 0)
            return sinks[i];
    return NULL;
}

sw_status sw_sink_flush(sw_sink_out *out)
{
    if (out->status == SW_OK && out->used > 0)
        out->status = out->write(out->context, out->buffer, out->used);
    out->used = 0;
    return out->status;
}

void sw_sink_bytes(sw_sink_out *out, const void *bytes, size_t n)
{
    const char *from = bytes;
    while (n > 0) {
        const size_t capacity = sizeof out->buffer - out->used,
                     part = n < capacity ? n : capacity;
        SW_ASSERT(part > 0); /* a full buffer was flushed */
        memcpy(out->buffer + out->used, from, part);
        out->used += part;
        from += part;
        n -= part;
        if (out->used == sizeof out->buffer && sw_sink_flush(out) != SW_OK)
            return;
    }
}

void sw_sink_text(sw_sink_out *out, const char *text)
{
    sw_sink_bytes(out, text, strlen(text));
}

void sw_sink_print(sw_sink_out *out, const char *format, ...)
{
    char text[4096]; /* names are shorter: a longer text is cut nowhere else */
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text) {
        if (out->status == SW_OK)
            out->status =
                sw_error_set(SW_UNSUPPORTED, __FILE__, __LINE__,
                             "a piece of output is longer than %zu bytes", sizeof text);
        return;
    }
    sw_sink_bytes(out, text, (size_t)n);
}
