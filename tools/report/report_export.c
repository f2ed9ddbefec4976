/* Formats for other tools. */
#include "tools/report/report_export.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "profiler/inspect/sink.h"
#include "tools/cli/cli.h"
#include "profiler/inspect/timeline_read.h"
#include <string.h>

#define FORMATS 32

const char *const *report_formats(void)
{
    static const char *names[FORMATS + 1] = {"text", "json"};
    for (uint32_t i = 0; i + 2 < FORMATS && sw_sink_at(i) != NULL; i++)
        names[i + 2] = sw_sink_at(i)->name;
    return names;
}

bool report_is_export(const char *format)
{
    return sw_sink_find(format) != NULL;
}

int report_list_formats(void)
{
    static const char *const own[][2] = {{"text", "the report, for people"},
                                         {"json", "the report, for scripts"}};
    printf("Into the file that --out names, or on standard output:\n");
    for (uint32_t i = 0; sw_sink_at(i) != NULL; i++) {
        printf("  %-16s ", sw_sink_at(i)->name);
        cli_wrap(stdout, 19, 19, sw_sink_at(i)->about);
    }
    printf("On standard output alone:\n");
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        printf("  %-16s %s\n", own[i][0], own[i][1]);
    return cli_finish(CLI_DONE);
}

typedef struct {
    const sw_timeline *timeline, *other; /* other: NULL, or to compare with */
    const sw_sink *sink;
    sw_sink_out *out;
} export;

/* Ctrl-C ends a long export between two pieces; the file that was there stays. */
static sw_status write_piece(void *context, const void *bytes, size_t n)
{
    if (cli_interrupted())
        SW_FAIL(SW_STOPPED, "interrupted");
    return sw_file_write(context, bytes, n);
}

static sw_status write_all(void *context, sw_file *file)
{
    const export *x = context;
    x->out->write = write_piece;
    x->out->context = file;
    const sw_status status = x->other != NULL ? x->sink->compare(x->timeline, x->other, x->out)
                                              : x->sink->write(x->timeline, x->out);
    const sw_status rest = sw_sink_flush(x->out);
    return rest != SW_OK ? rest : status;
}

static sw_status write_timelines(const sw_timeline *t, const sw_timeline *other,
                                 const sw_sink *sink, const char *path)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, sizeof(sw_sink_out)));
    export x = {t, other, sink, block};
    const sw_status status = cli_saved(sw_file_replace(path, write_all, &x));
    sw_heap_free(block, SW_HEAP_PROFILE, sizeof(sw_sink_out));
    return status;
}

/* The timeline of a file, and a note where runs of it are left out. */
static sw_status open_timeline(sw_timeline **out, const sw_sink *sink, const char *file)
{
    const timeline_want want = {.max_events = sink->max_events};
    SW_TRY(timeline_open(out, file, &want));
    const sw_timeline *t = *out;
    if (t->skipped_runs > 0)
        cli_note("%s: %s of %s runs are left out of the middle, or have no plan in the file",
                 file, cli_digits(t->skipped_runs).text,
                 cli_digits(t->skipped_runs + t->n_runs).text);
    return SW_OK;
}

int report_export(const char *file, const char *other, const char *format, const char *out)
{
    const sw_sink *sink = sw_sink_find(format);
    const char *path = out != NULL ? out : "-";
    sw_timeline *t = NULL, *with = NULL;
    if (sink->binary && strcmp(path, "-") == 0 && cli_terminal(stdout))
        return cli_error(CLI_USAGE, "%s is not text: name a file with --out", sink->name);
    if (other != NULL && sink->compare == NULL)
        return cli_error(CLI_USAGE, "--diff: the format %s is of one run", sink->name);
    cli_catch_interrupt();
    sw_status status = open_timeline(&t, sink, file);
    if (status == SW_OK && other != NULL)
        status = open_timeline(&with, sink, other);
    const bool read = status == SW_OK;
    if (read)
        status = write_timelines(t, with, sink, path);
    int code = CLI_DONE;
    if (status == SW_OK && t->damaged != NULL)
        code = cli_error(CLI_DAMAGED, "%s", t->damaged);
    if (status == SW_OK && with != NULL && with->damaged != NULL)
        code = cli_error(CLI_DAMAGED, "%s", with->damaged);
    sw_timeline_free(with);
    sw_timeline_free(t);
    if (read && status != SW_OK && cli_interrupted())
        return CLI_INTERRUPTED;
    return status == SW_OK ? code : cli_library_error(status, !read);
}
