/* The folder of a run: what the library keeps there, and what people read. */
#include "tools/evolve/evolve.h"
#include "tools/evolve/evolve_graph.h"
#include <errno.h>
#include "profiler/record/json_read.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HISTORY "history.jsonl" /* the library's */

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
    const bool there = sw_file_taken(evolve_path(e, HISTORY));
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

/* ---- generations.jsonl ------------------------------------------------------------------- */

void evolve_row_put(sw_json *json, const evolve_row *r)
{
    sw_json_put_u64(json, "generation", r->generation);
    sw_json_put_f64(json, "best", r->best);
    sw_json_put_f64(json, "mean", r->mean);
    sw_json_put_f64(json, "accuracy", r->accuracy);
    sw_json_put_f64(json, "mean_accuracy", r->mean_accuracy);
    sw_json_put_u64(json, "best_id", r->best_id);
    sw_json_put_u64(json, "parameters", r->parameters);
    sw_json_put_u64(json, "best_bytes", r->best_bytes);
    sw_json_put_u64(json, "largest_bytes", r->largest_bytes);
    sw_json_put_u64(json, "mutants", r->mutants);
    sw_json_put_u64(json, "refused", r->refused);
    sw_json_put_u64(json, "invalid", r->invalid);
    sw_json_put_u64(json, "steps", r->steps);
    sw_json_put_u64(json, "ns", r->ns);
}

typedef struct {
    const char *name;
    double *real;
    uint64_t *count;
} row_field;

static sw_status read_member(sw_json_in *in, const char *key, void *context)
{
    evolve_row *r = context;
    uint64_t bytes[2] = {r->best_bytes, r->largest_bytes}, invalid = r->invalid;
    const row_field fields[] = {{"generation", NULL, &r->generation},
                                {"best", &r->best, NULL},
                                {"mean", &r->mean, NULL},
                                {"accuracy", &r->accuracy, NULL},
                                {"mean_accuracy", &r->mean_accuracy, NULL},
                                {"best_id", NULL, &r->best_id},
                                {"parameters", NULL, &r->parameters},
                                {"best_bytes", NULL, &bytes[0]},
                                {"largest_bytes", NULL, &bytes[1]},
                                {"mutants", NULL, &r->mutants},
                                {"refused", NULL, &r->refused},
                                {"invalid", NULL, &invalid},
                                {"steps", NULL, &r->steps},
                                {"ns", NULL, &r->ns}};
    sw_json_number number;
    sw_json_word word;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    if (c == 'n')
        return sw_json_get_word(in, &word); /* null: stays NaN */
    SW_TRY(sw_json_get_number(in, &number));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(fields[i].name, key) != 0)
            continue;
        if (fields[i].real != NULL)
            *fields[i].real = number.real;
        else
            *fields[i].count = number.magnitude;
    }
    r->best_bytes = (size_t)bytes[0];
    r->largest_bytes = (size_t)bytes[1];
    r->invalid = (uint32_t)invalid;
    return SW_OK;
}

static sw_status keep_row(evolve *e, const evolve_row *row)
{
    if (e->n_rows == e->cap_rows) {
        void *block = e->rows;
        const size_t more = e->cap_rows > 0 ? 2 * e->cap_rows : 64;
        SW_TRY(sw_heap_resize(&block, SW_HEAP_RECORDS, e->cap_rows * sizeof *e->rows,
                              more * sizeof *e->rows));
        e->rows = block;
        e->cap_rows = more;
    }
    e->rows[e->n_rows++] = *row;
    return SW_OK;
}

static sw_status write_row(sw_file *file, const evolve_row *row)
{
    char text[640];
    sw_json json;
    sw_json_fixed(&json, text, sizeof text, NULL, NULL);
    sw_json_begin(&json, '{');
    evolve_row_put(&json, row);
    sw_json_end(&json);
    sw_json_line(&json);
    SW_TRY(json.status);
    return sw_file_write(file, text, json.used);
}

sw_status evolve_row_add(evolve *e, const evolve_row *row)
{
    sw_file *file;
    uint64_t bytes;
    SW_TRY(keep_row(e, row));
    SW_TRY(sw_file_open(&file, evolve_path(e, "generations.jsonl"), SW_FILE_KEEP));
    sw_status status = sw_file_size(file, &bytes);
    if (status == SW_OK)
        status = sw_file_seek(file, bytes);
    if (status == SW_OK)
        status = write_row(file, row);
    const sw_status closed = sw_file_close(file);
    return status == SW_OK ? closed : status;
}

static sw_status write_rows(void *context, sw_file *file)
{
    const evolve *e = context;
    for (size_t i = 0; i < e->n_rows; i++)
        SW_TRY(write_row(file, &e->rows[i]));
    return SW_OK;
}

/* A line that a process which was killed left half is no line. */
static sw_status read_lines(evolve *e, const char *text, size_t n, const char *path,
                            uint64_t generation)
{
    for (size_t at = 0, line = 1; at < n; line++) {
        const char *end = memchr(text + at, '\n', n - at);
        evolve_row row = {.best = NAN, .mean = NAN, .accuracy = NAN, .mean_accuracy = NAN};
        if (end == NULL)
            break;
        sw_json_in in = sw_json_in_text(text + at, (size_t)(end - text) - at, path);
        in.line = line;
        SW_TRY(sw_json_get_object(&in, read_member, &row));
        if (row.generation < generation && row.generation == e->n_rows)
            SW_TRY(keep_row(e, &row));
        at = (size_t)(end - text) + 1;
    }
    return SW_OK;
}

sw_status evolve_rows_read(evolve *e, uint64_t generation)
{
    const char *path = evolve_path(e, "generations.jsonl");
    sw_file *file;
    uint64_t bytes;
    size_t got;
    void *text = NULL;
    if (!sw_file_there(path))
        return SW_OK;
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    sw_status status = sw_file_size(file, &bytes);
    if (status == SW_OK)
        status = sw_heap_alloc(&text, SW_HEAP_FILES, (size_t)bytes);
    if (status == SW_OK)
        status = sw_file_read(file, text, (size_t)bytes, &got);
    if (status == SW_OK)
        status = read_lines(e, text, got, path, generation);
    if (text != NULL)
        sw_heap_free(text, SW_HEAP_FILES, (size_t)bytes);
    sw_file_drop(file);
    return status == SW_OK ? sw_file_replace(path, write_rows, e) : status;
}

/* ---- the best ---------------------------------------------------------------------------- */

/* Its state is asked for first: what fails there leaves the files that were there. */
static sw_status save_params(evolve *e)
{
    sw_net *net;
    SW_TRY(sw_evolution_net(e->evolution, UINT32_MAX, &net));
    sw_status status = SW_OK;
    if (*e->job.normal.text != '\0')
        status = sw_model_note(sw_net_model(net), JOB_NORMAL_KEY, e->job.normal.text);
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
