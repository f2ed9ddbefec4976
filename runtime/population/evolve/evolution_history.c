/* DIR/history.jsonl: a line for each member and generation, of what it was and what became of
 * it. A run that goes on cuts it to what the last whole generation knew of it. */
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution_files.h"
#include <string.h>

sw_status swi_evolution_log_begin(sw_evolution *e)
{
    char path[SWI_EVOLUTION_PATH];
    swi_evolution_path(e, "history.jsonl", path);
    SW_TRY(sw_file_open(&e->history, path, SW_FILE_KEEP));
    SW_TRY(sw_file_own(e->history, path)); /* one run at a time writes into the folder */
    return sw_file_cut(e->history, e->history_bytes);
}

static void write_line(sw_json *j, const sw_evolution *e, const swi_one *one)
{
    sw_json_begin(j, '{');
    sw_json_put_u64(j, "generation", e->generation);
    sw_json_put_u64(j, "id", one->id);
    swi_put_counts(j, "parents", one->parents, 2);
    swi_birth_write(j, "born", &one->birth);
    swi_ops_write(j, one);
    swi_put_hex(j, "genome", swi_genome_hash(one->genome));
    sw_json_put_i64(j, "batch", one->genome->batch);
    sw_json_put_u64(j, "vertices", one->genome->n);
    sw_json_put_u64(j, "parameters", one->price.parameters);
    sw_json_put_u64(j, "operations", one->price.operations);
    sw_json_put_u64(j, "peak_bytes", one->price.peak_bytes);
    sw_json_put_u64(j, "measured_bytes", one->measured);
    sw_json_put_u64(j, "made", one->made);
    sw_json_put_u64(j, "steps", one->steps);
    sw_json_put_f64(j, "loss", one->loss);
    sw_json_put_f64(j, "accuracy", one->accuracy);
    sw_json_put_f64(j, "train_accuracy", one->train_accuracy);
    sw_json_put_f64(j, "fitness", one->fitness);
    swi_put_reals(j, "objectives", one->objectives, e->fitness.n_objectives);
    sw_json_put_u64(j, "rank", one->rank);
    sw_json_put_string(j, "why", one->invalid ? one->why : NULL);
    sw_json_put_u64(j, "ns_per_sample", one->ns_per_sample);
    sw_json_end(j);
    sw_json_line(j);
}

sw_status swi_evolution_log_write(sw_evolution *e)
{
    sw_json j;
    if (e->opts.dir == NULL)
        return SW_OK;
    sw_json_growing(&j, SW_HEAP_FILES);
    for (uint32_t i = 0; i < e->opts.population; i++)
        write_line(&j, e, &e->members[i]);
    sw_status status = j.status;
    if (status == SW_OK)
        status = sw_file_cut(e->history, e->history_bytes);
    if (status == SW_OK)
        status = sw_file_write(e->history, j.bytes, j.used);
    if (status == SW_OK)
        e->history_bytes += j.used;
    sw_json_free(&j);
    return status;
}
