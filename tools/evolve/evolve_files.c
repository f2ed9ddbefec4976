/* The folder of a run: what the library keeps there, and what people read. */
#include "tools/evolve/evolve.h"
#include "tools/evolve/evolve_graph.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *evolve_path(const evolve *e, const char *name)
{
    static char paths[4][EVOLVE_PATH];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, EVOLVE_PATH, "%s/%s", e->opts.out, name);
    return path;
}

/* ---- the folder -------------------------------------------------------------------------- */

/* The folder that a path stands in. */
static const char *parent_of(const char *path, char *to, size_t bytes)
{
    snprintf(to, bytes, "%s", path);
    size_t n = strlen(to);
    while (n > 1 && to[n - 1] == '/')
        to[--n] = '\0';
    char *slash = strrchr(to, '/');
    if (slash == NULL)
        snprintf(to, bytes, ".");
    else
        slash[slash == to ? 1 : 0] = '\0';
    return to;
}

static int check_run(const evolve *e)
{
    const bool there = sw_file_taken(evolve_path(e, "generation.json")); /* the library's */
    if (e->opts.rebuild > 0 && !there)
        return cli_error(CLI_DAMAGED, "--rebuild: there is no run in %s", e->opts.out);
    if (e->opts.rebuild > 0 || e->opts.resume || !there)
        return CLI_GO;
    return cli_error(CLI_USAGE,
                     "--out %s: a run is there already. --resume goes on with it; to begin a "
                     "new one remove the folder, or name another",
                     e->opts.out);
}

int evolve_files_check(const evolve *e)
{
    const char *out = e->opts.out;
    char parent[EVOLVE_PATH];
    struct stat st;
    if (strlen(out) + 64 > EVOLVE_PATH)
        return cli_error(CLI_USAGE, "--out must have at most %d bytes", EVOLVE_PATH - 64);
    const bool there = stat(out, &st) == 0;
    if (there && !S_ISDIR(st.st_mode))
        return cli_error(CLI_FAILED, "--out %s is no folder", out);
    const char *written = there ? out : parent_of(out, parent, sizeof parent);
    if (access(written, W_OK | X_OK) != 0)
        return cli_error(CLI_FAILED, "--out %s: %s %s: %s", out, written,
                         errno == ENOENT ? "is not there" : "cannot be written",
                         strerror(errno));
    return check_run(e);
}

int evolve_files_open(evolve *e)
{
    const char *out = e->opts.out;
    struct stat st;
    if (stat(out, &st) != 0) {
        if (mkdir(out, 0777) != 0)
            return cli_error(CLI_FAILED, "--out %s cannot be made: %s", out, strerror(errno));
        e->made = true;
    }
    const sw_status status = sw_file_hold(&e->held, evolve_path(e, "run"));
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}

void evolve_files_close(evolve *e)
{
    sw_file_let_go(e->held);
    e->held = NULL;
    if (e->made)
        (void)rmdir(e->opts.out); /* not where it has files */
}

/* ---- the best ---------------------------------------------------------------------------- */

/* Its state is asked for first: what fails there leaves the files that were there. */
static sw_status save_params(evolve *e)
{
    sw_net *net;
    SW_TRY(sw_evolution_net(e->evolution, UINT32_MAX, &net));
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
    return evolve_graph_save(e->genome, evolve_path(e, "best.svg"));
}
