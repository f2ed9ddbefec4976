/* Lines of the folder that are read again: generations.jsonl, which is written here, and
 * history.jsonl, which is the library's. */
#include "runtime/population/evolve/genome.h"
#include "tools/evolve/evolve.h"
#include <math.h>
#include <string.h>

/* ---- numbers by name --------------------------------------------------------------------- */

/* A number of an object: one of both. null is NAN. */
typedef struct {
    const char *name;
    double *real;
    uint64_t *count;
} number;

/* The value after `key`, where it is one of n numbers; others are passed over. */
static sw_status take_number(sw_json_in *in, const char *key, const number *numbers, size_t n)
{
    size_t i = 0;
    sw_json_number x;
    int c;
    while (i < n && strcmp(numbers[i].name, key) != 0)
        i++;
    SW_TRY(sw_json_peek(in, &c));
    if (i == n || c == 'n')
        return sw_json_skip(in);
    SW_TRY(sw_json_get_number(in, &x));
    if (numbers[i].real != NULL)
        *numbers[i].real = x.real;
    else
        *numbers[i].count = x.magnitude;
    return SW_OK;
}

/* ---- whole files ------------------------------------------------------------------------- */

/* Called with each whole line; half a line of a process that was killed is no line. A line that
 * cannot be read is passed over: SW_FORMAT leaves everything as it was. */
typedef sw_status take_line(evolve *e, sw_json_in *in, uint64_t generation);

static sw_status each_line(evolve *e, const char *text, size_t n, const char *path,
                           take_line *take, uint64_t generation)
{
    for (size_t at = 0, line = 1; at < n; line++) {
        const char *end = memchr(text + at, '\n', n - at);
        if (end == NULL)
            break;
        sw_json_in in = sw_json_in_text(text + at, (size_t)(end - text) - at, path);
        in.line = line;
        const sw_status status = take(e, &in, generation);
        if (status != SW_OK && status != SW_FORMAT)
            return status;
        if (status == SW_FORMAT)
            cli_note("a damaged line is passed over: %s", sw_last_error());
        at = (size_t)(end - text) + 1;
    }
    return SW_OK;
}

/* A file that is not there has no lines. */
static sw_status read_lines(evolve *e, const char *path, take_line *take, uint64_t generation)
{
    char *text;
    size_t n;
    if (!sw_file_there(path))
        return SW_OK;
    SW_TRY(swi_text_load(&text, &n, path, "a file of lines", SIZE_MAX / 2));
    const sw_status status = each_line(e, text, n, path, take, generation);
    sw_text_free(text, n);
    return status;
}

/* ---- generations.jsonl ------------------------------------------------------------------- */

enum { ROW_NUMBERS = 17 };
static void row_numbers(evolve_row *r, number *to)
{
    const number all[ROW_NUMBERS] = {{"generation", NULL, &r->generation},
                                     {"best", &r->best, NULL},
                                     {"mean", &r->mean, NULL},
                                     {"accuracy", &r->accuracy, NULL},
                                     {"mean_accuracy", &r->mean_accuracy, NULL},
                                     {"best_id", NULL, &r->best_id},
                                     {"parameters", NULL, &r->parameters},
                                     {"best_bytes", NULL, &r->best_bytes},
                                     {"largest_bytes", NULL, &r->largest_bytes},
                                     {"population_bytes", NULL, &r->population_bytes},
                                     {"mutants", NULL, &r->mutants},
                                     {"refused", NULL, &r->refused},
                                     {"invalid", NULL, &r->invalid},
                                     {"compared", NULL, &r->compared},
                                     {"differ", NULL, &r->differ},
                                     {"steps", NULL, &r->steps},
                                     {"ns", NULL, &r->ns}};
    memcpy(to, all, sizeof all);
}

void evolve_row_put(sw_json *json, const evolve_row *row)
{
    evolve_row copy = *row;
    number numbers[ROW_NUMBERS];
    row_numbers(&copy, numbers);
    for (int i = 0; i < ROW_NUMBERS; i++)
        if (numbers[i].real != NULL)
            sw_json_put_f64(json, numbers[i].name, *numbers[i].real);
        else
            sw_json_put_known(json, numbers[i].name, i == 0 || !evolve_row_lost(row),
                              *numbers[i].count);
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

static sw_status take_row_number(sw_json_in *in, const char *key, void *row)
{
    number numbers[ROW_NUMBERS];
    row_numbers(row, numbers);
    return take_number(in, key, numbers, ROW_NUMBERS);
}

static const evolve_row lost = {.best = (double)NAN,
                                .mean = (double)NAN,
                                .accuracy = (double)NAN,
                                .mean_accuracy = (double)NAN};

/* The last line of a generation is the one that counts. */
static sw_status take_row(evolve *e, sw_json_in *in, uint64_t generation)
{
    evolve_row row = lost;
    row.generation = generation;
    SW_TRY(sw_json_get_object(in, take_row_number, &row));
    if (row.generation < generation)
        e->rows[row.generation] = row;
    return SW_OK;
}

sw_status evolve_rows_read(evolve *e, uint64_t generation)
{
    const char *path = evolve_path(e, "generations.jsonl");
    size_t n = 0;
    for (evolve_row row = lost; row.generation < generation; row.generation++)
        SW_TRY(keep_row(e, &row));
    SW_TRY(read_lines(e, path, take_row, generation));
    for (size_t i = 0; i < e->n_rows; i++)
        n += evolve_row_lost(&e->rows[i]);
    if (n > 0)
        cli_note("%s: %zu of %zu lines are lost", path, n, e->n_rows);
    return e->n_rows > 0 || sw_file_there(path) ? sw_file_replace(path, write_rows, e) : SW_OK;
}

evolve_row evolve_total(const evolve *e)
{
    evolve_row total = {.steps = 0};
    for (size_t i = 0; i < e->n_rows; i++) {
        const evolve_row *r = &e->rows[i];
        total.compared += r->compared;
        total.differ += r->differ;
        total.ns += r->ns;
        total.mutants = r->mutants > total.mutants ? r->mutants : total.mutants;
        total.refused = r->refused > total.refused ? r->refused : total.refused;
        total.steps = r->steps > total.steps ? r->steps : total.steps;
        if (r->population_bytes > total.population_bytes)
            total.population_bytes = r->population_bytes;
    }
    return total;
}

/* ---- history.jsonl ----------------------------------------------------------------------- */

typedef struct {
    evolve_member member;
    uint64_t generation;
} history_line;

static sw_status take_parents(sw_json_in *in, evolve_member *m)
{
    SW_TRY(sw_json_expect(in, '['));
    SW_TRY(sw_json_get_count(in, &m->parents[0]));
    SW_TRY(sw_json_expect(in, ','));
    SW_TRY(sw_json_get_count(in, &m->parents[1]));
    return sw_json_expect(in, ']');
}

static sw_status take_birth(sw_json_in *in, const char *key, void *member)
{
    evolve_member *m = member;
    const number numbers[] = {{"generation", NULL, &m->born}};
    return take_number(in, key, numbers, 1);
}

static sw_status take_member_field(sw_json_in *in, const char *key, void *context)
{
    history_line *l = context;
    evolve_member *m = &l->member;
    const number numbers[] = {{"generation", NULL, &l->generation},
                              {"id", NULL, &m->id},
                              {"vertices", NULL, &m->vertices},
                              {"parameters", NULL, &m->parameters},
                              {"operations", NULL, &m->operations},
                              {"peak_bytes", NULL, &m->predicted_bytes},
                              {"measured_bytes", NULL, &m->measured_bytes},
                              {"steps", NULL, &m->steps},
                              {"rank", NULL, &m->rank},
                              {"ns_per_sample", NULL, &m->ns_per_sample},
                              {"loss", &m->loss, NULL},
                              {"accuracy", &m->accuracy, NULL},
                              {"train_accuracy", &m->train_accuracy, NULL},
                              {"fitness", &m->fitness, NULL}};
    int c;
    if (strcmp(key, "parents") == 0)
        return take_parents(in, m);
    if (strcmp(key, "born") == 0)
        return sw_json_get_object(in, take_birth, m);
    SW_TRY(sw_json_peek(in, &c));
    if (strcmp(key, "why") == 0 && c == '"') {
        m->invalid = true;
        return sw_json_get_text(in, m->why, sizeof m->why);
    }
    return take_number(in, key, numbers, sizeof numbers / sizeof *numbers);
}

static sw_status take_member(evolve *e, sw_json_in *in, uint64_t generation)
{
    history_line l = {.member = {.fitness = (double)NAN,
                                 .accuracy = (double)NAN,
                                 .loss = (double)NAN,
                                 .train_accuracy = (double)NAN}};
    SW_TRY(sw_json_get_object(in, take_member_field, &l));
    if (l.generation == generation && e->n_members < (size_t)e->opts.population)
        e->members[e->n_members++] = l.member;
    return SW_OK;
}

sw_status evolve_members_read(evolve *e, uint64_t generation)
{
    e->n_members = 0;
    return read_lines(e, evolve_path(e, "history.jsonl"), take_member, generation);
}
