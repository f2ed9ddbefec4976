/* stepwell plan --model hf:DIR --sample: what a text of one context takes. */
#include "tools/models/hf_sample.h"
#include "tools/plan/plan.h"
#include <inttypes.h>
#include <string.h>

typedef struct {
    hf_sampler text;
    sw_exec *exec;
    sw_budget *budget;
    sw_plan_info plan[HF_PROGRAMS];
    size_t base, adapters, cache; /* bytes */
} planned;

static const char *const names[] = {"piece", "token"}; /* in the order of hf_program */

static sw_status make(planned *p, const job_opts *o)
{
    const int threads = o->threads > 0 ? (int)o->threads : (int)job_all_threads();
    if (o->budget_bytes > 0)
        SW_TRY(sw_budget_create(&p->budget, o->budget_bytes));
    SW_TRY(sw_exec_create(&p->exec, &SW_OPTS(sw_exec_opts, .threads = threads, .isa = o->isa,
                                             .budget = p->budget)));
    SW_TRY(hf_sampler_create(&p->text, p->exec, &o->settings));
    SW_TRY(hf_sampler_plan(&p->text, p->plan));
    SW_TRY(sw_model_bytes(p->text.models[0], &p->adapters));
    SW_TRY(sw_model_bytes(p->text.models[1], &p->base));
    return sw_model_bytes(p->text.models[2], &p->cache);
}

static int64_t rows_of(const planned *p, int which)
{
    return which == HF_PROGRAM_PIECE ? p->text.piece : 1;
}

static int put(planned *p, const plan_opts *o, hf_program main)
{
    sw_json json;
    sw_array in[2];
    const sw_plan_info *most = &p->plan[main];
    result_json_begin(&json);
    SW_JSON_PUT(&json, &o->job, model);
    sw_json_put_i64(&json, "context", p->text.context);
    sw_json_put_u64(&json, "base_bytes", p->base);
    sw_json_put_u64(&json, "adapter_bytes", p->adapters);
    sw_json_put_u64(&json, "cache_bytes", p->cache);
    SW_JSON_PUT(&json, most, model_bytes, arena_bytes, data_bytes, total_bytes);
    const size_t process = plan_process_bytes(most);
    sw_json_put_known(&json, "process_bytes", process > 0, process);
    sw_json_open(&json, "programs", '[');
    for (int i = 0; i < HF_PROGRAMS; i++) {
        const sw_run_args args = hf_sampler_args(&p->text, (hf_program)i, 0, in);
        sw_json_begin(&json, '{');
        sw_json_put_string(&json, "name", names[i]);
        sw_json_put_i64(&json, "rows", rows_of(p, i));
        SW_JSON_PUT(&json, &p->plan[i], arena_bytes, total_bytes, operations);
        breakdown_put(&json, p->exec, &args);
        sw_json_end(&json);
    }
    sw_json_end(&json);
    return result_json_end(&json, CLI_DONE);
}

static int print(planned *p, const plan_opts *o, hf_program main)
{
    sw_array in[2];
    const sw_run_args args = hf_sampler_args(&p->text, main, 0, in);
    printf("%s, a text of at most %s ids\n\n", o->job.model,
           cli_digits((uint64_t)p->text.context).text);
    CLI_LIBRARY(breakdown_print(p->exec, &args), false);
    printf("\nbase     %s\n", result_both(p->base).text);
    printf("adapters %s\n", result_both(p->adapters).text);
    printf("cache    %s of keys and values\n", result_both(p->cache).text);
    for (int i = 0; i < HF_PROGRAMS; i++)
        printf("arena    %s for %" PRId64 " row%s at a time\n",
               result_both(p->plan[i].arena_bytes).text, rows_of(p, i),
               rows_of(p, i) > 1 ? "s" : "");
    printf("data     %s\n", result_both(p->plan[main].data_bytes).text);
    printf("total    %s: one arena is for both\n", result_both(p->plan[main].total_bytes).text);
    const size_t process = plan_process_bytes(&p->plan[main]);
    if (process > 0)
        printf("process  %s: the total and this program's own\n", result_both(process).text);
    return cli_finish(CLI_DONE);
}

int plan_sample(plan_opts *o, const cli_command *command)
{
    static const char *const taken[] = {"--model",   "--context",       "--adapter", "--lora",
                                        "--weights", "--lora-alpha",    "--threads", "--isa",
                                        "--sample",  "--memory-budget", "--json",    "--quiet"};
    planned p = {.exec = NULL};
    tool_settings *s = &o->job.settings;
    for (int i = 0; i < command->n_options; i++) {
        const char *name = command->options[i].name;
        bool is = false;
        for (size_t k = 0; k < sizeof taken / sizeof *taken; k++)
            is |= strcmp(taken[k], name) == 0;
        if (!is && cli_given(name) != NULL)
            return cli_error(CLI_USAGE, "%s and --sample exclude each other", name);
    }
    CLI_TRY(job_take_budget(&o->job));
    CLI_TRY(tool_settings_complete(&tool_hf, s));
    CLI_TRY(tool_hf.settle(s, strchr(o->job.model, ':') + 1));
    const sw_status status = make(&p, &o->job);
    const hf_program main =
        p.plan[1].total_bytes > p.plan[0].total_bytes ? HF_PROGRAM_TOKEN : HF_PROGRAM_PIECE;
    const int done = status != SW_OK ? cli_library_error(status, true)
                     : o->json       ? put(&p, o, main)
                                     : print(&p, o, main);
    hf_sampler_destroy(&p.text);
    sw_exec_destroy(p.exec);
    sw_budget_destroy(p.budget);
    return done;
}
