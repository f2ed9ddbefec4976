/* The options that decide a run's numbers, as lines of an option and its value: a run that goes
 * on must have the same. */
#include "tools/population/population.h"
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

static void add(pop_identity *to, const char *name, const char *format, ...) SW_PRINTF(3, 4);
static void add(pop_identity *to, const char *name, const char *format, ...)
{
    va_list list;
    size_t room = sizeof to->text - to->used;
    const int head = snprintf(to->text + to->used, room, "%s\t", name);
    if (head < 0 || (size_t)head >= room) {
        to->full = true;
        return;
    }
    va_start(list, format);
    const int body = vsnprintf(to->text + to->used + head, room - (size_t)head, format, list);
    va_end(list);
    if (body < 0 || (size_t)(head + body) + 1 >= room) {
        to->full = true;
        return;
    }
    to->used += (size_t)(head + body);
    to->text[to->used++] = '\n';
}

static void add_real(pop_identity *to, const char *name, double x)
{
    add(to, name, "%.17g", x);
}

static sw_status add_data(pop_identity *to, const pop *p)
{
    uint64_t train, test;
    SW_TRY(sw_dataset_hash(p->job.train.set, &train));
    SW_TRY(sw_dataset_hash(p->job.test.set, &test));
    add(to, "--data", "%" PRIx64 " and %" PRIx64 " (hashes of the samples)", train, test);
    add(to, "--normalise", "%s", p->job.normal.text);
    return SW_OK;
}

static void add_job(pop_identity *to, const job_opts *o)
{
    char text[300];
    add(to, "--model", "%s", o->model);
    for (int i = 0; i < TOOL_SETTINGS; i++) {
        const char *name = tool_settings_say(&o->settings, i, text, sizeof text);
        if (name != NULL && o->kind->takes[i] != NULL)
            add(to, name, "%s", text);
    }
    if (o->augment != NULL)
        add(to, "--augment", "%s", o->augment);
    add(to, "--batch", "%" PRId64, o->batch.at[0]);
    add(to, "--seed", "%" PRId64, o->seed);
    add(to, "--optimizer", "%s", o->optimizer);
    add_real(to, "--lr", o->lr);
    add_real(to, "--momentum", o->momentum);
    add_real(to, "--weight-decay", o->weight_decay);
    add_real(to, "--clip", o->clip);
    add(to, "--max-skipped", "%" PRId64, o->max_skipped);
}

/* Of train --members. */
static void add_schedule(pop_identity *to, const pop *p)
{
    const job_opts *o = &p->opts.job;
    add(to, "--schedule", "%s", o->schedule);
    add(to, "--warmup", "%" PRId64, o->warmup);
    add(to, "--lr-every", "%" PRIu64, p->schedule.every);
    add_real(to, "--lr-gamma", o->lr_gamma);
    add_real(to, "--lr-floor", o->lr_floor);
    add(to, "--patience", "%" PRId64, p->patience);
    add_real(to, "--min-delta", p->min_delta);
}

static void add_pbt(pop_identity *to, const pop *p)
{
    const pop_opts *o = &p->opts;
    add(to, "--members", "%" PRId64, o->members);
    add(to, "--interval", "%" PRId64, o->interval);
    add(to, "--burn-in", "%" PRId64, o->burn_in);
    add_real(to, "steps in all (--steps, --epochs)", p->steps_to_do);
    add_real(to, "--stop-score", o->stop_score);
    add(to, "--metric", "%s", p->by_loss ? "loss" : "accuracy");
    add_real(to, "--quantile", o->quantile);
    add_real(to, "--replaced", o->replaced);
    add_real(to, "--donors", o->donors);
    add_real(to, "--resample", o->resample);
    add(to, "--factors", "%.17g,%.17g", o->factor[0], o->factor[1]);
    add(to, "--synch", "%s", o->synch ? "yes" : "no");
    add(to, "--exploit", "%s", o->exploit);
    add(to, "--scheduler", "%s", o->explore);
    add(to, "--too-large", "%s", o->too_large);
    add(to, "--same-data", "%s", o->same_data ? "yes" : "no");
    add(to, "the number of hyper-parameters", "%d", p->n_hypers);
    for (int i = 0; i < p->n_hypers; i++)
        add(to, p->hyper[i].name, "%s", o->hyper[i] + strlen(p->hyper[i].name) + 1);
}

sw_status pop_identify(const pop *p, pop_identity *to)
{
    to->used = 0;
    to->full = false;
    add_job(to, &p->opts.job);
    if (!p->independent) {
        add_real(to, "--validation-share", p->opts.validation_share);
        add(to, "--validation-samples", "%" PRId64, p->validation.n);
    }
    SW_TRY(add_data(to, p));
    add_pbt(to, p);
    if (p->independent)
        add_schedule(to, p);
    if (to->full)
        SW_FAIL(SW_INVALID, "--checkpoint: the ranges take more than %zu characters",
                sizeof to->text);
    return SW_OK;
}

/* One line, from *at on; false where there is none. */
static bool next_line(const char *text, size_t n, size_t *at, cli_text *name,
                      const char **value, int *value_bytes)
{
    const char *line = text + *at, *end = memchr(line, '\n', n - *at);
    const char *tab = end != NULL ? memchr(line, '\t', (size_t)(end - line)) : NULL;
    if (tab == NULL)
        return false;
    snprintf(name->text, sizeof name->text, "%.*s", (int)(tab - line), line);
    *value = tab + 1;
    *value_bytes = (int)(end - tab) - 1;
    *at = (size_t)(end - text) + 1;
    return true;
}

sw_status pop_identity_same(const pop_identity *here, const char *there, size_t n,
                            const char *path)
{
    size_t at = 0, other = 0;
    cli_text name, its;
    const char *value, *its_value;
    int bytes, its_bytes;
    if (n == here->used && memcmp(there, here->text, n) == 0)
        return SW_OK;
    while (next_line(here->text, here->used, &at, &name, &value, &bytes) &&
           next_line(there, n, &other, &its, &its_value, &its_bytes)) {
        if (strcmp(name.text, "--validation-share") == 0 && strcmp(name.text, its.text) != 0)
            SW_FAIL(SW_INVALID,
                    "%s: it was saved by a run without a validation part, whose members were "
                    "trained with other samples: begin anew, without --resume",
                    path);
        if (strcmp(name.text, its.text) != 0)
            SW_FAIL(SW_INVALID, "%s: it has %s where this run has %s", path, its.text,
                    name.text);
        if (bytes != its_bytes || memcmp(value, its_value, (size_t)bytes) != 0)
            SW_FAIL(SW_INVALID,
                    "%s: %s was '%.*s' in the run that saved it and is '%.*s' now: a run goes "
                    "on with the same",
                    path, name.text, its_bytes < 300 ? its_bytes : 300, its_value,
                    bytes < 300 ? bytes : 300, value);
    }
    SW_FAIL(SW_FORMAT, "%s: the options of the population are cut", path);
}
