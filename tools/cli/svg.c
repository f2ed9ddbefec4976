/* Text of a picture. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "tools/cli/svg.h"
#include <math.h>
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

void svg_style(svg *s, const char *classes, const char *dark)
{
    svg_print(s, "<style>\n"
                 ".paper{fill:#fff}.text,.axis,.mark{fill:#1b1f24}.axis{text-anchor:end}"
                 ".mark{text-anchor:middle}\n"
                 ".grid{stroke:#8a929b;stroke-width:0.6;stroke-dasharray:3 3}\n");
    svg_put(s, classes, strlen(classes));
    svg_print(s,
              "@media (prefers-color-scheme:dark){.paper{fill:#14181d}"
              ".text,.axis,.mark{fill:#e4e8ec}%s}\n</style>\n",
              dark);
    svg_paper(s);
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
    svg_print(s, "/>");
}

void svg_open_text(svg *s, const char *class, long long x, long long y)
{
    svg_print(s, "<text class=\"%s\"", class);
    svg_length(s, "x", x);
    svg_length(s, "y", y);
    svg_print(s, ">");
}

sw_status svg_save(const svg *s, const char *path)
{
    return cli_saved(sw_file_replace_bytes(path, s->bytes, s->used));
}

void svg_free(svg *s)
{
    sw_heap_free(s->bytes, SW_HEAP_FILES, s->capacity);
    *s = (svg){.status = SW_OK};
}

/* ---- svg axis ---------------------------------------------------------------------------- */

/* Where values lie on an axis, and round numbers on it. Logarithms and powers come from libm:
 * places are rounded to hundredths of a pixel, and decide nothing. */

svg_axis svg_axis_of(double low, double high, bool log, int from, int length)
{
    const double middle = low;
    if (!(high > low)) {
        low = log ? middle / 2.0 : middle - (middle != 0.0 ? fabs(middle) / 2.0 : 0.5);
        high = log ? middle * 2.0 : middle + (middle != 0.0 ? fabs(middle) / 2.0 : 0.5);
    }
    return (svg_axis){.low = low, .high = high, .log = log, .from = from, .length = length};
}

long long svg_at(const svg_axis *a, double value)
{
    const double v = value < a->low ? a->low : value > a->high ? a->high : value;
    const double share = a->log ? log(v / a->low) / log(a->high / a->low)
                                : v / (a->high - a->low) - a->low / (a->high - a->low);
    return 100LL * a->from + llround(100.0 * a->length * share);
}

/* 1, 2 or 5 times a power of ten, at least `step`; *decimals: those that it has. */
static double round_step(double step, int *decimals)
{
    int power = (int)floor(log10(step));
    double unit = pow(10.0, power), times = 1.0;
    while (times * unit < step * (1.0 - 1e-9) && times < 10.0)
        times = times < 2.0 ? 2.0 : times < 5.0 ? 5.0 : 10.0;
    if (times >= 10.0)
        power++;
    *decimals = power < 0 ? -power : 0;
    return times * unit;
}

static int linear_ticks(const svg_axis *a, int about, svg_tick *out)
{
    int n = 0, decimals;
    double step = round_step((a->high - a->low) / about, &decimals);
    if (a->whole && step < 1.0) {
        step = 1.0;
        decimals = 0;
    }
    const double first = ceil(a->low / step - 1e-9), last = floor(a->high / step + 1e-9);
    for (double i = first; i <= last && n < SVG_TICKS; i++, n++) {
        out[n].value = i == 0.0 ? 0.0 : i * step;
        if (fabs(out[n].value) >= 1e7 || decimals > 6)
            snprintf(out[n].text, sizeof out[n].text, "%.6g", out[n].value);
        else
            snprintf(out[n].text, sizeof out[n].text, "%.*f", decimals, out[n].value);
    }
    return n;
}

/* Powers of ten, every k-th where there are many; 1, 2 and 5 of each where there are few. */
static int log_ticks(const svg_axis *a, int about, svg_tick *out)
{
    static const double few[] = {1.0, 2.0, 5.0};
    const int first = (int)floor(log10(a->low)), last = (int)ceil(log10(a->high));
    const double decades = log10(a->high / a->low);
    const int apart = (int)(decades / about) + 1, times = decades * 3.0 <= about + 1 ? 3 : 1;
    int n = 0;
    for (int power = first; power <= last; power++)
        for (int i = 0; i < times && n < SVG_TICKS; i++) {
            const double v = few[i] * pow(10.0, power);
            if (power % apart != 0 || v < a->low * (1.0 - 1e-9) || v > a->high * (1.0 + 1e-9))
                continue;
            out[n].value = v;
            snprintf(out[n].text, sizeof out[n].text, "%.6g", v);
            n++;
        }
    return n;
}

int svg_ticks(const svg_axis *a, int about, svg_tick *out)
{
    const int n = a->log ? log_ticks(a, about, out) : 0;
    return n >= 2 ? n : linear_ticks(a, about, out);
}

void svg_widen(double *low, double *high, double value)
{
    if (isfinite(value)) {
        *low = value < *low ? value : *low;
        *high = value > *high ? value : *high;
    }
}

/* ---- plots ------------------------------------------------------------------------------- */

void svg_grid_down(svg *s, const svg_plot *p, int about)
{
    svg_tick tick[SVG_TICKS];
    const long long bottom = 100LL * (p->top + p->height);
    const int n = svg_ticks(&p->x, about, tick);
    for (int i = 0; i < n; i++) {
        const long long at = svg_at(&p->x, tick[i].value);
        svg_grid_line(s, at, 100LL * p->top, at, bottom);
        svg_open_text(s, "mark", at, bottom + 1700);
        svg_print(s, "%s</text>\n", tick[i].text);
    }
}

void svg_grid_across(svg *s, const svg_plot *p, int about)
{
    svg_tick tick[SVG_TICKS];
    const int n = svg_ticks(&p->y, about, tick);
    for (int i = 0; i < n; i++) {
        const long long at = svg_at(&p->y, tick[i].value);
        svg_grid_line(s, 100LL * p->left, at, 100LL * (p->left + p->width), at);
        svg_open_text(s, "axis", 100LL * (p->left - 8), at + 400);
        svg_print(s, "%s</text>\n", tick[i].text);
    }
}

/* ---- pages ------------------------------------------------------------------------------- */

void svg_page(svg *s, const char *title)
{
    svg_print(s, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                 "<title>");
    svg_escaped(s, title);
    svg_print(s, "</title>\n<style>\nbody{font:14px sans-serif;margin:16px;background:#fff;"
                 "color:#1b1f24}svg{max-width:100%%;height:auto}"
                 "table{border-collapse:collapse;margin:16px 0}\n"
                 "th,td{padding:3px 10px;text-align:right;border-bottom:1px solid #8a929b}"
                 "tr.first td{font-weight:bold}pre{overflow-x:auto}\n"
                 "@media (prefers-color-scheme:dark){body{background:#14181d;color:#e4e8ec}}\n"
                 "</style>\n</head>\n<body>\n");
}

void svg_cell(svg *s, const char *text)
{
    svg_print(s, "<td>");
    svg_escaped(s, text);
    svg_print(s, "</td>");
}

void svg_cell_real(svg *s, const cli_column *column, double value)
{
    svg_cell(s, isfinite(value) ? cli_column_text(column, value).text : "none");
}
