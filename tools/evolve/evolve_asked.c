/* Output of evolve without a search: the space, and the price of a genome. */
#include "tools/evolve/evolve.h"
#include <inttypes.h>
#include <string.h>

/* ---- the space --------------------------------------------------------------------------- */

int evolve_print_space(evolve *e)
{
    const sw_status status = e->opts.space != NULL
                                 ? sw_search_space_load(&e->space, e->opts.space)
                                 : sw_search_space_default(&e->space, &e->task);
    if (status != SW_OK)
        return cli_library_error(status, true);
    const char *text = sw_search_space_text(e->space);
    const size_t n = strlen(text);
    fwrite(text, 1, n, stdout);
    if (n == 0 || text[n - 1] != '\n')
        putchar('\n');
    return cli_finish(CLI_DONE);
}

/* ---- a price ----------------------------------------------------------------------------- */

/* As a member of a run is, which has the utility of its neurons too. */
static sw_net_opts member_opts(const evolve *e)
{
    sw_net_opts opts = e->net;
    opts.utility = 1;
    return opts;
}

/* The phases of a training step, which the price has as one: of the variant that takes more. */
static sw_status plan_phases(evolve *e, const sw_genome *genome, int64_t batch,
                             sw_plan_info *plan)
{
    const sw_net_opts opts = member_opts(e);
    sw_net *net;
    SW_TRY(sw_net_create(&net, genome, &opts));
    sw_model *model = sw_net_model(net);
    const sw_array *field = e->job.train.info.field;
    sw_array inputs[2];
    for (int i = 0; i < 2; i++) {
        inputs[i] =
            (sw_array){.dtype = field[i].dtype, .shape = {.rank = field[i].shape.rank + 1}};
        inputs[i].shape.dim[0] = batch;
        for (int d = 0; d < field[i].shape.rank; d++)
            inputs[i].shape.dim[d + 1] = field[i].shape.dim[d];
    }
    sw_run_args args =
        SW_OPTS(sw_run_args, .fn = sw_net_step, .user = net, .models = &model, .n_models = 1,
                .inputs = inputs, .n_inputs = 2, .mode = SW_TRAIN);
    sw_plan_info other = SW_OPTS(sw_plan_info);
    sw_status status = sw_plan(e->exec, &args, plan);
    args.variant = 1;
    if (status == SW_OK)
        status = sw_plan(e->exec, &args, &other);
    if (status == SW_OK && other.peak_bytes > plan->peak_bytes)
        *plan = other;
    sw_net_destroy(net);
    return status;
}

static void print_price(const char *path, const sw_genome_info *g, const sw_price *p,
                        const sw_plan_info *plan)
{
    printf("%s: %u vertices, %s parameters, %s, batch %" PRId64 "\n\n", path, g->n_vertices,
           cli_digits(p->parameters).text, g->optimizer, g->batch);
    printf("peak       %s\n", result_both(p->peak_bytes).text);
    printf("model      %s\narena      %s\n", result_both(p->model_bytes).text,
           result_both(p->arena_bytes).text);
    printf("batch      %s\n", result_both(p->batch_bytes).text);
    printf("operations %s of a step, %.6g of a sample\n", cli_digits(p->operations).text,
           p->operations_per_sample);
    printf("found in   %s\n\n", cli_ns(p->ns).text);
    result_print_phases(plan->phase, NULL);
}

static int put_price(const sw_genome_info *g, const sw_price *p, const sw_plan_info *plan)
{
    sw_json json;
    result_json_begin(&json);
    sw_json_put_string(&json, "name", g->name);
    sw_json_put_u64(&json, "vertices", g->n_vertices);
    sw_json_put_u64(&json, "parameters", p->parameters);
    sw_json_put_i64(&json, "batch", g->batch);
    sw_json_put_u64(&json, "peak_bytes", p->peak_bytes);
    sw_json_put_u64(&json, "model_bytes", p->model_bytes);
    sw_json_put_u64(&json, "arena_bytes", p->arena_bytes);
    sw_json_put_u64(&json, "batch_bytes", p->batch_bytes);
    sw_json_put_u64(&json, "operations", p->operations);
    sw_json_put_f64(&json, "operations_per_sample", p->operations_per_sample);
    sw_json_put_u64(&json, "ns", p->ns);
    result_put_phases(&json, "predicted", plan->phase);
    return result_json_end(&json, CLI_DONE);
}

/* Of the data that a genome is for. */
static int check_genome(const evolve *e, const sw_genome_info *g)
{
    const sw_task *t = &e->task;
    if (g->channels == t->channels && g->height == t->height && g->width == t->width &&
        g->classes == t->classes)
        return CLI_GO;
    return cli_error(CLI_USAGE,
                     "--price %s: it reads %" PRId64 " x %" PRId64 " x %" PRId64
                     " and gives %" PRId64 " classes; --data %s has %" PRId64 " x %" PRId64
                     " x %" PRId64 " and %" PRId64,
                     e->opts.price, g->channels, g->height, g->width, g->classes,
                     e->opts.job.data, t->channels, t->height, t->width, t->classes);
}

static int price(evolve *e, const sw_genome *genome)
{
    sw_genome_info info = SW_OPTS(sw_genome_info);
    const sw_net_opts opts = member_opts(e);
    sw_price found = SW_OPTS(sw_price);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    sw_status status = sw_genome_describe(genome, &info);
    const int code = status == SW_OK ? check_genome(e, &info) : CLI_GO;
    if (code != CLI_GO)
        return code;
    if (status == SW_OK)
        status = evolve_exec(e, &e->exec);
    if (status == SW_OK)
        status = sw_genome_price(genome, e->exec, &opts, e->input, &found);
    if (status == SW_OK)
        status = plan_phases(e, genome, info.batch, &plan);
    if (status == SW_OK && e->opts.plot != NULL)
        status = evolve_graph_save(genome, e->opts.plot);
    if (status != SW_OK)
        return cli_library_error(status, false);
    if (e->opts.json)
        return put_price(&info, &found, &plan);
    print_price(e->opts.price, &info, &found, &plan);
    return cli_finish(CLI_DONE);
}

int evolve_price(evolve *e)
{
    sw_genome *genome;
    const sw_status status = sw_genome_load(&genome, e->opts.price);
    if (status != SW_OK)
        return cli_library_error(status, true);
    const int code = price(e, genome);
    sw_genome_destroy(genome);
    return code;
}
