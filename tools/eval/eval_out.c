/* Results on their way to a file or to standard output. */
#include "alloc/base/mem.h"
#include "tools/eval/eval.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

sw_status eval_flush(eval_out *out)
{
    if (out->status == SW_OK && out->used > 0)
        out->status = sw_file_write(out->file, out->bytes, out->used);
    out->used = 0;
    return out->status;
}

void eval_put(eval_out *out, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0 && out->status == SW_OK) {
        const size_t room = sizeof out->bytes - out->used, piece = n < room ? n : room;
        memcpy(out->bytes + out->used, at, piece);
        out->used += piece;
        at += piece;
        n -= piece;
        if (out->used == sizeof out->bytes)
            out->status = eval_flush(out);
    }
}

void eval_print(eval_out *out, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (n > 0)
        eval_put(out, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

void eval_put_float(eval_out *out, float x)
{
    char text[40];
    if (isnan(x)) { /* the sign of what is no number says nothing */
        eval_put(out, "nan", 3);
        return;
    }
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x)
            break;
    }
    eval_put(out, text, strlen(text));
}

void eval_put_field(eval_out *out, const char *text)
{
    if (strpbrk(text, ",\"\r\n;") == NULL) {
        eval_put(out, text, strlen(text));
        return;
    }
    eval_put(out, "\"", 1);
    for (; *text != '\0'; text++)
        eval_put(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    eval_put(out, "\"", 1);
}

typedef struct {
    sw_status (*write)(void *context, eval_out *out);
    void *context;
    eval_out *out;
} writing;

static sw_status fill(void *context, sw_file *file)
{
    writing *w = context;
    w->out->file = file;
    SW_TRY(w->write(w->context, w->out));
    return eval_flush(w->out);
}

sw_status eval_write(const char *path, sw_status (*write)(void *context, eval_out *out),
                     void *context)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, sizeof(eval_out)));
    writing w = {write, context, block};
    const sw_status status = cli_saved(sw_file_replace(path != NULL ? path : "-", fill, &w));
    sw_heap_free(block, SW_HEAP_FILES, sizeof(eval_out));
    return status;
}
