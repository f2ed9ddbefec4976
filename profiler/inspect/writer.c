/* See writer.h. */
#include "profiler/inspect/writer.h"
#include "alloc/base/message.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

sw_text sw_text_bytes(size_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double x = (double)bytes;
    int unit = 0;
    while (x >= 1023.995 && unit < 5) {
        x /= 1024.0;
        unit++;
    }
    sw_text t;
    snprintf(t.text, sizeof t.text, unit == 0 ? "%.0f %s" : "%.2f %s", x, units[unit]);
    return t;
}

sw_text sw_text_mib(size_t bytes)
{
    const uint64_t hundredths = ((uint64_t)bytes / 1048576) * 100 +
                                ((uint64_t)bytes % 1048576 * 100 + 524288) / 1048576;
    sw_text t = sw_text_digits(hundredths / 100);
    const size_t n = strlen(t.text);
    snprintf(t.text + n, sizeof t.text - n, ".%02u", (unsigned)(hundredths % 100));
    return t;
}

sw_text sw_text_ns(uint64_t ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double x = (double)ns;
    int unit = 0;
    while (x >= 999.5 && unit < 3) {
        x /= 1000.0;
        unit++;
    }
    sw_text t;
    snprintf(t.text, sizeof t.text, unit == 0 ? "%.0f %s" : "%.2f %s", x, units[unit]);
    return t;
}

sw_text sw_text_digits(uint64_t n)
{
    sw_text t;
    (void)sw_digits(t.text, n);
    return t;
}

/* ---- bytes ------------------------------------------------------------------------------- */

void sw_writer_text(const sw_writer *to, const char *text)
{
    to->put(to->context, text, strlen(text));
}

void sw_writer_print(const sw_writer *to, const char *format, ...)
{
    char text[8192]; /* two paths and the words around them */
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n > 0)
        to->put(to->context, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

/* ---- text -------------------------------------------------------------------------------- */

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

static int width_of(const char *text, size_t n)
{
    int width = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\033' && i + 1 < n) /* colours take no column */
            while (i + 1 < n && text[i] != 'm')
                i++;
        else
            width += begins_character(text[i]);
    }
    return width;
}

int sw_writer_fitted(const sw_writer *to, const char *text, size_t n, int width)
{
    const int wanted = width_of(text, n);
    if (wanted <= width) {
        to->put(to->context, text, n);
        return width - wanted;
    }
    const int head = (width - 1) / 2, tail = width - 1 - head;
    int at = 0;
    for (size_t i = 0; i < n; i++) {
        if (begins_character(text[i]) && at++ == head)
            sw_writer_text(to, "~");
        if (at <= head || at > wanted - tail)
            to->put(to->context, text + i, 1);
    }
    return 0;
}

int sw_writer_columns(const sw_writer *to)
{
    return to->columns > 0 ? to->columns : SW_WRITER_COLUMNS;
}

int sw_writer_scopes(const sw_writer *to, const char *text, int width)
{
    const char *from = text, *next;
    while (width_of(from, strlen(from)) + 2 * (from > text) > width &&
           (next = strchr(from, '/')) != NULL)
        from = next + 1;
    if (from > text && width > 2) {
        sw_writer_text(to, "~/");
        width -= 2;
    }
    const size_t file = strcspn(from, ":"), line = file + strcspn(from + file, " "),
                 n = strlen(from);
    const int head = width_of(from, file), tail = width_of(from + line, n - line),
              room = width - width_of(from + file, line - file);
    if (file == n || head + tail <= room || room < 4)
        return sw_writer_fitted(to, from, n, width);
    const int most = tail < room / 2 ? room - tail : room - room / 2,
              of = head < most ? head : most;
    (void)sw_writer_fitted(to, from, file, of);
    to->put(to->context, from + file, line - file);
    return sw_writer_fitted(to, from + line, n - line, room - of);
}

void sw_writer_wrap(const sw_writer *to, int column, int indent, const char *text)
{
    bool first = true;
    while (*text != '\0') {
        const size_t n = strcspn(text, " ");
        const int width = width_of(text, n), room = sw_writer_columns(to) - indent;
        if (!first && column + 1 + width > sw_writer_columns(to)) {
            sw_writer_print(to, "\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            sw_writer_text(to, " ");
            column++;
        }
        column += room - sw_writer_fitted(to, text, n, room);
        first = false;
        text += n + (text[n] == ' ');
    }
    sw_writer_text(to, "\n");
}

void sw_writer_say(const sw_writer *to, int indent, int hang, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)sw_message_list(text, sizeof text, format, args);
    va_end(args);
    sw_writer_print(to, "%*s", indent, "");
    sw_writer_wrap(to, indent, hang, text);
}
