/* Records of the host's memory into a report, and the sections that are short. */
#include "tools/report/report_host.h"
#include "tools/report/report_table.h"
#include "tools/report/report_members.h"
#include <stdlib.h>
#include <string.h>

/* ---- for sections ------------------------------------------------------------------------ */

void report_headline(const char *text)
{
    const bool bold = cli_colour(stdout);
    printf("\n%s%s%s\n", bold ? "\033[1m" : "", text, bold ? "\033[0m" : "");
}

void report_free_host(report_host *h)
{
    if (h == NULL)
        return;
    sw_heap_free(h->lines, SW_HEAP_PROFILE, h->cap_lines * sizeof *h->lines);
    sw_heap_free(h->shapes, SW_HEAP_PROFILE, h->cap_shapes * sizeof *h->shapes);
    sw_heap_free(h->denied, SW_HEAP_PROFILE, sizeof *h->denied);
    sw_heap_free(h, SW_HEAP_PROFILE, sizeof *h);
}

static void print_heap(const report *r, const report_style *style)
{
    const report_host *h = r->host;
    if (h == NULL || h->n_purposes == 0)
        return;
    char title[80];
    snprintf(title, sizeof title, "Host heap at the end, %s", h->backend);
    report_headline(title);
    printf("  %-9s%13s%14s%14s%14s%14s\n", "", "asked for", "allocated", "active", "resident",
           "mapped");
    for (size_t i = 0; i < h->n_purposes; i++) {
        const report_purpose *p = &h->purpose[i];
        const bool rest = i + 1 == h->n_purposes;
        printf("  %-9s%13s", p->name, rest ? "-" : table_bytes(p->bytes, style).text);
        const uint64_t figures[] = {p->allocated, p->active, p->resident, p->mapped};
        for (int k = 0; k < 4; k++) /* 0: the backend cannot tell */
            printf("%14s", p->mapped == 0 && figures[k] == 0
                               ? "-"
                               : table_bytes(figures[k], style).text);
        putchar('\n');
    }
    cli_say(2, 4,
            "others: malloc of the program and of libraries; %s more were mapped, given "
            "back, and are kept for later",
            table_bytes(h->kept, style).text);
}

void report_print_host(const report *r, const report_style *style)
{
    report_print_growth(r, style);
    report_print_waterfall(r, style);
    print_heap(r, style);
    report_print_devices(r);
}

static void put_heap(sw_json *j, const report *r)
{
    const report_host *h = r->host;
    if (h == NULL || h->n_purposes == 0) {
        sw_json_put_null(j, "heap");
        return;
    }
    sw_json_open(j, "heap", '{');
    sw_json_put_string(j, "backend", h->backend);
    sw_json_open(j, "purposes", '[');
    for (size_t i = 0; i < h->n_purposes; i++) {
        const report_purpose *p = &h->purpose[i];
        sw_json_begin(j, '{');
        sw_json_put_string(j, "name", p->name);
        sw_json_put_u64(j, "bytes", p->bytes);
        sw_json_put_u64(j, "peak_bytes", p->peak);
        sw_json_put_u64(j, "blocks", p->blocks);
        sw_json_put_u64(j, "allocated_bytes", p->allocated);
        sw_json_put_u64(j, "active_bytes", p->active);
        sw_json_put_u64(j, "resident_bytes", p->resident);
        sw_json_put_u64(j, "mapped_bytes", p->mapped);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_put_u64(j, "kept_bytes", h->kept);
    sw_json_end(j);
}

void report_put_host(sw_json *j, const report *r)
{
    report_put_denied(j, r);
    report_put_growth(j, r);
    report_put_waterfall(j, r);
    put_heap(j, r);
    report_put_devices(j, r);
}

/* ---- reading ----------------------------------------------------------------------------- */

static sw_status take_purpose(report_host *h, const report_place *p, value o, const char *name)
{
    report_purpose *x = &h->purpose[h->n_purposes];
    SW_TRY(report_get_text(p, o, "name", x->name, sizeof x->name));
    if (name != NULL)
        snprintf(x->name, sizeof x->name, "%s", name);
    SW_TRY(report_get_u64(p, o, "bytes", 0, &x->bytes));
    SW_TRY(report_get_u64(p, o, "peak_bytes", 0, &x->peak));
    SW_TRY(report_get_u64(p, o, "blocks", 0, &x->blocks));
    SW_TRY(report_get_u64(p, o, "allocated_bytes", 0, &x->allocated));
    SW_TRY(report_get_u64(p, o, "active_bytes", 0, &x->active));
    SW_TRY(report_get_u64(p, o, "resident_bytes", 0, &x->resident));
    SW_TRY(report_get_u64(p, o, "mapped_bytes", 0, &x->mapped));
    h->n_purposes++;
    return SW_OK;
}

static sw_status take_heap(report_host *h, const report_place *p)
{
    const value purposes = value_at(p->record, "purposes"),
                other = value_at(p->record, "other");
    if (!value_is_list(purposes) || value_count(purposes) > SW_HEAP_KINDS)
        return report_wrong(p, "purposes", "a list of purposes");
    if (!value_is_dict(other))
        return report_wrong(p, "other", "an object");
    SW_TRY(report_get_text(p, p->record, "backend", h->backend, sizeof h->backend));
    SW_TRY(report_get_u64(p, p->record, "kept_bytes", 0, &h->kept));
    h->n_purposes = 0;
    for (size_t i = 0; i < value_count(purposes); i++)
        SW_TRY(take_purpose(h, p, value_item(purposes, i), NULL));
    return take_purpose(h, p, other, "others");
}

static sw_status take_shape(report_host *h, const report_place *p)
{
    uint64_t program, exec;
    report_shape x;
    if (value_at(p->record, "lanes_bytes") == 0)
        return SW_OK; /* by an earlier version */
    SW_TRY(report_need_u64(p, p->record, "program", &program));
    SW_TRY(report_get_u64(p, p->record, "exec", 0, &exec));
    SW_TRY(report_need_u64(p, p->record, "model_bytes", &x.model));
    SW_TRY(report_get_u64(p, p->record, "model_padding_bytes", 0, &x.model_padding));
    SW_TRY(report_need_u64(p, p->record, "data_bytes", &x.data));
    SW_TRY(report_get_u64(p, p->record, "slot_bytes", 0, &x.slot));
    SW_TRY(report_need_u64(p, p->record, "arena_bytes", &x.arena));
    SW_TRY(report_need_u64(p, p->record, "peak_bytes", &x.peak));
    SW_TRY(report_get_u64(p, p->record, "padding_bytes", 0, &x.padding));
    SW_TRY(report_need_u64(p, p->record, "lanes_bytes", &x.lanes));
    x.key = exec << 32 | (program & UINT32_MAX);
    const uint64_t live = x.peak - x.model - x.slot;
    if (x.peak < x.model || x.peak - x.model < x.slot || live > x.arena || x.padding > live ||
        x.lanes > live - x.padding || x.model_padding > x.model)
        return report_wrong(p, "peak_bytes", "what its parts add up to");
    void *block = h->shapes;
    SW_TRY(sw_heap_room(&block, SW_HEAP_PROFILE, &h->cap_shapes, h->n_shapes + 1, sizeof x));
    h->shapes = block;
    h->shapes[h->n_shapes++] = x;
    return SW_OK;
}

sw_status report_take_host(report *r, const report_place *p)
{
    const char *type = value_text(value_at(p->record, "type"));
    if (r->host == NULL) {
        void *block;
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, sizeof *r->host));
        r->host = block;
    }
    if (strcmp(type, "step") == 0)
        return report_take_growth(r->host, p);
    if (strcmp(type, "plan") == 0)
        return take_shape(r->host, p);
    if (strcmp(type, "heap") == 0)
        return take_heap(r->host, p);
    if (strcmp(type, "denied") == 0 || strcmp(type, "fits") == 0)
        return report_take_denied(r->host, p);
    if (strcmp(type, "device") == 0)
        return report_take_device(r->host, p);
    return SW_OK;
}
