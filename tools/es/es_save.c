/* --checkpoint and --resume of `stepwell es`. A checkpoint is what was so after a generation:
 * the model with the optimizer's state, sigma and the states of snes, and beside it the options
 * that decide the numbers, as lines of text that a run that goes on must have too. */
#include "tools/es/es.h"
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define BLOB "es"
#define DEFAULT_NS ((uint64_t)600 * 1000000000) /* 10 minutes */
#define TEXT_BYTES 4096

/* ---- what is written --------------------------------------------------------------------- */

typedef struct {
    char text[TEXT_BYTES];
    size_t used;
} lines;

static void add(lines *to, const char *name, const char *format, ...) SW_PRINTF(3, 4);
static void add(lines *to, const char *name, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (to->used < TEXT_BYTES)
        to->used += (size_t)snprintf(to->text + to->used, TEXT_BYTES - to->used, "%s ", name);
    if (to->used < TEXT_BYTES)
        to->used += (size_t)vsnprintf(to->text + to->used, TEXT_BYTES - to->used, format, list);
    if (to->used < TEXT_BYTES)
        to->used += (size_t)snprintf(to->text + to->used, TEXT_BYTES - to->used, "\n");
    va_end(list);
}

static const char *word(const char *given)
{
    return given != NULL ? given : "-";
}

/* The options that decide the numbers. Slices do not: but for batch norm they change no bit. */
static void identify(const es_run *r, lines *to)
{
    const es_opts *o = &r->opts;
    const job_opts *j = &o->job;
    char text[600];
    const char *name;
    to->used = 0;
    add(to, "--model", "%s", j->model);
    for (int i = 0; (name = tool_settings_say(&j->settings, i, text, sizeof text)) != NULL; i++)
        add(to, name, "%s", text);
    add(to, r->on_environment ? "--environment" : "--data", "%s",
        r->on_environment ? o->environment : j->data);
    add(to, "training samples", "%" PRId64, r->on_environment ? 0 : r->job.train.n);
    add(to, "--normalise", "%s", r->job.normal.text);
    add(to, "--population", "%" PRId64, o->population);
    add(to, "--repeats", "%" PRId64, o->repeats);
    add(to, "--no-antithetic", "%d", o->no_antithetic);
    add(to, "--samples", "%" PRId64, o->samples);
    add(to, "--same-samples", "%d", o->same_samples);
    add(to, "--strategy", "%s", o->strategy);
    add(to, "--shaping", "%s", word(o->shaping));
    add(to, "--noise", "%s", word(o->noise));
    add(to, "--distribution", "%s", word(o->distribution));
    add(to, "--rank", "%" PRId64, o->rank);
    add(to, "--in-share", "%.17g", o->in_share);
    add(to, "--out-share", "%.17g", o->out_share);
    add(to, "--sigma", "%.17g", o->sigma);
    add(to, "--sigma-lr", "%.17g", o->sigma_lr);
    add(to, "--top", "%" PRId64, o->top);
    add(to, "--l1", "%.17g", o->l1);
    add(to, "--l2", "%.17g", o->l2);
    add(to, "--optimizer", "%s", j->optimizer);
    add(to, "--lr", "%.17g", j->lr);
    add(to, "--momentum", "%.17g", j->momentum);
    add(to, "--weight-decay", "%.17g", j->weight_decay);
    add(to, "--seed", "%" PRId64, j->seed);
    add(to, "--schedule", "%s", j->schedule);
    add(to, "--warmup", "%" PRId64, j->warmup);
    if (strcmp(j->schedule, "constant") != 0)
        add(to, "generations in all", "%" PRIu64, r->generations);
}

static sw_status save(es_run *r)
{
    static lines text;
    char where[200];
    const bool tested = r->test.there && r->tested == r->generation;
    identify(r, &text);
    SW_TRY(sw_checkpoint_put(r->checkpoint, BLOB, text.text, strlen(text.text)));
    const int n = snprintf(where, sizeof where, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
                           r->generation, r->evaluations, r->not_finite,
                           tested ? r->before_test : r->metrics_bytes);
    SW_TRY(sw_checkpoint_put(r->checkpoint, BLOB ".progress", where, (size_t)n));
    if (r->metrics != NULL)
        SW_TRY(sw_file_sync(r->metrics));
    SW_TRY(sw_checkpoint_save(r->checkpoint, r->generation));
    r->saved++;
    return SW_OK;
}

/* ---- when -------------------------------------------------------------------------------- */

static void next_due(es_run *r)
{
    const cli_every *every = &r->opts.every;
    r->next_save_ns = cli_clock_ns() + (every->ns > 0 ? every->ns : DEFAULT_NS);
}

static bool is_due(const es_run *r)
{
    const cli_every *every = &r->opts.every;
    return every->steps > 0 ? r->generation % every->steps == 0
                            : cli_clock_ns() >= r->next_save_ns;
}

void es_save_due(es_run *r)
{
    const bool asked = r->opts.checkpoint != NULL && cli_save_asked();
    if (r->opts.checkpoint == NULL || !(asked || is_due(r)))
        return;
    next_due(r);
    if (save(r) != SW_OK)
        cli_note(
            "the checkpoint could not be saved: %s; the run goes on, and the save is tried "
            "again",
            sw_last_error());
    else if (asked)
        cli_note("generation %" PRIu64 " is saved in %s", r->generation, r->opts.checkpoint);
}

sw_status es_save_last(es_run *r)
{
    if (r->opts.checkpoint == NULL || r->generation == 0)
        return SW_OK;
    SW_TRY(save(r));
    if (!r->opts.quiet)
        cli_note("generation %" PRIu64 " is saved in %s", r->generation, r->opts.checkpoint);
    return SW_OK;
}

/* ---- going on ---------------------------------------------------------------------------- */

/* The first line that differs: its length in *n. */
static const char *first_other(const char *a, const char *b, size_t *n)
{
    while (*a != '\0') {
        const size_t end = strcspn(a, "\n");
        if (strncmp(a, b, end + 1) != 0) {
            *n = end;
            return a;
        }
        a += end + 1;
        b += end + 1;
    }
    return NULL;
}

static int compare(es_run *r, const char *path)
{
    static lines own, theirs;
    const void *bytes;
    size_t n;
    const sw_status status = sw_checkpoint_get(r->checkpoint, BLOB, &bytes, &n);
    if (status != SW_OK)
        return cli_library_error(status, true);
    if (bytes == NULL)
        return cli_error(CLI_USAGE, "--resume %s: `stepwell es` did not save it", path);
    memset(&theirs, 0, sizeof theirs);
    memcpy(theirs.text, bytes, n < TEXT_BYTES ? n : TEXT_BYTES - 1);
    identify(r, &own);
    const char *other = first_other(theirs.text, own.text, &n);
    if (other == NULL)
        other = first_other(own.text, theirs.text, &n);
    if (other == NULL)
        return CLI_GO;
    const size_t at = (size_t)strcspn(other, " ");
    return cli_error(CLI_USAGE, "--resume %s: it was saved with another %.*s (%.*s)", path,
                     (int)at, other, (int)n, other);
}

static sw_status take_progress(es_run *r)
{
    const void *bytes;
    char text[200] = "";
    size_t n;
    SW_TRY(sw_checkpoint_get(r->checkpoint, BLOB ".progress", &bytes, &n));
    if (bytes != NULL)
        memcpy(text, bytes, n < sizeof text ? n : sizeof text - 1);
    if (sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &r->generation,
               &r->evaluations, &r->not_finite, &r->metrics_bytes) != 4)
        SW_FAIL(SW_FORMAT, "the checkpoint does not say which generation it is after");
    SW_TRY(sw_checkpoint_load(r->checkpoint));
    r->resumed = r->generation;
    return sw_es_generation_set(r->job.es, r->generation);
}

static int go_on(es_run *r, const sw_checkpoint_found *found)
{
    if (found->skipped[0] != '\0')
        cli_note("a damaged checkpoint was passed over: %s", found->skipped);
    const int same = compare(r, found->path);
    if (same != CLI_GO)
        return same;
    const sw_status status = take_progress(r);
    if (status == SW_INVALID)
        return cli_error(CLI_USAGE, "--resume %s: %s", found->path, sw_last_error());
    if (status != SW_OK)
        return cli_library_error(status, true);
    if (r->generation > r->generations)
        return cli_error(CLI_USAGE,
                         "--resume %s: it is after generation %" PRIu64
                         ", and this run has %" PRIu64 " in all: give more --generations",
                         found->path, r->generation, r->generations);
    if (!r->opts.quiet)
        cli_note("goes on after generation %" PRIu64 " of %" PRIu64 ", from %s", r->generation,
                 r->generations, found->path);
    return CLI_GO;
}

/* A checkpoint that is there is gone on from, not replaced. */
static int look(es_run *r, const char *from)
{
    const es_opts *o = &r->opts;
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    const bool own = o->checkpoint != NULL && strcmp(from, o->checkpoint) == 0;
    if (o->resume == NULL)
        return sw_file_there(from)
                   ? cli_error(CLI_USAGE,
                               "--checkpoint %s: a checkpoint is there already. --resume goes "
                               "on from it; to begin a new run remove it, or name another file",
                               from)
                   : CLI_GO;
    const sw_status status = sw_checkpoint_find(r->checkpoint, own ? NULL : from, &found);
    if (status != SW_OK)
        return cli_library_error(status, true);
    if (found.found)
        return go_on(r, &found);
    if (!own)
        return cli_error(CLI_DAMAGED, "--resume %s: there is no such file", from);
    if (!o->quiet)
        cli_note("there is no checkpoint at %s yet: the run begins", from);
    return CLI_GO;
}

int es_resume(es_run *r)
{
    const es_opts *o = &r->opts;
    const char *from = o->resume != NULL && *o->resume != '\0' ? o->resume : o->checkpoint;
    const sw_checkpoint_opts opts =
        SW_OPTS(sw_checkpoint_opts, .path = o->checkpoint, .models = &r->job.net.model,
                .n_models = 1, .command = r->command, .keep = (int)o->keep, .no_copy = 1);
    if (from == NULL)
        return CLI_GO;
    const sw_status status =
        cli_saved(sw_checkpoint_create(&r->checkpoint, r->job.exec, &opts));
    if (status != SW_OK)
        return cli_library_error(status, false);
    next_due(r);
    return look(r, from);
}
