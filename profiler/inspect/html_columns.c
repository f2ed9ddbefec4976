/* Numbers for the HTML report: lists in base64, each as narrow as it may be. */
#include "alloc/base/mem.h"
#include "profiler/inspect/html_internal.h"
#include <string.h>

/* ---- base64 ------------------------------------------------------------------------------ */

typedef struct {
    sw_sink_out *out;
    uint32_t held; /* up to two bytes that wait for the third */
    int n_held;
    size_t used;
    char text[1024];
} base64;

static void four(base64 *b, uint32_t bits)
{
    static const char digit[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (b->used == sizeof b->text) {
        sw_sink_bytes(b->out, b->text, b->used);
        b->used = 0;
    }
    for (int shift = 18; shift >= 0; shift -= 6)
        b->text[b->used++] = digit[bits >> shift & 63];
}

/* The low `width` bytes of x, the lowest first. */
static void put(base64 *b, uint64_t x, int width)
{
    for (int i = 0; i < width; i++, x >>= 8) {
        b->held = b->held << 8 | (uint32_t)(x & 255);
        if (++b->n_held == 3) {
            four(b, b->held);
            b->held = 0;
            b->n_held = 0;
        }
    }
}

static void finish(base64 *b)
{
    const int missing = b->n_held == 0 ? 0 : 3 - b->n_held;
    if (missing > 0) {
        four(b, b->held << 8 * missing);
        memset(b->text + b->used - missing, '=', (size_t)missing);
    }
    sw_sink_bytes(b->out, b->text, b->used);
    sw_sink_text(b->out, "</script>\n");
}

static void open_column(sw_sink_out *out, const char *id, const char *type, size_t n)
{
    sw_sink_print(out,
                  "<script type=\"text/plain\" class=\"column\" id=\"%s\" data-type=\"%s\" "
                  "data-n=\"%zu\"",
                  id, type, n);
}

/* ---- columns ----------------------------------------------------------------------------- */

typedef struct {
    uint64_t first, max, max_step, factor;
    bool ascends;
} survey;

static uint64_t common_factor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static survey look(const swi_column *c)
{
    survey s = {.ascends = true};
    uint64_t last = 0;
    for (size_t i = 0; i < c->n; i++) {
        const uint64_t x = c->get(c->context, i);
        if (i == 0)
            s.first = x;
        if (x > s.max)
            s.max = x;
        if (s.factor != 1)
            s.factor = common_factor(s.factor, x);
        if (x < last)
            s.ascends = false;
        else if (x - last > s.max_step)
            s.max_step = x - last;
        last = x;
    }
    if (s.factor == 0)
        s.factor = 1;
    return s;
}

static int width_of(uint64_t max)
{
    return max <= UINT8_MAX ? 1 : max <= UINT16_MAX ? 2 : max <= UINT32_MAX ? 4 : 8;
}

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

void swi_html_column(sw_sink_out *out, const char *id, const swi_column *c)
{
    static const char *const types[] = {"", "u8", "u16", "", "u32", "", "", "", "f64"};
    const survey s = look(c);
    const int plain = width_of(s.max / s.factor);
    const int steps = s.ascends ? width_of(s.max_step / s.factor) : 8;
    const bool differences = steps < plain;
    const int width = differences ? steps : plain;
    open_column(out, id, types[width], c->n);
    sw_sink_print(out, " data-factor=\"%llu\"%s>", (unsigned long long)s.factor,
                  differences ? " data-steps=\"1\"" : "");
    base64 b = {.out = out};
    uint64_t last = 0;
    for (size_t i = 0; i < c->n; i++) {
        const uint64_t x = c->get(c->context, i) / s.factor;
        const uint64_t put_x = differences ? x - last : x;
        put(&b, width == 8 ? bits_of((double)put_x) : put_x, width);
        last = x;
    }
    finish(&b);
}

void swi_html_doubles(sw_sink_out *out, const char *id,
                      double (*get)(const void *context, size_t i), const void *context,
                      size_t n)
{
    open_column(out, id, "f64", n);
    sw_sink_text(out, " data-factor=\"1\">");
    base64 b = {.out = out};
    for (size_t i = 0; i < n; i++)
        put(&b, bits_of(get(context, i)), 8);
    finish(&b);
}
