/* DIR/generation.json: all that a generation begins with but for the states of its members,
 * which are files in DIR/members. It is written when those are there, and the one before it is
 * generation.json.1 from then on, as with checkpoints; then what neither of both needs is
 * removed. */
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution_files.h"
#include <stdio.h>
#include <string.h>

/* ---- writing ----------------------------------------------------------------------------- */

static sw_status write_genome(sw_json *j, const sw_genome *genome)
{
    char *text;
    size_t bytes;
    SW_TRY(sw_genome_print(genome, &text, &bytes));
    sw_json_put_string(j, "genome", text);
    sw_text_free(text, bytes);
    return SW_OK;
}

static sw_status write_one(sw_json *j, const sw_evolution *e, const swi_one *one)
{
    const double numbers[] = {one->fitness, one->loss, one->accuracy, one->train_accuracy};
    const uint64_t counts[] = {one->measured, one->ns_per_sample, one->rank};
    const uint64_t state[] = {one->rest.generation, one->rest.bytes};
    sw_json_begin(j, '{');
    sw_json_put_u64(j, "id", one->id);
    swi_put_counts(j, "parents", one->parents, 2);
    swi_birth_write(j, "born", &one->birth);
    swi_ops_write(j, one);
    sw_json_put_u64(j, "steps", one->begun ? one->begin_steps : one->steps);
    swi_put_reals(j, "averages", one->averages.of, e->fitness.n);
    swi_put_reals(j, "objectives", one->objectives, e->fitness.n_objectives);
    swi_put_reals(j, "numbers", numbers, 4);
    swi_put_counts(j, "counts", counts, 3);
    swi_put_counts(j, "state", state, 2);
    swi_put_hex(j, "sum", one->rest.sum);
    SW_TRY(write_genome(j, one->genome));
    sw_json_end(j);
    return SW_OK;
}

static sw_status write_all(sw_json *j, const sw_evolution *e)
{
    sw_json_begin(j, '{');
    sw_json_put_string(j, "format", SWI_GENERATION_FORMAT);
    swi_options_write(j, e);
    sw_json_put_u64(j, "generation", e->generation);
    sw_json_put_u64(j, "next_id", e->next_id);
    sw_json_put_u64(j, "history_bytes", e->history_bytes);
    sw_json_put_u64(j, "steps", e->steps - e->early);
    sw_json_put_u64(j, "mutants", e->mutants);
    sw_json_put_u64(j, "refused", e->refused);
    sw_json_open(j, "members", '[');
    for (uint32_t i = 0; i < e->opts.population; i++)
        SW_TRY(write_one(j, e, &e->members[i]));
    sw_json_end(j);
    sw_json_open(j, "best", '[');
    if (e->has_best)
        SW_TRY(write_one(j, e, &e->best));
    sw_json_end(j);
    swi_put_hex(j, "sum", 0);
    sw_json_end(j);
    sw_json_line(j);
    return j->status;
}

/* Bytes after those that the sum is of. */
enum { TAIL = 29 };
static void tail_of(char to[TAIL + 1], const char *text, size_t n)
{
    (void)snprintf(to, TAIL + 1, ",\"sum\":\"0x%016llx\"}\n",
                   (unsigned long long)swi_sum_of(text, n, 0));
}

/* The format is judged first: each one has its own sum. */
sw_status swi_generation_check(const char *text, size_t n, const char *path)
{
    char tail[TAIL + 1], format[64];
    const bool known = sscanf(text, "{\"format\":\"%63[^\"]", format) == 1;
    if (known && strcmp(format, SWI_GENERATION_FORMAT) != 0)
        SW_FAIL(
            SW_FORMAT,
            "%s: its format is \"%s\", and this library goes on with \"%s\" alone: go on with "
            "the version that began the run, or begin one in another folder",
            path, format, SWI_GENERATION_FORMAT);
    if (n >= TAIL)
        tail_of(tail, text, n - TAIL);
    if (!known || n < TAIL || memcmp(text + n - TAIL, tail, TAIL) != 0)
        SW_FAIL(SW_FORMAT, "%s is damaged: it is not what was written", path);
    return SW_OK;
}

/* In the place of that with zeros. */
static sw_status put_sum(sw_json *j)
{
    char tail[TAIL + 1];
    SW_TRY(j->status);
    tail_of(tail, j->bytes, j->used - TAIL);
    memcpy(j->bytes + j->used - TAIL, tail, TAIL);
    return SW_OK;
}

static sw_status write_text(void *context, sw_file *f)
{
    const sw_json *j = context;
    return sw_file_write(f, j->bytes, j->used);
}

sw_status swi_generation_write(sw_evolution *e)
{
    char path[SWI_EVOLUTION_PATH];
    sw_json j;
    swi_evolution_path(e, "generation.json", path);
    sw_json_growing(&j, SW_HEAP_FILES);
    sw_status status = write_all(&j, e);
    if (status == SW_OK)
        status = put_sum(&j);
    if (status == SW_OK)
        status = sw_file_replace_with(path, &(sw_replace_opts){.write = write_text,
                                                               .context = &j,
                                                               .keep = SWI_GENERATIONS_KEPT,
                                                               .drop_old = e->drop_old});
    sw_json_free(&j);
    SW_TRY(status);
    e->drop_old = false;
    swi_states_note(e, e->members, e->has_best ? &e->best : NULL);
    swi_states_sweep(e);
    return SW_OK;
}
