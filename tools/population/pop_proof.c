/* --prove: what planning every shape that the ranges can reach has found. */
#include "profiler/record/json.h"
#include "tools/job/result.h"
#include "tools/population/population.h"
#include <string.h>

static bool halves(const pop *p)
{
    return strcmp(p->opts.too_large, "batch") == 0;
}

static int say_text(const pop *p)
{
    const pop_memory *m = &p->memory;
    const size_t budget = p->opts.job.budget_bytes;
    printf("%lld shape%s can be reached; the largest%s is %s: %s alone (a step %s, a batch %s, "
           "a member %s)\n",
           (long long)m->n_configs, m->n_configs > 1 ? "s" : "",
           m->n_refused > 0 ? " that fits" : "", pop_config_text(&m->largest).text,
           cli_bytes(m->largest_bytes).text, cli_bytes(m->arena).text, cli_bytes(m->batch).text,
           cli_bytes(m->member).text);
    if (budget > 0)
        printf("with %d thread%s no explore takes more than %s of the %s bytes of the "
               "budget; what is left is for members that stay\n",
               m->threads, m->threads > 1 ? "s" : "", cli_digits(pop_least(p)).text,
               cli_digits(budget).text);
    if (m->n_refused > 0)
        printf("%lld shape%s not fit, the first %s: %s bytes alone. An explore that asks for "
               "one is %s\n",
               (long long)m->n_refused, m->n_refused > 1 ? "s do" : " does",
               pop_config_text(&m->first_refused).text, cli_digits(m->first_refused_bytes).text,
               halves(p) ? "given half the batch until it fits"
                         : "refused: the donor's shape stays");
    return cli_finish(CLI_DONE);
}

static void put_config(sw_json *json, const pop *p, const char *key, const pop_config *config,
                       size_t bytes)
{
    sw_json_open(json, key, '{');
    result_put_batch(json, job_slot_rows(&p->job.train, config->batch), config->batch);
    sw_json_open(json, "hidden", '[');
    for (int i = 0; i < config->hidden.n; i++)
        sw_json_i64(json, config->hidden.at[i]);
    sw_json_end(json);
    sw_json_put_u64(json, "bytes", bytes);
    sw_json_end(json);
}

static void put_all(sw_json *json, const pop *p)
{
    const pop_memory *m = &p->memory;
    sw_json_begin(json, '{');
    sw_json_put_string(json, "model", p->opts.job.model);
    sw_json_put_string(json, "data", p->opts.job.data);
    sw_json_put_i64(json, "shapes", m->n_configs);
    sw_json_put_i64(json, "shapes_refused", m->n_refused);
    put_config(json, p, "largest", &m->largest, m->largest_bytes);
    if (m->n_refused > 0)
        put_config(json, p, "first_refused", &m->first_refused, m->first_refused_bytes);
    else
        sw_json_put_null(json, "first_refused");
    sw_json_put_string(json, "too_large", p->opts.too_large);
    sw_json_put_i64(json, "threads", m->threads);
    sw_json_put_u64(json, "arena_bytes", m->arena);
    sw_json_put_u64(json, "batch_bytes", m->batch);
    sw_json_put_u64(json, "member_bytes", m->member);
    sw_json_put_u64(json, "explore_bytes", pop_least(p));
    sw_json_put_known(json, "budget_bytes", p->opts.job.budget_bytes > 0,
                      p->opts.job.budget_bytes);
    sw_json_end(json);
    sw_json_line(json);
}

int pop_say_proof(const pop *p)
{
    sw_json json;
    if (!p->opts.json)
        return say_text(p);
    sw_json_growing(&json, SW_HEAP_RECORDS);
    put_all(&json, p);
    if (json.status == SW_OK)
        fwrite(json.bytes, 1, json.used, stdout);
    const sw_status written = json.status;
    sw_json_free(&json);
    return written == SW_OK ? cli_finish(CLI_DONE) : cli_library_error(written, false);
}
