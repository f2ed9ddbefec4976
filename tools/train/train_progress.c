/* The part of `stepwell train` in its checkpoints: the options that decide the numbers, which a
 * run that goes on must have too, and how far the loop is. JSON; numbers that must come back to
 * the bit, and may be no numbers, are written as the digits of their bits. */
#include "profiler/record/json_read.h"
#include "tools/job/optimizer.h"
#include "tools/train/train.h"
#include "alloc/base/assert.h"
#include <stdarg.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the options that decide ------------------------------------------------------------- */

static void add(train_identity *to, const char *name, const char *format, ...) SW_PRINTF(3, 4);
static void add(train_identity *to, const char *name, const char *format, ...)
{
    va_list list;
    train_choice *at = &to->at[to->n++];
    SW_ASSERT(to->n <= TRAIN_CHOICES);
    at->name = name;
    va_start(list, format);
    vsnprintf(at->text, sizeof at->text, format, list);
    va_end(list);
}

/* As many digits as it takes to read the number back. */
static void add_real(train_identity *to, const char *name, double x)
{
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    add(to, name, "%s", text);
}

static void add_data(train_identity *to, const train *t)
{
    const job_opts *o = &t->opts.job;
    add(to, "--data", "%s", o->data);
    add(to, "--normalise", "%s", t->job.normal.text);
    if (o->augment != NULL)
        add(to, "--augment", "%s", o->augment);
    add(to, "--batch", "%" PRId64, t->job.batch);
    add(to, "--accumulate", "%" PRId64, o->accumulate);
    add(to, "--seed", "%" PRId64, o->seed);
}

static void add_optimizer(train_identity *to, const job_opts *o)
{
    add(to, "--optimizer", "%s", o->optimizer);
    add_real(to, "--lr", o->lr);
    add_real(to, "--momentum", o->momentum);
    add_real(to, "--weight-decay", o->weight_decay);
    add_real(to, "--clip", o->clip);
    add(to, "--max-skipped", "%" PRId64, o->max_skipped);
    add(to, "--update", "%s", o->update);
    add(to, "--keep-gradients", "%s", o->keep_gradients ? "yes" : "no");
    add(to, "--tf32", "%s", o->exec.tf32 ? "yes" : "no");
}

/* A schedule that does not end anywhere does not ask how many steps there are. */
static void add_schedule(train_identity *to, const train *t)
{
    const job_opts *o = &t->opts.job;
    const unsigned takes = tool_schedule_takes(o->schedule);
    add(to, "--schedule", "%s", o->schedule);
    add(to, "--warmup", "%" PRId64, o->warmup);
    if ((takes & TOOL_LR_CUTS) != 0) {
        add(to, "--lr-every", "%" PRIu64, t->lr_every);
        add_real(to, "--lr-gamma", o->lr_gamma);
    }
    if ((takes & TOOL_LR_FLOOR) != 0)
        add_real(to, "--lr-floor", o->lr_floor);
    if ((takes & TOOL_LR_TOTAL) != 0)
        add(to, TRAIN_TOTAL, "%" PRIu64, t->total_steps);
}

void train_identify(const train *t, train_identity *to)
{
    const job_opts *o = &t->opts.job;
    to->n = 0;
    add(to, "--model", "%s", o->model);
    for (int i = 0; i < TOOL_SETTINGS; i++) {
        char text[sizeof to->at[0].text];
        const char *name = tool_settings_say(&o->settings, i, text, sizeof text);
        if (name != NULL && o->kind->takes[i] != NULL)
            add(to, name, "%s", text);
    }
    add_data(to, t);
    add_optimizer(to, o);
    add_schedule(to, t);
    add(to, "--validate-every", "%" PRId64, t->opts.validate_every);
    add(to, "--patience", "%" PRId64, t->opts.patience);
    add_real(to, "--min-delta", t->opts.min_delta);
}

/* ---- writing ----------------------------------------------------------------------------- */

static void put_bits(sw_json *json, const char *key, double x)
{
    char digits[20];
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    snprintf(digits, sizeof digits, "%016" PRIx64, bits);
    sw_json_put_string(json, key, digits);
}

static void put_score(sw_json *json, const char *key, const train_score *s)
{
    sw_json_open(json, key, '{');
    put_bits(json, "loss", s->loss);
    sw_json_put_i64(json, "right", s->right);
    sw_json_put_i64(json, "rows", s->rows);
    sw_json_end(json);
}

void train_progress_put(sw_json *json, const train_identity *identity, const train_progress *p)
{
    sw_json_begin(json, '{');
    sw_json_open(json, "options", '{');
    for (int i = 0; i < identity->n; i++)
        sw_json_put_string(json, identity->at[i].name, identity->at[i].text);
    sw_json_end(json);
    sw_json_open(json, "progress", '{');
#define TRAIN_U64(field) sw_json_put_u64(json, #field, p->field);
#define TRAIN_I64(field) sw_json_put_i64(json, #field, p->field);
#define TRAIN_BOOL(field) sw_json_put_bool(json, #field, p->field);
#define TRAIN_F64(field) put_bits(json, #field, p->field);
#define TRAIN_SCORE(field) put_score(json, #field, &p->field);
#include "tools/train/train_progress.def"
    sw_json_end(json);
    sw_json_end(json);
}

/* ---- reading ----------------------------------------------------------------------------- */

typedef struct {
    sw_json_in json;
    const char *path;
    const train_identity *identity;
    unsigned char seen[TRAIN_CHOICES];
    train_progress *p;
    train_score *score;
    uint32_t n_members;
} reader;

static sw_status total_differs(const reader *r, const char *there, const char *here)
{
    SW_FAIL(SW_INVALID,
            "%s: the run that saved it had %s steps in all and this one has %s, and its "
            "--schedule goes by them: give the same --epochs and --steps; or begin a new run "
            "with its parameters: --load-params %s",
            r->path, there, here, r->path);
}

static sw_status option_member(sw_json_in *in, const char *key, void *context)
{
    reader *r = context;
    char there[sizeof r->identity->at[0].text];
    SW_TRY(sw_json_get_text(in, there, sizeof there));
    for (int i = 0; i < r->identity->n; i++) {
        const train_choice *here = &r->identity->at[i];
        if (strcmp(here->name, key) != 0)
            continue;
        r->seen[i] = 1;
        if (strcmp(here->text, there) == 0)
            return SW_OK;
        if (strcmp(key, TRAIN_TOTAL) == 0)
            return total_differs(r, there, here->text);
        SW_FAIL(SW_INVALID,
                "%s: %s was '%s' in the run that saved it and is '%s' now: a run goes on with "
                "the same; or begin a new run with its parameters: --load-params %s",
                r->path, key, there, here->text, r->path);
    }
    SW_FAIL(SW_INVALID, "%s: %s was '%s' in the run that saved it, and has no part in this one",
            r->path, key, there);
}

static sw_status read_bits(sw_json_in *in, double *to)
{
    char digits[32], *end;
    SW_TRY(sw_json_get_text(in, digits, sizeof digits));
    const uint64_t bits = strtoull(digits, &end, 16);
    if (*end != '\0' || end == digits)
        return sw_json_bad(in, "a number must be 16 hexadecimal digits");
    memcpy(to, &bits, sizeof bits);
    return SW_OK;
}

static sw_status score_member(sw_json_in *in, const char *key, void *context)
{
    reader *r = context;
    uint64_t n = 0;
    if (strcmp(key, "loss") == 0)
        return read_bits(in, &r->score->loss);
    SW_TRY(sw_json_get_count(in, &n));
    if (strcmp(key, "right") == 0)
        r->score->right = (int64_t)n;
    else
        r->score->rows = (int64_t)n;
    return SW_OK;
}

static sw_status progress_member(sw_json_in *in, const char *key, void *context)
{
    reader *r = context;
    train_progress *p = r->p;
    uint64_t n = 0;
    sw_json_word word;
    r->n_members++;
#define TRAIN_U64(field)                                                                       \
    if (strcmp(key, #field) == 0) {                                                            \
        SW_TRY(sw_json_get_count(in, &n));                                                     \
        p->field = n;                                                                          \
        return SW_OK;                                                                          \
    }
#define TRAIN_I64(field)                                                                       \
    if (strcmp(key, #field) == 0) {                                                            \
        SW_TRY(sw_json_get_count(in, &n));                                                     \
        p->field = (int64_t)n;                                                                 \
        return SW_OK;                                                                          \
    }
#define TRAIN_BOOL(field)                                                                      \
    if (strcmp(key, #field) == 0) {                                                            \
        SW_TRY(sw_json_get_word(in, &word));                                                   \
        p->field = word == SW_JSON_TRUE;                                                       \
        return SW_OK;                                                                          \
    }
#define TRAIN_F64(field)                                                                       \
    if (strcmp(key, #field) == 0)                                                              \
        return read_bits(in, &p->field);
#define TRAIN_SCORE(field)                                                                     \
    if (strcmp(key, #field) == 0) {                                                            \
        r->score = &p->field;                                                                  \
        return sw_json_get_object(in, score_member, r);                                        \
    }
#include "tools/train/train_progress.def"
    return sw_json_bad(in, "an unknown member");
}

static sw_status top_member(sw_json_in *in, const char *key, void *context)
{
    reader *r = context;
    if (strcmp(key, "options") == 0)
        return sw_json_get_object(in, option_member, r);
    if (strcmp(key, "progress") == 0)
        return sw_json_get_object(in, progress_member, r);
    return sw_json_bad(in, "an unknown member");
}

sw_status train_progress_read(const char *text, size_t bytes, const char *path,
                              const train_identity *identity, train_progress *out)
{
    reader r = {.json = sw_json_in_text(text, bytes, path),
                .path = path,
                .identity = identity,
                .p = out};
    r.json.of = " of what train put into it";
    SW_TRY(sw_json_get_object(&r.json, top_member, &r));
    for (int i = 0; i < identity->n; i++)
        if (!r.seen[i])
            SW_FAIL(SW_INVALID,
                    "%s: %s is '%s' now, and the run that saved it had no such option", path,
                    identity->at[i].name, identity->at[i].text);
    return r.n_members == TRAIN_PROGRESS_MEMBERS ||
                   r.n_members == TRAIN_PROGRESS_MEMBERS - TRAIN_PROGRESS_LATER
               ? SW_OK
               : sw_error_set(SW_FORMAT, __FILE__, __LINE__,
                              "%s: what train put into it has %u members (%d are needed)", path,
                              r.n_members, TRAIN_PROGRESS_MEMBERS);
}
