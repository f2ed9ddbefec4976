/* Profiles of the ranks of one run: a row for each, with its peak and how long it waited. */
#include "alloc/base/mem.h"
#include "alloc/base/order.h"
#include "tools/cli/cli.h"
#include "tools/report/file_same.h"
#include "tools/report/report_settings.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct report_rank_row {
    char file[FILE_PATH_BYTES], status[16]; /* status "": the file has no end */
    report_rank is;
    uint64_t runs, predicted_bytes, wall_ns;
    uint64_t measured_bytes; /* UINT64_MAX: nothing was */
};

static sw_status add(report_rank_rows *rows, const report *r)
{
    SW_TRY(sw_heap_reserve(&rows->at, SW_HEAP_PROFILE, &rows->cap, rows->n + 1));
    report_rank_row *to = &rows->at[rows->n++];
    *to = (report_rank_row)SW_INIT(.is = r->rank, .runs = r->runs + r->evaluations,
                                   .wall_ns = r->file.wall_ns,
                                   .measured_bytes = r->timeline->measured
                                                         ? r->timeline->measured_bytes
                                                         : UINT64_MAX);
    for (uint32_t i = 0; i < r->n_plans; i++)
        if (!r->plans[i].immediate && r->plans[i].peak > to->predicted_bytes)
            to->predicted_bytes = r->plans[i].peak;
    if (r->rank.turns > 0) {
        to->runs = r->rank.turns;
        to->predicted_bytes = r->rank.predicted_bytes;
        to->measured_bytes = r->rank.measured_bytes;
    }
    snprintf(to->file, sizeof to->file, "%s", r->shown);
    snprintf(to->status, sizeof to->status, "%s", r->file.ended ? r->file.status : "");
    return SW_OK;
}

void report_ranks_free(report_rank_rows *rows)
{
    sw_heap_free(rows->at, SW_HEAP_PROFILE, rows->cap * sizeof *rows->at);
    *rows = (report_rank_rows){0};
}

static bool one_run(const report_rank *a, const report_rank *b)
{
    return a->ranks == b->ranks && strcmp(a->run, b->run) == 0;
}

/* A file beside that of rank 0; one of another run, or that cannot be read, is none. */
static sw_status add_beside(report_rank_rows *rows, const report *of, uint64_t rank)
{
    char path[FILE_PATH_BYTES + 24];
    report *r;
    snprintf(path, sizeof path, "%s.r%" PRIu64, of->path, rank);
    if (access(path, F_OK) != 0 || report_open(&r, path, NULL) != SW_OK)
        return SW_OK;
    const bool fits = r->rank.rank == rank && one_run(&r->rank, &of->rank);
    const sw_status status = fits ? add(rows, r) : SW_OK;
    report_free(r);
    return status;
}

sw_status report_ranks_beside(report_rank_rows *rows, const report *of)
{
    if (of->rank.ranks < 2 || of->rank.rank > 0)
        return SW_OK;
    SW_TRY(add(rows, of));
    for (uint64_t k = 1; k < of->rank.ranks && k < SW_REPORT_RANKS; k++)
        SW_TRY(add_beside(rows, of, k));
    return SW_OK;
}

/* ---- output ------------------------------------------------------------------------------ */

void report_ranks_put(sw_json *j, const report_rank_rows *rows)
{
    sw_json_open(j, "ranks", '[');
    for (uint32_t i = 0; i < rows->n; i++) {
        const report_rank_row *x = &rows->at[i];
        sw_json_begin(j, '{');
        SW_JSON_PUT(j, &x->is, rank, host);
        SW_JSON_PUT(j, x, file, runs, predicted_bytes);
        sw_json_put_known(j, "measured_bytes", x->measured_bytes != UINT64_MAX,
                          x->measured_bytes);
        sw_json_put_known(j, "sent_bytes", x->is.sent_bytes != UINT64_MAX, x->is.sent_bytes);
        sw_json_put_known(j, "waited_ns", x->is.waited_ns != UINT64_MAX, x->is.waited_ns);
        sw_json_put_known(j, "wall_ns", x->status[0] != '\0', x->wall_ns);
        report_put_text(j, "status", x->status);
        sw_json_end(j);
    }
    sw_json_end(j);
}

/* 78 columns. */
void report_ranks_print(const report_rank_rows *rows, const report_style *style)
{
    const uint64_t ranks = rows->at[0].is.ranks;
    sw_writer_print(style->to, "Ranks: %" PRIu32 " of %" PRIu64 "\n", rows->n, ranks);
    sw_writer_print(style->to, "%6s %-12s %8s %15s %10s %9s  %s\n", "rank", "host", "runs",
                    "peak", "sent", "waited", "peak predicted");
    for (uint32_t i = 0; i < rows->n; i++) {
        const report_rank_row *x = &rows->at[i];
        const bool measured = x->measured_bytes != UINT64_MAX;
        sw_writer_print(style->to, "%6" PRIu64 " %-12.12s %8s %15s %10s %9s  %s%s%s\n",
                        x->is.rank, x->is.host, cli_digits(x->runs).text,
                        measured ? cli_digits(x->measured_bytes).text : "-",
                        x->is.sent_bytes != UINT64_MAX ? cli_bytes(x->is.sent_bytes).text : "-",
                        x->is.waited_ns != UINT64_MAX ? cli_ns(x->is.waited_ns).text : "-",
                        measured && x->measured_bytes == x->predicted_bytes
                            ? "equal"
                            : cli_digits(x->predicted_bytes).text,
                        x->status[0] == '\0'             ? ", not ended"
                        : strcmp(x->status, "done") == 0 ? ""
                                                         : ", ",
                        strcmp(x->status, "done") == 0 ? "" : x->status);
    }
    uint64_t first = 0; /* that is not there */
    while (first < rows->n && rows->at[first].is.rank == first)
        first++;
    if (rows->n < ranks && !style->quiet)
        sw_writer_print(style->to, "  %s of %s files are not here, the first that of rank %s\n",
                        cli_digits(ranks - rows->n).text, cli_digits(ranks).text,
                        cli_digits(first).text);
}

/* ---- several files ----------------------------------------------------------------------- */

SW_ORDER(by_rank, report_rank_row, SW_RISES(is.rank), 0)

/* CLI_GO where all are of one run, each of another rank; sorts them. */
static int check(report_rank_rows *rows)
{
    for (uint32_t i = 0; i < rows->n; i++) {
        const report_rank_row *x = &rows->at[i];
        if (x->is.ranks < 2)
            return cli_error(CLI_USAGE,
                             "%s is of a run in one process: several profiles are one table "
                             "where they are of the ranks of one run",
                             x->file);
        if (!one_run(&x->is, &rows->at[0].is))
            return cli_error(CLI_USAGE, "%s and %s are of two runs", rows->at[0].file, x->file);
    }
    qsort(rows->at, rows->n, sizeof *rows->at, by_rank);
    for (uint32_t i = 1; i < rows->n; i++)
        if (rows->at[i].is.rank == rows->at[i - 1].is.rank)
            return cli_error(CLI_USAGE, "%s and %s are of one rank", rows->at[i - 1].file,
                             rows->at[i].file);
    return CLI_GO;
}

static int print(const report_settings *s, const report_rank_rows *rows)
{
    if (!s->json) {
        report_ranks_print(rows, &s->style);
        return cli_finish(CLI_DONE);
    }
    sw_json j = {0};
    report_begin_object(&j);
    sw_json_put_string(&j, "tool", "stepwell");
    sw_json_put_u64(&j, "n_ranks", rows->at[0].is.ranks);
    report_ranks_put(&j, rows);
    const sw_status status = report_end_object(&j, NULL, &s->style);
    sw_json_free(&j);
    return status == SW_OK ? cli_finish(CLI_DONE) : cli_library_error(status, false);
}

int report_rank_profiles(const report_settings *s, int n)
{
    report_rank_rows rows = {0};
    sw_status status = SW_OK;
    int whole = CLI_DONE;
    for (int i = 0; i < n && status == SW_OK; i++) {
        report *r;
        status = report_open(&r, s->files[i], NULL);
        if (status != SW_OK)
            break;
        status = add(&rows, r);
        if (r->file.damaged_line > 0)
            whole = cli_error(CLI_DAMAGED, "%s", r->file.damaged_why);
        report_free(r);
    }
    int code = status == SW_OK ? check(&rows) : cli_library_error(status, true);
    if (code == CLI_GO)
        code = print(s, &rows);
    report_ranks_free(&rows);
    return code == CLI_DONE ? whole : code;
}
