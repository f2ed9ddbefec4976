/* Records of cards in a report: what each is, and where its memory went. */
#include "tools/report/report_host.h"
#include "tools/report/report_members.h"
#include <inttypes.h>
#include <string.h>

static int64_t rest_of(const report_device *d)
{
    int64_t rest = (int64_t)d->open - (int64_t)d->free;
    for (int i = 0; i < SW_ARENA_USES; i++)
        rest -= (int64_t)d->committed[i];
    return rest;
}

/* ---- text -------------------------------------------------------------------------------- */

static void line(int indent, const char *name, int64_t bytes, const char *why)
{
    char text[48];
    snprintf(text, sizeof text, "%s%s", bytes < 0 ? "-" : "",
             cli_digits((uint64_t)(bytes < 0 ? -bytes : bytes)).text);
    printf("%*s%-*s%18s%s%s\n", indent, "", 30 - indent, name, text, why[0] != '\0' ? "  " : "",
           why);
}

static void print_device(const report_device *d)
{
    static const char *const names[SW_ARENA_USES] = {"other arenas", "step arenas", "models",
                                                     "inputs and metrics"};
    static const sw_arena_use order[] = {SW_ARENA_MODEL, SW_ARENA_STEP, SW_ARENA_DATA,
                                         SW_ARENA_OTHER};
    char title[64], blas[48] = "without cuBLASLt", dnn[48] = "without cuDNN";
    snprintf(title, sizeof title, "Memory of %s %s", d->name,
             d->ended ? "at the end" : "at the beginning");
    report_headline(title);
    if (d->blas > 0)
        snprintf(blas, sizeof blas, "cuBLASLt %" PRIu64, d->blas);
    if (d->dnn > 0)
        snprintf(dnn, sizeof dnn, "cuDNN %" PRIu64, d->dnn);
    cli_say(2, 4, "%s, compute capability %s, driver %s, runtime %s, %s, %s", d->card,
            d->capability, d->driver, d->runtime, blas, dnn);
    line(2, "card", (int64_t)d->total, "");
    line(4, "before it was opened", (int64_t)(d->total - d->open), "context, other programs");
    for (size_t i = 0; i < SW_ARENA_USES; i++)
        if (order[i] != SW_ARENA_OTHER || d->committed[order[i]] > 0)
            line(4, names[order[i]], (int64_t)d->committed[order[i]], "");
    line(4, "unexplained", rest_of(d), "libraries, graphs, others");
    line(4, "free", (int64_t)d->free, "");
    line(2, "pinned on the host", (int64_t)d->pinned, "");
}

void report_print_devices(const report *r)
{
    for (size_t i = 0; r->host != NULL && i < r->host->n_devices; i++)
        print_device(&r->host->device[i]);
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
    sw_json_put_known(j, "cudnn", d->dnn > 0, d->dnn);
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

/* ---- reading ----------------------------------------------------------------------------- */

static sw_status take_arena(const report_place *p, value arenas, const char *name,
                            uint64_t total, uint64_t *committed, uint64_t *promised)
{
    const value o = value_at(arenas, name);
    if (o == 0)
        return SW_OK;
    if (!value_is_dict(o))
        return report_wrong(p, "arenas", "an object of objects");
    SW_TRY(report_get_in(p, o, "committed_bytes", total, 0, committed));
    return report_get_u64(p, o, "promised_bytes", 0, promised);
}

static sw_status fill(const report_place *p, report_device *d)
{
    static const char *const names[SW_ARENA_USES] = {"other", "step", "model", "data"};
    char at[8];
    const value o = p->record;
    SW_TRY(report_get_text(p, o, "name", d->name, sizeof d->name));
    SW_TRY(report_get_text(p, o, "at", at, sizeof at));
    SW_TRY(report_get_text(p, o, "card", d->card, sizeof d->card));
    SW_TRY(report_get_text(p, o, "capability", d->capability, sizeof d->capability));
    SW_TRY(report_get_text(p, o, "driver", d->driver, sizeof d->driver));
    SW_TRY(report_get_text(p, o, "runtime", d->runtime, sizeof d->runtime));
    SW_TRY(report_get_u64(p, o, "cublas", 0, &d->blas));
    SW_TRY(report_get_u64(p, o, "cudnn", 0, &d->dnn));
    SW_TRY(report_get_in(p, o, "total_bytes", (uint64_t)1 << 56, 0, &d->total));
    SW_TRY(report_get_in(p, o, "open_bytes", d->total, 0, &d->open));
    SW_TRY(report_get_in(p, o, "free_bytes", d->total, 0, &d->free));
    SW_TRY(report_get_in(p, o, "pinned_bytes", (uint64_t)1 << 56, 0, &d->pinned));
    for (int i = 0; i < SW_ARENA_USES; i++)
        SW_TRY(take_arena(p, value_at(o, "arenas"), names[i], d->total, &d->committed[i],
                          &d->promised[i]));
    d->ended = strcmp(at, "end") == 0;
    return SW_OK;
}

/* The latest of a card counts; what is more than there is room for is passed over. */
sw_status report_take_device(report_host *h, const report_place *p)
{
    report_device d = {0};
    size_t i = 0;
    SW_TRY(fill(p, &d));
    while (i < h->n_devices && strcmp(h->device[i].name, d.name) != 0)
        i++;
    if (i == REPORT_DEVICES)
        return SW_OK;
    h->device[i] = d;
    h->n_devices += i == h->n_devices;
    return SW_OK;
}
