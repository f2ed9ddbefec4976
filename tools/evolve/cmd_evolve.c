/* stepwell evolve: load and split the data, make a population that fits the budget, evolve it,
 * keep the best, test it, say what was found. All refusals come before the first generation. */
#include "tools/evolve/evolve.h"
#include <inttypes.h>

/* Facts about the data: shapes of samples, and how bytes become numbers. */
static int describe(evolve *e)
{
    const sw_dataset_info *info = &e->job.train.info;
    const sw_shape *s = &info->field[0].shape;
    const job_normal *normal = &e->job.normal;
    if (tool_task_of(info) != TOOL_CLASSIFY || (s->rank != 1 && s->rank != 3))
        return cli_error(CLI_USAGE, "--data %s has no classes of images or vectors",
                         e->opts.job.data);
    e->task = SW_OPTS(sw_task, .channels = s->dim[0], .height = s->rank == 3 ? s->dim[1] : 0,
                      .width = s->rank == 3 ? s->dim[2] : 0, .classes = info->n_classes);
    e->input = info->field[0].dtype;
    e->net = SW_OPTS(sw_net_opts, .n_scales = normal->pixels.n);
    for (int i = 0; i < normal->pixels.n; i++) {
        e->net.scale[i] = 1.0f / (255.0f * normal->pixels.deviation[i]);
        e->net.shift[i] = -normal->pixels.mean[i] / normal->pixels.deviation[i];
    }
    return CLI_GO;
}

static bool is_asked(const evolve_opts *o)
{
    return o->print_space || o->price != NULL;
}

/* Everything up to the first generation. CLI_GO or the exit status. */
static int prepare(evolve *e)
{
    cli_catch_interrupt();
    int status = is_asked(&e->opts) ? CLI_GO : evolve_files_check(e);
    e->job.quiet = e->opts.quiet;
    if (status == CLI_GO)
        status = job_load(&e->job, is_asked(&e->opts));
    return status == CLI_GO ? describe(e) : status;
}

/* Files of what there is; then, where the search came to its end, what the best net does. */
static sw_status finish(evolve *e)
{
    SW_TRY(evolve_find_best(e));
    SW_TRY(evolve_save_best(e));
    SW_TRY(evolve_report_save(e));
    if (cli_interrupted() || !e->has_best)
        return SW_OK;
    evolve_end_population(e);
    SW_TRY(evolve_test_best(e));
    if (e->opts.retrain > 0)
        SW_TRY(evolve_retrain(e));
    return evolve_report_save(e);
}

static void say_how_to_go_on(const evolve *e)
{
    if (cli_interrupted() && e->done < e->generations)
        cli_note("interrupted in generation %" PRIu64 ": --resume begins it again", e->done);
    else if (e->timed_out && !e->opts.quiet)
        cli_note("the time is over in generation %" PRIu64 ": --resume begins it again",
                 e->done);
}

static int search(evolve *e)
{
    int status = evolve_open(e);
    if (status != CLI_GO)
        return status;
    sw_status ran = evolve_loop(e);
    e->wall_ns = cli_clock_ns() - e->began_ns;
    cli_progress("%s", "");
    if (ran == SW_OK)
        ran = finish(e);
    if (ran != SW_OK)
        return cli_library_error(ran, false);
    say_how_to_go_on(e);
    return evolve_print(e, cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE);
}

int tool_evolve(int argc, char **argv)
{
    static evolve e; /* large */
    int status = evolve_parse(&e, argc, argv);
    if (status != CLI_GO)
        return status;
    status = prepare(&e);
    if (status == CLI_GO)
        status = e.opts.print_space     ? evolve_print_space(&e)
                 : e.opts.price != NULL ? evolve_price(&e)
                                        : search(&e);
    evolve_close(&e);
    evolve_files_close(&e);
    return status;
}
