/* The folder of a run: what the library keeps there, and what people read. */
#include "tools/evolve/evolve.h"

const char *evolve_path(const evolve *e, const char *name)
{
    static char paths[4][EVOLVE_PATH];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, EVOLVE_PATH, "%s/%s", e->opts.out, name);
    return path;
}

/* ---- the folder -------------------------------------------------------------------------- */

static int check_run(const evolve *e)
{
    const bool there = sw_file_taken(evolve_path(e, "generation.json")) || /* the library's */
                       sw_file_taken(evolve_path(e, "generation.json.1"));
    if (e->opts.resume || !there)
        return CLI_GO;
    return cli_error(CLI_USAGE,
                     "--out %s: a run is there already. --resume goes on with it; to begin a "
                     "new one remove the folder, or name another",
                     e->opts.out);
}

int evolve_files_check(const evolve *e)
{
    const int status = job_folder_check("--out", e->opts.out);
    return status == CLI_GO ? check_run(e) : status;
}

int evolve_files_open(evolve *e)
{
    const int made = job_folder_make("--out", e->opts.out, &e->made);
    if (made != CLI_GO)
        return made;
    const sw_status status = cli_saved(sw_file_hold(&e->held, evolve_path(e, "run")));
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}

void evolve_files_close(evolve *e)
{
    sw_file_let_go(e->held);
    e->held = NULL;
    job_folder_leave(e->opts.out, e->made);
}

/* ---- the best ---------------------------------------------------------------------------- */

/* Its state is asked for first: what fails there leaves the files that were there. */
static sw_status save_params(evolve *e)
{
    sw_net *net;
    SW_TRY(sw_net_copy(&net, e->evolution, UINT32_MAX));
    sw_status status = job_note(&e->job, sw_net_model(net));
    if (status == SW_OK)
        status =
            cli_saved(sw_model_save(sw_net_model(net), evolve_path(e, "best.safetensors")));
    sw_net_destroy(net);
    return status;
}

sw_status evolve_save_best(evolve *e)
{
    if (!e->has_best)
        return SW_OK;
    SW_TRY(save_params(e));
    SW_TRY(cli_saved(sw_genome_save(e->genome, evolve_path(e, "best.json"))));
    return evolve_graph_save(e->genome, evolve_path(e, "best.dot"));
}
