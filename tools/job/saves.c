/* See saves.h. */
#include "tools/job/saves.h"
#include "alloc/base/assert.h"
#include "alloc/base/sys.h"
#include "tools/report/file_same.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FORMAT "stepwell run 3\n"
#define DEFAULT_NS ((uint64_t)600 * 1000000000) /* 10 minutes */

/* ---- what decides ------------------------------------------------------------------------ */

void job_identity_add(job_identity *to, const char *name, const char *format, ...)
{
    va_list list;
    char value[600];
    va_start(list, format);
    const int n = vsnprintf(value, sizeof value, format, list);
    va_end(list);
    for (char *at = value; *at != '\0'; at++)
        if (*at == '\n')
            *at = ' ';
    const size_t room = sizeof to->text - to->used;
    const int all = snprintf(to->text + to->used, room, "%s\t%s\n", name, value);
    to->full |= n < 0 || (size_t)n >= sizeof value || all < 0 || (size_t)all >= room;
    if (to->full)
        to->text[to->used] = '\0';
    else
        to->used += (size_t)all;
}

static void add_option(job_identity *to, const cli_option *o)
{
    const char *word;
    switch (o->kind) {
    case CLI_FLAG:
        job_identity_add(to, o->name, "%s", *(const bool *)o->to ? "yes" : "no");
        break;
    case CLI_SWITCH:
        job_identity_add(to, o->name, "%s", *(const int *)o->to != 0 ? "yes" : "no");
        break;
    case CLI_COUNT:
        job_identity_add(to, o->name, "%" PRId64, *(const int64_t *)o->to);
        break;
    case CLI_REAL: {
        /* As many digits as it takes to read the number back. */
        const double x = *(const double *)o->to;
        char text[40];
        for (int digits = 6; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, x);
            if (strtod(text, NULL) == x)
                break;
        }
        job_identity_add(to, o->name, "%s", text);
        break;
    }
    case CLI_WORD:
    case CLI_OPTIONAL:
        word = *(const char *const *)o->to;
        job_identity_add(to, o->name, "%s", word != NULL ? word : "none");
        break;
    case CLI_LIST: {
        const cli_list *list = o->to;
        char text[600] = "";
        size_t used = 0;
        for (int i = 0; i < list->n && used < sizeof text; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64,
                                     i > 0 ? "," : "", list->at[i]);
        job_identity_add(to, o->name, "%s", text);
        break;
    }
    case CLI_BYTES:
    case CLI_EVERY:
        SW_ASSERT(false); /* none decides */
    }
}

void job_identify(job_identity *to, const job_opts *opts, const cli_option *options, int n)
{
    tool_settings settings = opts->settings;
    cli_option option;
    to->used = 0;
    to->full = false;
    job_identity_add(to, "--model", "%s", opts->kind->name);
    for (int i = 0; i < TOOL_SETTINGS; i++)
        if (tool_settings_option(opts->kind, &settings, i, &option))
            add_option(to, &option);
    for (int i = 0; i < n; i++)
        if (options[i].decides)
            add_option(to, &options[i]);
}

/* ---- lines ------------------------------------------------------------------------------- */

typedef struct {
    const char *name, *value;
    int name_bytes, value_bytes;
} line;

/* One line, from *at on, which is after it then; false where there is none. */
static bool next_line(const char **at, const char *end, line *out)
{
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    const char *tab = stop != NULL ? memchr(*at, '\t', (size_t)(stop - *at)) : NULL;
    if (tab == NULL)
        return false;
    *out = (line){*at, tab + 1, (int)(tab - *at), (int)(stop - tab) - 1};
    *at = stop + 1;
    return true;
}

/* The line of that name. */
static bool find_line(const char *at, const char *end, const line *named, line *out)
{
    while (next_line(&at, end, out))
        if (out->name_bytes == named->name_bytes &&
            memcmp(out->name, named->name, (size_t)named->name_bytes) == 0)
            return true;
    return false;
}

/* *at: the identity of the run that saved; then it is after its empty line. */
static int compare(const job_saved *what, const job_identity *identity, const char *path,
                   const char **at, const char *end)
{
    const char *there = *at, *here = identity->text, *here_end = here + identity->used;
    char advice[1200] = "";
    line a, b;
    if (what->loads)
        snprintf(advice, sizeof advice,
                 "; or begin a new run with its parameters: --load-params %s", path);
    while (next_line(at, end, &a)) {
        if (!find_line(here, here_end, &a, &b))
            return cli_error(CLI_USAGE,
                             "--resume %s: %.*s was '%.*s' in the run that saved it, and has "
                             "no part in this one",
                             path, a.name_bytes, a.name, a.value_bytes, a.value);
        const bool other = a.value_bytes != b.value_bytes ||
                           memcmp(a.value, b.value, (size_t)a.value_bytes) != 0;
        const bool of_card =
            strncmp(a.value, "cuda\n", 5) == 0 || strncmp(b.value, "cuda\n", 5) == 0;
        if (other && of_card && strncmp(a.name, "--bf16-order\t", 13) == 0)
            cli_note(
                "--resume %s: products were summed in the order of %.*s and are in that of "
                "%.*s now: the bits are others",
                path, a.value_bytes, a.value, b.value_bytes, b.value);
        else if (other)
            return cli_error(CLI_USAGE,
                             "--resume %s: %.*s was '%.*s' in the run that saved it and is "
                             "'%.*s' now: a run goes on with the same%s",
                             path, a.name_bytes, a.name, a.value_bytes, a.value, b.value_bytes,
                             b.value, advice);
    }
    while (next_line(&here, here_end, &b)) {
        /* --precision, --bf16-order and --state are younger than some files. */
        const bool plain =
            strncmp(b.value, "f32\n", 4) == 0 || strncmp(b.value, "none\n", 5) == 0;
        if (!plain && !find_line(there, *at, &b, &a))
            return cli_error(CLI_USAGE,
                             "--resume %s: %.*s is '%.*s' now, and the run that saved it had "
                             "no such option",
                             path, b.name_bytes, b.name, b.value_bytes, b.value);
    }
    return CLI_GO;
}

/* ---- how far it is ----------------------------------------------------------------------- */

static int print_field(char *to, size_t room, const job_field *f, const void *state)
{
    const void *at = (const char *)state + f->at;
    uint64_t x = 0;
    if (f->kind == JOB_BOOL)
        x = *(const bool *)at;
    else
        memcpy(&x, at, sizeof x);
    if (f->kind == JOB_I64)
        return snprintf(to, room, "%s\t%" PRId64 "\n", f->name, (int64_t)x);
    return snprintf(to, room, f->kind == JOB_F64 ? "%s\t%016" PRIx64 "\n" : "%s\t%" PRIu64 "\n",
                    f->name, x);
}

static bool read_field(const job_field *f, const line *l, void *state)
{
    void *at = (char *)state + f->at;
    char text[40], *end;
    if (l->value_bytes == 0 || (size_t)l->value_bytes >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%.*s", l->value_bytes, l->value);
    const uint64_t x = f->kind == JOB_I64 ? (uint64_t)strtoll(text, &end, 10)
                                          : strtoull(text, &end, f->kind == JOB_F64 ? 16 : 10);
    if (*end != '\0' || (f->kind == JOB_BOOL && x > 1))
        return false;
    if (f->kind == JOB_BOOL)
        *(bool *)at = x != 0;
    else
        memcpy(at, &x, sizeof x);
    return true;
}

sw_status job_state_put(sw_checkpoint *to, const job_saved *what, const job_identity *identity,
                        const void *state)
{
    static char text[sizeof identity->text + 8192];
    if (identity->full)
        SW_FAIL(SW_INVALID, "--checkpoint: the options take more than %zu characters",
                sizeof identity->text);
    size_t n = (size_t)snprintf(text, sizeof text, FORMAT "%.*s\n", (int)identity->used,
                                identity->text);
    for (int i = 0; i < what->n_fields; i++) {
        n += (size_t)print_field(text + n, sizeof text - n, &what->fields[i], state);
        SW_ASSERT(n < sizeof text);
    }
    return sw_checkpoint_put(to, what->command, text, n);
}

int job_state_get(sw_checkpoint *from, const job_saved *what, const job_identity *identity,
                  const char *path, void *state)
{
    const void *text;
    size_t n;
    CLI_LIBRARY(sw_checkpoint_get(from, what->command, &text, &n), true);
    if (text == NULL)
        return cli_error(
            CLI_USAGE, "--resume %s: `stepwell %s` did not save it, or an earlier version did",
            path, what->command);
    const char *at = text;
    const char *end = at + n;
    if (n < sizeof FORMAT || memcmp(at, FORMAT, sizeof FORMAT - 1) != 0)
        return cli_error(CLI_DAMAGED,
                         "%s: what `stepwell %s` put into it is of another version: go on with "
                         "that one, or begin a new run",
                         path, what->command);
    at += sizeof FORMAT - 1;
    CLI_TRY(compare(what, identity, path, &at, end));
    bool whole = at < end && *at++ == '\n';
    for (int i = 0; i < what->n_fields && whole; i++) {
        const line named = {.name = what->fields[i].name,
                            .name_bytes = (int)strlen(what->fields[i].name)};
        line l;
        whole = find_line(at, end, &named, &l) && read_field(&what->fields[i], &l, state);
    }
    return whole
               ? CLI_GO
               : cli_error(CLI_DAMAGED, "%s: what `stepwell %s` put into it is cut or damaged",
                           path, what->command);
}

/* ---- options ----------------------------------------------------------------------------- */

const char *job_resume_path(const char *resume, const char *checkpoint)
{
    return resume != NULL && *resume != '\0' ? resume : checkpoint;
}

/* The same name, or another of the same file. */
static bool names_one(const char *a, const char *b)
{
    return strcmp(a, b) == 0 || file_same(a, b);
}

/* Another check refuses a file that is not a regular one. */
static sw_status any_generation(const char *path, bool *any)
{
    char name[FILE_PATH_BYTES];
    struct stat st;
    *any = false;
    for (int i = 0; i < JOB_GENERATIONS && !*any; i++) {
        bool there = false;
        if (!sw_generation_name(name, sizeof name, path, i))
            continue;
        SW_TRY(sw_file_look(name, &there));
        *any = there && stat(name, &st) == 0 && S_ISREG(st.st_mode);
    }
    return SW_OK;
}

int job_saves_check(const char *path, const char *resume)
{
    const char *from = job_resume_path(resume, path);
    bool any = false;
    if (resume != NULL && from == NULL)
        return cli_error(CLI_USAGE,
                         "--resume must have a FILE, or --checkpoint FILE beside it");
    if (path == NULL || (resume != NULL && names_one(from, path)))
        return CLI_GO;
    CLI_LIBRARY(any_generation(path, &any), false);
    if (!any)
        return CLI_GO;
    if (resume != NULL)
        return cli_error(CLI_USAGE,
                         "--checkpoint %s: a checkpoint is there already, and --resume %s "
                         "names another. --resume alone goes on from it; to go on from %s "
                         "remove it, or save to another file",
                         path, from, from);
    return cli_error(CLI_USAGE,
                     "--checkpoint %s: a checkpoint is there already. --resume goes on "
                     "from it; to begin a new run remove it, or name another file",
                     path);
}

/* ---- going on ---------------------------------------------------------------------------- */

int job_resume_find(sw_checkpoint *c, const char *resume, const char *checkpoint, bool quiet,
                    sw_checkpoint_found *found)
{
    const char *path = job_resume_path(resume, checkpoint);
    if (resume == NULL)
        return CLI_GO;
    const bool own = checkpoint != NULL && names_one(path, checkpoint);
    CLI_LIBRARY(sw_checkpoint_find(c, own ? NULL : path, found), true);
    if (found->found && found->skipped[0] != '\0')
        cli_note("a damaged checkpoint was passed over: %s", found->skipped);
    if (!found->found && !own)
        return cli_error(CLI_DAMAGED, "--resume %s: there is no such file", path);
    if (!found->found && !quiet)
        cli_note("there is no checkpoint at %s yet: the run begins", path);
    return CLI_GO;
}

uint64_t job_every_ns(const cli_every *every)
{
    return every->ns > 0 ? every->ns : DEFAULT_NS;
}

job_due job_due_after(const cli_every *every, uint64_t step)
{
    if (every->steps > 0)
        return (job_due){.step = (step / every->steps + 1) * every->steps};
    return (job_due){.ns = cli_clock_ns() + job_every_ns(every)};
}

bool job_is_due(const job_due *due, uint64_t step)
{
    return due->step > 0 ? step >= due->step : cli_clock_ns() >= due->ns;
}
