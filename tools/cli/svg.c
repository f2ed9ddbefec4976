/* Text of a picture. */
#include "tools/cli/svg.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include <stdarg.h>
#include <string.h>

void svg_put(svg *s, const char *text, size_t n)
{
    const size_t more = s->capacity > n ? s->capacity : n + 4096;
    if (s->status == SW_OK && n > s->capacity - s->used) {
        s->status = sw_heap_resize(&s->bytes, SW_HEAP_FILES, s->capacity, s->capacity + more);
        if (s->status == SW_OK) {
            s->capacity += more;
        }
    }
    if (s->status != SW_OK)
        return;
    memcpy(s->bytes + s->used, text, n);
    s->used += n;
}

void svg_print(svg *s, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    svg_put(s, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

void svg_escaped(svg *s, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '&')
            svg_put(s, "&amp;", 5);
        else if (*text == '<')
            svg_put(s, "&lt;", 4);
        else if (*text == '>')
            svg_put(s, "&gt;", 4);
        else
            svg_put(s, *text < 0x20 || *text > 0x7e ? "?" : text, 1);
}

void svg_open(svg *s, int width, int height, bool alone)
{
    if (alone)
        svg_print(s, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    svg_print(s,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
              "height=\"%d\" font-family=\"sans-serif\" font-size=\"13\">\n",
              width, height, width, height);
}

void svg_paper(svg *s)
{
    svg_print(s, "<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n");
}

void svg_length(svg *s, const char *name, long long hundredths)
{
    svg_print(s, " %s=\"%lld.%02lld\"", name, hundredths / 100, hundredths % 100);
}

void svg_grid_line(svg *s, long long x1, long long y1, long long x2, long long y2)
{
    svg_print(s, "<line class=\"grid\"");
    svg_length(s, "x1", x1);
    svg_length(s, "y1", y1);
    svg_length(s, "x2", x2);
    svg_length(s, "y2", y2);
    svg_print(s, "/>\n");
}

void svg_open_text(svg *s, const char *class, long long x, long long y)
{
    svg_print(s, "<text class=\"%s\"", class);
    svg_length(s, "x", x);
    svg_length(s, "y", y);
    svg_print(s, ">");
}

static sw_status write_all(void *context, sw_file *file)
{
    const svg *s = context;
    return sw_file_write(file, s->bytes, s->used);
}

sw_status svg_save(const svg *s, const char *path)
{
    return cli_saved(sw_file_replace(path, write_all, (svg *)(uintptr_t)s));
}

void svg_free(svg *s)
{
    sw_heap_free(s->bytes, SW_HEAP_FILES, s->capacity);
    *s = (svg){.status = SW_OK};
}
