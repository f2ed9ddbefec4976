/* See job_ranks.h. */
#include "tools/job/job_ranks.h"
#include "profiler/record/prof.h"
#include "kernels/dispatch.h"
#include "runtime/base/checksum.h"
#include "runtime/device/device.h"
#include "runtime/model/model.h"
#include "tools/job/result.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

void job_ranks_one_voice(int argc, char **argv)
{
    const char *lines = getenv("OMPI_NUM_APP_CTX"); /* that mpirun was given */
    bool alike = swi_ranks_started_as() > 0 && (lines == NULL || strcmp(lines, "1") == 0);
    for (int i = 1; i < argc; i++)
        alike &= strcmp(argv[i], "--ranks") != 0 && strncmp(argv[i], "--ranks=", 8) != 0;
    cli_no_usage(alike);
}

int job_ranks_check(const job_opts *o, double timeout_s, const char *without)
{
    const char *no = cli_given(without);
    if (!(timeout_s >= 1.0 && timeout_s <= 1e6))
        return cli_error(CLI_USAGE, "--rank-timeout must be 1 to 1e6 seconds (got %g)",
                         timeout_s);
    if (o->ranks != NULL || swi_ranks_started(NULL) == 1 || no == NULL)
        return CLI_GO;
    return cli_error(CLI_USAGE, "%s is not supported over several processes: start one", no);
}

/* So that all have one plan, and the same bits. */
static sw_status make_alike(swi_ranks *ranks, job_opts *o)
{
    uint64_t all[3 * SWI_RANKS_MOST],
        own[3] = {(uint64_t)sw_cpu_isa(), o->budget_bytes, (uint64_t)o->exec.bf16_order};
    sw_isa isa;
    int bf16;
    if (sw_isa_named(o->isa, &isa, &bf16))
        own[0] = (uint64_t)isa;
    SW_TRY(swi_ranks_gather(ranks, own, sizeof own, all));
    for (int k = 0; k < swi_ranks_size(ranks); k++) {
        const uint64_t *of = &all[3 * k];
        if (of[0] < own[0])
            o->isa = sw_isa_name((sw_isa)(own[0] = of[0]));
        if (of[1] > 0 && (o->budget_bytes == 0 || of[1] < o->budget_bytes))
            o->budget_bytes = (size_t)of[1];
    }
    if (o->order_auto && all[2] != SW_ORDER_NONE) { /* as the first has it */
        o->exec.bf16_order = (sw_bf16_order)all[2];
        o->bf16_order = all[2] == SW_ORDER_TILE ? "tile" : "pair";
    }
    return SW_OK;
}

/* Rank i of a host has card i mod cards. A number is a card where the card of that number can
 * be opened. */
static int take_card(const swi_ranks *ranks, job_opts *o)
{
    static char name[16];
    const int rank = swi_ranks_rank(ranks);
    int own = 0, cards;
    sw_status status = SW_DEVICE;
    for (int k = 0; k < rank; k++)
        own += strcmp(swi_ranks_host(ranks, k), swi_ranks_host(ranks, rank)) == 0;
    for (cards = own + 1; status == SW_DEVICE && cards > 0;) {
        swi_device *device;
        snprintf(name, sizeof name, "cuda:%d", cards - 1);
        status = swi_device_open(&device, name);
        if (status == SW_OK)
            swi_device_close(device);
        else if (--cards == 0)
            return cli_library_error(status, false);
    }
    snprintf(name, sizeof name, "cuda:%d", own % cards);
    o->device = name;
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}

int job_ranks_open(swi_ranks **out, job *j, job_opts *o, double timeout_s)
{
    if (o->ranks != NULL || swi_ranks_started(NULL) == 1)
        return CLI_GO;
    CLI_LIBRARY(swi_ranks_open(out, timeout_s), false);
    cli_no_usage(false);
    cli_catch_repeats();
    if (swi_ranks_rank(*out) > 0) {
        cli_no_notes();
        (void)cli_keep_errors(true);
    }
    j->on_host = swi_ranks_on_host(*out);
    if (strcmp(o->device, "cuda") == 0)
        CLI_TRY(take_card(*out, o));
    CLI_LIBRARY(make_alike(*out, o), false);
    return CLI_GO;
}

sw_status job_ranks_same(swi_ranks *ranks, const job_identity *options,
                         const sw_dataset *const *data, int n)
{
    SW_TRY(swi_ranks_same(ranks, "options", swi_checksum_of(options->text, options->used)));
    static const char *const names[] = {"training data", "test data", "validation data"};
    for (int i = 0; i < n; i++) {
        uint64_t hash = 0;
        if (data[i] != NULL)
            SW_TRY(sw_dataset_hash(data[i], &hash));
        SW_TRY(swi_ranks_same(ranks, names[i], hash));
    }
    (void)cli_keep_errors(false);
    return SW_OK;
}

static sw_status share_range(swi_ranks *ranks, sw_model *model, size_t at, size_t end)
{
    unsigned char piece[1 << 14];
    for (; at < end; at += sizeof piece) {
        const size_t n = end - at < sizeof piece ? end - at : sizeof piece;
        SW_TRY(swi_model_read(model, piece, at, n));
        SW_TRY(swi_ranks_share(ranks, piece, n));
        SW_TRY(swi_model_write(model, at, piece, n));
    }
    return SW_OK;
}

sw_status job_ranks_share_model(swi_ranks *ranks, sw_model *model, bool buffers)
{
    if (ranks == NULL)
        return SW_OK;
    SW_TRY(swi_model_take(model));
    sw_status status = buffers ? SW_OK : share_range(ranks, model, 0, model->bytes);
    for (uint32_t i = 1; buffers && i < model->n_entries && status == SW_OK; i++) {
        const swi_entry *e = &model->entries[i];
        if (e->role == SWI_ROLE_BUFFER || e->role == SWI_ROLE_STATE)
            status = share_range(ranks, model, e->offset, e->offset + e->bytes);
    }
    swi_model_give(model);
    return status;
}

int job_ranks_close(swi_ranks *ranks, bool agreed, int status)
{
    const struct timespec second = {.tv_sec = 1};
    if (cli_keep_errors(true)) /* rank 0 has time to say the same, and to end this one */
        (void)nanosleep(&second, NULL);
    (void)cli_keep_errors(false);
    if (!agreed || (status != CLI_DONE && status != CLI_INTERRUPTED))
        swi_ranks_abort(ranks, status);
    swi_ranks_close(ranks);
    return status;
}

/* ---- profiles ---------------------------------------------------------------------------- */

const char *job_ranks_profile_path(const swi_ranks *ranks, const char *path, char *to)
{
    if (path == NULL || swi_ranks_rank(ranks) == 0)
        return path;
    snprintf(to, FILE_PATH_BYTES, "%s.r%d", path, swi_ranks_rank(ranks));
    return to;
}

void job_ranks_profile(const swi_ranks *ranks, sw_profile *profile, bool ends)
{
    if (ranks == NULL || profile == NULL)
        return;
    const int rank = swi_ranks_rank(ranks);
    const sw_prof_rank record =
        SW_INIT(.ends = ends, .rank = rank, .ranks = swi_ranks_size(ranks),
                .host = swi_ranks_host(ranks, rank), .run = swi_ranks_run(ranks),
                .sent_bytes = swi_ranks_sent(ranks), .waited_ns = swi_ranks_waited(ranks));
    sw_prof_rank_record(profile, &record);
}

/* ---- the result -------------------------------------------------------------------------- */

sw_status job_ranks_figures(swi_ranks *ranks, job_rank own, job_rank *all)
{
    own.sent_bytes = swi_ranks_sent(ranks);
    own.waited_ns = swi_ranks_waited(ranks);
    own.resident_bytes = swi_ranks_taken(ranks);
    own.made_twice = swi_ranks_twice(ranks);
    return swi_ranks_gather(ranks, &own, sizeof own, all);
}

void job_ranks_put(sw_json *json, const swi_ranks *ranks, size_t bytes, const char *done,
                   const job_rank *all)
{
    if (ranks == NULL)
        return;
    sw_json_put_string(json, "transport", swi_ranks_name(ranks));
    sw_json_put_u64(json, "transport_bytes", bytes);
    sw_json_open(json, "ranks", '[');
    for (int k = 0; k < swi_ranks_size(ranks); k++) {
        sw_json_begin(json, '{');
        sw_json_put_string(json, "host", swi_ranks_host(ranks, k));
        sw_json_put_u64(json, done, all[k].done);
        SW_JSON_PUT(json, &all[k], predicted_peak_bytes, measured_peak_bytes, sent_bytes,
                    waited_ns);
        sw_json_put_known(json, "transport_resident_bytes", all[k].resident_bytes > 0,
                          all[k].resident_bytes);
        SW_JSON_PUT(json, &all[k], made_twice);
        if (all[k].update_ns > 0)
            SW_JSON_PUT(json, &all[k], update_ns);
        sw_json_end(json);
    }
    sw_json_end(json);
}

void job_ranks_print(const swi_ranks *ranks, size_t bytes)
{
    char text[400], own[96] = "";
    if (ranks == NULL)
        return;
    if (swi_ranks_taken(ranks) > 0)
        snprintf(own, sizeof own, "; it has %s resident of its own, in no total",
                 cli_bytes(swi_ranks_taken(ranks)).text);
    snprintf(text, sizeof text, "%d by %s: %s each, %s sent%s", swi_ranks_size(ranks),
             swi_ranks_name(ranks), result_both(bytes).text,
             cli_bytes(swi_ranks_sent(ranks)).text, own);
    printf("ranks   ");
    cli_wrap(stdout, 8, 8, text);
    if (swi_ranks_twice(ranks) > 0)
        printf("        %s gradients were made and summed twice: they might not have been "
               "finite\n",
               cli_digits(swi_ranks_twice(ranks)).text);
}
