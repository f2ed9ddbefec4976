/* Records of zeroth-order training: a head of 256 bytes, one f32 for each step, a sum of all
 * that. Numbers are little-endian.
 *
 *     0 "swzo 1\0\0"    8 kind[8]        16 eps  20 lr  24 weight_decay (f32)  28 rank (u32)
 *    32 window (u32)   36 0             40 seed          48 steps      56 losses not finite
 *    64 sum of the parameters before    72 and after
 *    80 schedule[16]   96 base 100 gamma 104 floor (f32) 108 0
 *   112 warmup_steps  120 total_steps  128 every        136 to 255: 0 */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "runtime/population/es/zo_internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define HEAD 256
#define SUM 8
#define NUMBER 4 /* bytes of a slope in the file */
static const char magic[8] = "swzo 1";

/* ---- numbers ----------------------------------------------------------------------------- */

static void put(unsigned char *to, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(x >> 8 * i);
}

static void put_f32(unsigned char *to, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    put(to, bits, 4);
}

static uint64_t get(const unsigned char *from, int bytes)
{
    uint64_t x = 0;
    for (int i = bytes - 1; i >= 0; i--)
        x = x << 8 | from[i];
    return x;
}

static float get_f32(const unsigned char *from)
{
    const uint32_t bits = (uint32_t)get(from, 4);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- the head ---------------------------------------------------------------------------- */

static void write_head(unsigned char *to, const swi_zo_record *r)
{
    const swi_zo_rule *rule = &r->rule;
    const sw_schedule *s = &rule->schedule;
    memset(to, 0, HEAD);
    memcpy(to, magic, sizeof magic);
    memcpy(to + 8, rule->rank > 0 ? "lozo" : "mezo", 4);
    put_f32(to + 16, rule->eps);
    put_f32(to + 20, rule->lr);
    put_f32(to + 24, rule->weight_decay);
    put(to + 28, (uint64_t)rule->rank, 4);
    put(to + 32, rule->window, 4);
    put(to + 40, rule->seed, 8);
    put(to + 48, r->steps, 8);
    put(to + 56, r->not_finite, 8);
    put(to + 64, r->before, 8);
    put(to + 72, r->behind, 8);
    if (s->kind == NULL)
        return;
    memcpy(to + 80, s->kind, strlen(s->kind));
    put_f32(to + 96, s->base);
    put_f32(to + 100, s->gamma);
    put_f32(to + 104, s->floor);
    put(to + 112, s->warmup_steps, 8);
    put(to + 120, s->total_steps, 8);
    put(to + 128, s->every, 8);
}

static void read_head(swi_zo_record *to, const unsigned char *from)
{
    swi_zo_rule *rule = &to->rule;
    rule->eps = get_f32(from + 16);
    rule->lr = get_f32(from + 20);
    rule->weight_decay = get_f32(from + 24);
    rule->rank = (int32_t)get(from + 28, 4);
    rule->window = (uint32_t)get(from + 32, 4);
    rule->seed = get(from + 40, 8);
    to->steps = get(from + 48, 8);
    to->not_finite = get(from + 56, 8);
    to->before = get(from + 64, 8);
    to->behind = get(from + 72, 8);
    rule->schedule.size = sizeof rule->schedule;
    rule->schedule.base = get_f32(from + 96);
    rule->schedule.gamma = get_f32(from + 100);
    rule->schedule.floor = get_f32(from + 104);
    rule->schedule.warmup_steps = get(from + 112, 8);
    rule->schedule.total_steps = get(from + 120, 8);
    rule->schedule.every = get(from + 128, 8);
    for (size_t i = 0; sw_schedule_kind(i) != NULL; i++)
        if (strncmp((const char *)from + 80, sw_schedule_kind(i), 16) == 0)
            rule->schedule.kind = sw_schedule_kind(i);
}

/* Is the head what write_head makes of what was read, so that no byte of it is ignored? Then
 * its numbers must be those of a trainer. */
static sw_status check_head(const swi_zo_record *r, const unsigned char *head, const char *path)
{
    unsigned char again[HEAD];
    write_head(again, r);
    const bool kinds = (r->rule.rank > 0) == (r->rule.window > 0) && r->rule.rank >= 0;
    if (memcmp(again, head, HEAD) != 0 || !kinds || r->not_finite > r->steps)
        SW_FAIL(SW_FORMAT, "%s: its head has options that no record has", path);
    if (swi_zo_check(&r->rule, "an option") == SW_OK)
        return SW_OK;
    char text[300];
    snprintf(text, sizeof text, "%s", sw_last_error());
    SW_FAIL(SW_FORMAT, "%s: its head has options that no record has: %s", path, text);
}

/* ---- writing ----------------------------------------------------------------------------- */

static sw_status write_all(void *context, sw_file *file)
{
    const swi_zo_record *r = context;
    unsigned char block[4096];
    swi_zo_sum sum;
    swi_zo_sum_begin(&sum);
    write_head(block, r);
    swi_zo_sum_add(&sum, block, HEAD);
    SW_TRY(sw_file_write(file, block, HEAD));
    for (uint64_t i = 0; i < r->steps;) {
        size_t n = 0;
        for (; i < r->steps && n < sizeof block; i++, n += NUMBER)
            put_f32(block + n, r->slopes[i]);
        swi_zo_sum_add(&sum, block, n);
        SW_TRY(sw_file_write(file, block, n));
    }
    put(block, swi_zo_sum_end(&sum), SUM);
    return sw_file_write(file, block, SUM);
}

static sw_status check_save(const sw_zo *zo)
{
    static const char call[] = "sw_zo_save";
    if (zo->room == 0)
        SW_FAIL(SW_INVALID, "%s: the trainer was made without a record: set max_steps", call);
    if (!sw_handle_is(zo->model, SW_HANDLE_MODEL, zo->model_generation))
        SW_FAIL(SW_INVALID, "%s: the trainer's model was destroyed", call);
    if (zo->cut)
        SW_FAIL(SW_INVALID,
                "%s: a step failed after step %llu, so the model is no longer what these "
                "steps make",
                call, (unsigned long long)zo->steps);
    return SW_OK;
}

static sw_status sum_ready(const sw_model *model, uint64_t *out, const char *call)
{
    if (model->damaged)
        SW_FAIL(SW_STALE, "%s: model %s is damaged: restore it first", call, model->name);
    if (!model->ready)
        SW_FAIL(SW_INVALID, "%s: model %s must be ready", call, model->name);
    return swi_zo_sum_model(model, out);
}

sw_status sw_zo_save(const sw_zo *zo, const char *path)
{
    SW_TRY(sw_handle_check(zo, SW_HANDLE_ZO, "sw_zo_save"));
    if (path == NULL)
        SW_FAIL(SW_INVALID, "sw_zo_save: path must not be NULL");
    SW_TRY(check_save(zo));
    swi_zo_record r = {.rule = zo->rule,
                       .steps = zo->steps,
                       .not_finite = zo->not_finite,
                       .before = zo->before,
                       .slopes = zo->slopes};
    SW_TRY(swi_model_take(zo->model));
    const sw_status status = sum_ready(zo->model, &r.behind, "sw_zo_save");
    swi_model_give(zo->model);
    SW_TRY(status);
    if (zo->steps == 0)
        r.before = r.behind;
    return sw_file_replace(path, write_all, &r);
}

/* ---- reading ----------------------------------------------------------------------------- */

static sw_status get_bytes(sw_file *file, void *to, size_t bytes)
{
    size_t got;
    SW_TRY(sw_file_read(file, to, bytes, &got));
    if (got < bytes)
        SW_FAIL(SW_FORMAT, "%s: it became shorter while it was read", sw_file_path(file));
    return SW_OK;
}

/* The steps, by the size: before memory is taken for them. */
static sw_status check_size(sw_file *file, uint64_t bytes, swi_zo_record *r)
{
    unsigned char head[HEAD];
    const char *path = sw_file_path(file);
    if (bytes < HEAD + SUM)
        SW_FAIL(SW_FORMAT, "%s: it has %llu bytes, and a record has at least %d", path,
                (unsigned long long)bytes, HEAD + SUM);
    SW_TRY(get_bytes(file, head, sizeof head));
    if (memcmp(head, magic, sizeof magic) != 0)
        SW_FAIL(SW_FORMAT, "%s: it is no record of zeroth-order training", path);
    read_head(r, head);
    if (r->steps > SWI_ZO_STEPS_MAX || bytes != HEAD + SUM + r->steps * NUMBER)
        SW_FAIL(SW_FORMAT, "%s: it has %llu bytes, and should have %llu for %llu steps", path,
                (unsigned long long)bytes, (unsigned long long)(HEAD + SUM + r->steps * NUMBER),
                (unsigned long long)r->steps);
    return sw_file_seek(file, 0);
}

static sw_status read_slopes(swi_zo_record *r, const unsigned char *from, const char *path)
{
    for (uint64_t i = 0; i < r->steps; i++) {
        const float c = get_f32(from + i * NUMBER);
        if (!isfinite(c))
            SW_FAIL(SW_FORMAT, "%s: the number of step %llu is not finite", path,
                    (unsigned long long)i);
        r->slopes[i] = c; /* of the bytes there, or of bytes in front */
    }
    return SW_OK;
}

/* Head, numbers and sum of an open file. */
static sw_status read_all(swi_zo_record *r, sw_file *file)
{
    unsigned char head[HEAD], end[SUM];
    const char *path = sw_file_path(file);
    swi_zo_sum sum;
    SW_TRY(get_bytes(file, head, HEAD));
    SW_TRY(get_bytes(file, r->slopes, (size_t)r->steps * NUMBER));
    SW_TRY(get_bytes(file, end, SUM));
    swi_zo_sum_begin(&sum);
    swi_zo_sum_add(&sum, head, HEAD);
    swi_zo_sum_add(&sum, r->slopes, (size_t)r->steps * NUMBER);
    if (get(end, SUM) != swi_zo_sum_end(&sum))
        SW_FAIL(SW_FORMAT, "%s: it is damaged: the sum over it is %016llx, must be %016llx",
                path, (unsigned long long)swi_zo_sum_end(&sum),
                (unsigned long long)get(end, SUM));
    SW_TRY(check_head(r, head, path));
    return read_slopes(r, (const unsigned char *)r->slopes, path);
}

static sw_status read_open(swi_zo_record *r, sw_file *file)
{
    uint64_t bytes;
    void *block;
    if (sw_file_waits(file))
        SW_FAIL(SW_INVALID, "%s: a record must be a regular file", sw_file_path(file));
    SW_TRY(sw_file_size(file, &bytes));
    SW_TRY(check_size(file, bytes, r));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)r->steps * NUMBER));
    r->slopes = block;
    const sw_status status = read_all(r, file);
    if (status != SW_OK)
        swi_zo_record_free(r);
    return status;
}

sw_status swi_zo_record_read(swi_zo_record *out, const char *path)
{
    sw_file *file;
    memset(out, 0, sizeof *out);
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    const sw_status status = read_open(out, file);
    sw_file_drop(file);
    return status;
}

void swi_zo_record_free(swi_zo_record *r)
{
    sw_heap_free(r->slopes, SW_HEAP_RECORDS, (size_t)r->steps * NUMBER);
    r->slopes = NULL;
}
