/* Records of cards in a report: what each is, and where its memory went. */
#include "profiler/inspect/report/print.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int64_t rest_of(const report_device *d)
{
    int64_t rest = (int64_t)d->open - (int64_t)d->free;
    for (int i = 0; i < SW_ARENA_USES; i++)
        rest -= (int64_t)d->committed[i];
    return rest;
}

/* ---- text -------------------------------------------------------------------------------- */

static void line(const report_style *style, int indent, const char *name, int64_t bytes,
                 const char *why)
{
    char text[48];
    snprintf(text, sizeof text, "%s%s", bytes < 0 ? "-" : "",
             sw_text_digits((uint64_t)(bytes < 0 ? -bytes : bytes)).text);
    sw_writer_print(style->to, "%*s%-*s%18s%s%s\n", indent, "", 30 - indent, name, text,
                    why[0] != '\0' ? "  " : "", why);
}

static void print_device(const report_style *style, const report_device *d)
{
    static const char *const names[SW_ARENA_USES] = {"other arenas", "step arenas", "models",
                                                     "inputs and metrics"};
    static const sw_arena_use order[] = {SW_ARENA_MODEL, SW_ARENA_STEP, SW_ARENA_DATA,
                                         SW_ARENA_OTHER};
    char title[64], blas[48] = "without cuBLASLt";
    snprintf(title, sizeof title, "Memory of %s %s", d->name,
             d->ended ? "at the end" : "at the beginning");
    report_headline(style, title);
    if (d->blas > 0)
        snprintf(blas, sizeof blas, "cuBLASLt %" PRIu64, d->blas);
    sw_writer_say(style->to, 2, 4, "%s, compute capability %s, driver %s, runtime %s, %s",
                  d->card, d->capability, d->driver, d->runtime, blas);
    line(style, 2, "card", (int64_t)d->total, "");
    line(style, 4, "before it was opened", (int64_t)(d->total - d->open),
         "context, other programs");
    for (size_t i = 0; i < SW_ARENA_USES; i++)
        if (order[i] != SW_ARENA_OTHER || d->committed[order[i]] > 0)
            line(style, 4, names[order[i]], (int64_t)d->committed[order[i]], "");
    line(style, 4, "unexplained", rest_of(d), "libraries, graphs, others");
    line(style, 4, "free", (int64_t)d->free, "");
    line(style, 2, "pinned on the host", (int64_t)d->pinned, "");
}

void report_print_devices(const report_style *style, const report *r)
{
    for (size_t i = 0; r->host != NULL && i < r->host->n_devices; i++)
        print_device(style, &r->host->device[i]);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_device(sw_json *j, const report_device *d)
{
    static const char *const names[SW_ARENA_USES] = {"other", "step", "model", "data"};
    sw_json_begin(j, '{');
    sw_json_put_string(j, "name", d->name);
    sw_json_put_string(j, "at", d->ended ? "end" : "begin");
    sw_json_put_string(j, "card", d->card);
    sw_json_put_string(j, "capability", d->capability);
    sw_json_put_string(j, "driver", d->driver);
    sw_json_put_string(j, "runtime", d->runtime);
    sw_json_put_known(j, "cublas", d->blas > 0, d->blas);
    sw_json_put_known(j, "cudnn", false, 0);
    sw_json_put_u64(j, "total_bytes", d->total);
    sw_json_put_u64(j, "open_bytes", d->open);
    sw_json_put_u64(j, "free_bytes", d->free);
    sw_json_open(j, "arenas", '{');
    for (int i = 0; i < SW_ARENA_USES; i++) {
        sw_json_open(j, names[i], '{');
        sw_json_put_u64(j, "committed_bytes", d->committed[i]);
        sw_json_put_u64(j, "promised_bytes", d->promised[i]);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_put_i64(j, "unexplained_bytes", rest_of(d));
    sw_json_put_u64(j, "pinned_bytes", d->pinned);
    sw_json_end(j);
}

void report_put_devices(sw_json *j, const report *r)
{
    sw_json_open(j, "devices", '[');
    for (size_t i = 0; r->host != NULL && i < r->host->n_devices; i++)
        put_device(j, &r->host->device[i]);
    sw_json_end(j);
}
