/* A request that was denied: what was wanted, what there was, who holds it, and what would fit.
 * It stands in front of the report: without it there is nothing else to know. */
#include "profiler/record/utf8.h"
#include "tools/report/report_host.h"
#include "tools/report/report_table.h"
#include "tools/report/report_members.h"
#include "tools/report/report_parts.h"
#include <inttypes.h>
#include <string.h>

/* ---- text -------------------------------------------------------------------------------- */

typedef struct {
    report_share role[SW_DENIED_SHARES / 4], layer[SW_DENIED_SHARES];
    report_shares roles, layers;
} held;

static report_shares shares_of(report_share *to, const sw_denied_share *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (report_share){from[i].name, from[i].bytes};
    return (report_shares){to, n};
}

static void find_held(held *h, const report_denied *d)
{
    h->roles = shares_of(h->role, d->role, d->n_roles);
    h->layers = shares_of(h->layer, d->layer, d->n_layers);
}

static void print_held(const report_denied *d, const report_style *style)
{
    if (d->live == 0)
        return;
    held h;
    find_held(&h, d);
    cli_say(2, 4, "%s %s:", table_bytes(d->live, style).text,
            d->step > 0 ? "were held" : "would be live at the peak");
    report_print_shares(h.roles, h.layers, d->live, style);
    printf("  %-33s %-15s %12s\n", "largest", "role", "bytes");
    for (size_t i = 0; i < d->n_holders; i++) {
        printf("  ");
        const int left = cli_fitted(stdout, d->holder[i].name, strlen(d->holder[i].name), 33);
        printf("%*s %-15s %12s\n", left, "", d->role_of[i],
               table_bytes(d->holder[i].bytes, style).text);
    }
}

/* What must shrink, or what would fit. */
static void print_way_out(const report_denied *d, const report_style *style)
{
    const uint64_t there = d->limit;
    if (d->needed > 0) {
        cli_say(2, 4, "the least that would do: %s (model %s, arena %s, data %s%s%s)",
                table_bytes(d->needed, style).text, table_bytes(d->model, style).text,
                table_bytes(d->arena, style).text, table_bytes(d->data, style).text,
                d->others > 0 ? ", others " : "",
                d->others > 0 ? table_bytes(d->others, style).text : "");
        if (there > 0 && d->needed > there)
            cli_say(2, 4,
                    "%s too many: a smaller batch shrinks arena and data, a smaller "
                    "network the model",
                    table_bytes(d->needed - there, style).text);
    }
    if (d->fits_batch > 0)
        cli_say(2, 4,
                "batch %" PRId64 " is the largest that fits with nothing run again: it "
                "needs %s",
                d->fits_batch, table_bytes(d->fits_bytes, style).text);
    else if (d->fits_batch == 0)
        cli_say(2, 4, "no batch fits");
}

void report_print_denied(const report *r, const report_style *style)
{
    const report_denied *d = r->host != NULL ? r->host->denied : NULL;
    if (d == NULL)
        return;
    const bool bold = cli_colour(stdout);
    printf("%sIt did not fit%s\n", bold ? "\033[1m" : "", bold ? "\033[0m" : "");
    char when[64] = "while planning", batch[32] = "";
    if (d->step > 0)
        snprintf(when, sizeof when, "in step %" PRIu64, d->step);
    if (d->batch >= 0)
        snprintf(batch, sizeof batch, ", batch %" PRId64, d->batch);
    cli_say(2, 4, "%s (%s%s): %s", when, d->run, batch, d->message);
    if (d->request > 0)
        cli_say(2, 4, "%s requested for %s%s%s%s%s", table_bytes(d->request, style).text,
                d->label[0] != '\0' ? d->label : "it", d->op[0] != '\0' ? ", at " : "", d->op,
                d->phase[0] != '\0' ? " in " : "", d->phase);
    if (d->limit > 0)
        cli_say(2, 4, "%s %s: %s%s%s", d->limited_by[0] == 'm' ? "this" : "the", d->limited_by,
                table_bytes(d->limit, style).text, d->used > 0 ? ", taken before: " : "",
                d->used > 0 ? table_bytes(d->used, style).text : "");
    print_way_out(d, style);
    print_held(d, style);
    if (d->n > 1)
        cli_say(2, 4, "%s requests were denied; this is the last", cli_digits(d->n).text);
    putchar('\n');
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_figures(sw_json *j, const report_denied *d)
{
    sw_json_put_u64(j, "times", d->n);
    sw_json_put_u64(j, "step", d->step);
    report_put_text(j, "run", d->run);
    report_put_batch(j, d->batch);
    report_put_text(j, "limited_by", d->limited_by);
    report_put_text(j, "message", d->message);
    report_put_text(j, "label", d->label);
    report_put_text(j, "op", d->op);
    report_put_text(j, "phase", d->phase);
    sw_json_put_known(j, "request_bytes", d->request > 0, d->request);
    sw_json_put_known(j, "limit_bytes", d->limit > 0, d->limit);
    sw_json_put_u64(j, "used_bytes", d->used);
    sw_json_put_known(j, "needed_bytes", d->needed > 0, d->needed);
    sw_json_put_known(j, "model_bytes", d->model > 0, d->model);
    sw_json_put_known(j, "arena_bytes", d->arena > 0, d->arena);
    sw_json_put_known(j, "data_bytes", d->data > 0, d->data);
    sw_json_put_u64(j, "others_bytes", d->others);
    sw_json_put_known(j, "largest_batch", d->fits_batch >= 0, (uint64_t)d->fits_batch);
    sw_json_put_known(j, "largest_batch_bytes", d->fits_bytes > 0, d->fits_bytes);
    sw_json_put_u64(j, "live_bytes", d->live);
}

void report_put_denied(sw_json *j, const report *r)
{
    const report_denied *d = r->host != NULL ? r->host->denied : NULL;
    if (d == NULL) {
        sw_json_put_null(j, "denied");
        return;
    }
    sw_json_open(j, "denied", '{');
    put_figures(j, d);
    held h;
    find_held(&h, d);
    report_put_shares(j, "by_role", h.roles);
    report_put_shares(j, "by_layer", h.layers);
    sw_json_open(j, "holders", '[');
    for (size_t i = 0; i < d->n_holders; i++) {
        sw_json_begin(j, '{');
        sw_json_put_string(j, "name", d->holder[i].name);
        report_put_text(j, "role", d->role_of[i]);
        report_put_text(j, "layer", d->holder[i].layer);
        sw_json_put_u64(j, "bytes", d->holder[i].bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_end(j);
}

/* ---- reading ----------------------------------------------------------------------------- */

/* Largest first; what has no name is called `none`. */
static sw_status take_shares(const report_place *p, const char *key, const char *none,
                             sw_denied_share *to, size_t room, size_t *n)
{
    const value o = value_at(p->record, key);
    *n = 0;
    if (!value_is_dict(o) || value_count(o) > room)
        return report_wrong(p, key, "an object of bytes");
    for (uint64_t i = 0; i < value_count(o); i++) {
        const char *name = value_key(o, i);
        uint64_t bytes;
        if (!value_whole(value_member(o, i), &bytes))
            return report_wrong(p, key, "an object of bytes");
        size_t k = *n;
        for (; k > 0 && to[k - 1].bytes < bytes; k--)
            to[k] = to[k - 1];
        sw_utf8_clean(to[k].name, sizeof to[k].name, *name != '\0' ? name : none);
        to[k].bytes = (size_t)bytes;
        ++*n;
    }
    return SW_OK;
}

static sw_status take_holders(const report_place *p, report_denied *d)
{
    const value all = value_at(p->record, "holders");
    if (!value_is_list(all) || value_count(all) > SW_DENIED_HOLDERS)
        return report_wrong(p, "holders", "a list of holders");
    for (d->n_holders = 0; d->n_holders < value_count(all); d->n_holders++) {
        const value o = value_item(all, d->n_holders);
        sw_denied_holder *h = &d->holder[d->n_holders];
        uint64_t bytes;
        if (!value_is_dict(o))
            return report_wrong(p, "holders", "a list of holders");
        SW_TRY(report_get_text(p, o, "name", h->name, sizeof h->name));
        SW_TRY(report_get_text(p, o, "layer", h->layer, sizeof h->layer));
        SW_TRY(report_get_text(p, o, "role", d->role_of[d->n_holders],
                               sizeof d->role_of[d->n_holders]));
        SW_TRY(report_need_u64(p, o, "bytes", &bytes));
        h->bytes = (size_t)bytes;
    }
    return SW_OK;
}

static sw_status take_request(const report_place *p, report_denied *d)
{
    const value o = p->record;
    SW_TRY(report_get_text(p, o, "run", d->run, sizeof d->run));
    SW_TRY(report_get_text(p, o, "limited_by", d->limited_by, sizeof d->limited_by));
    SW_TRY(report_get_text(p, o, "message", d->message, sizeof d->message));
    SW_TRY(report_get_text(p, o, "label", d->label, sizeof d->label));
    SW_TRY(report_get_text(p, o, "op", d->op, sizeof d->op));
    SW_TRY(report_get_text(p, o, "phase", d->phase, sizeof d->phase));
    SW_TRY(report_get_batch(p, &d->batch));
    SW_TRY(report_need_u64(p, o, "step", &d->step));
    SW_TRY(report_get_u64(p, o, "request_bytes", 0, &d->request));
    SW_TRY(report_get_u64(p, o, "limit_bytes", 0, &d->limit));
    SW_TRY(report_get_u64(p, o, "used_bytes", 0, &d->used));
    SW_TRY(report_get_u64(p, o, "needed_bytes", 0, &d->needed));
    SW_TRY(report_get_u64(p, o, "model_bytes", 0, &d->model));
    SW_TRY(report_get_u64(p, o, "arena_bytes", 0, &d->arena));
    SW_TRY(report_get_u64(p, o, "data_bytes", 0, &d->data));
    SW_TRY(report_get_u64(p, o, "others_bytes", 0, &d->others));
    return report_get_u64(p, o, "live_bytes", 0, &d->live);
}

/* Into what is there already: `fits` belongs to the denied record in front of it. */
sw_status report_take_denied(report_host *h, const report_place *p)
{
    void *block = h->denied;
    const bool fits = strcmp(value_text(value_at(p->record, "type")), "fits") == 0;
    if (fits && h->denied == NULL)
        return report_wrong(p, "type", "a record behind a denied one");
    if (fits) {
        SW_TRY(report_get_batch(p, &h->denied->fits_batch));
        return report_get_u64(p, p->record, "needed_bytes", 0, &h->denied->fits_bytes);
    }
    if (block == NULL)
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, sizeof *h->denied));
    report_denied *d = h->denied = block;
    const uint64_t n = d->n + 1;
    *d = (report_denied){.n = n, .fits_batch = -1};
    SW_TRY(take_request(p, d));
    SW_TRY(take_shares(p, "by_role", "(no role)", d->role, sizeof d->role / sizeof *d->role,
                       &d->n_roles));
    SW_TRY(
        take_shares(p, "by_layer", REPORT_NO_LAYER, d->layer, SW_DENIED_SHARES, &d->n_layers));
    return take_holders(p, d);
}
