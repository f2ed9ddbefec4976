/* Small runs of an evolution. */
#include "tests/evolve/evolution_scene.h"
#include "tests/support/files.h"
#include "runtime/population/evolve/evolution.h"
#include <sys/stat.h>

evo_data evo_digits(int64_t train, int64_t validation)
{
    evo_data data = {NULL, NULL};
    OK(sw_dataset_synthetic(&data.train, train, 7));
    AFTER(sw_dataset_destroy, data.train);
    OK(sw_dataset_synthetic(&data.validation, validation, 8));
    AFTER(sw_dataset_destroy, data.validation);
    return data;
}

/* Images of 28 x 28 shrink at once to 7 x 7, or are flattened: a step takes microseconds. */
static const char small_space[] =
    "{\"format\": \"stepwell search space 1\",\n"
    " \"parts\": {\n"
    "  \"act\": {\"vertex\": \"activation\"},\n"
    "  \"conv\": {\"chain\": [\n"
    "   {\"vertex\": \"conv2d\", \"size\": {\"from\": 2, \"to\": 6}, \"kernel\": 3},\n"
    "   {\"vertex\": \"batch_norm\"}, {\"use\": \"act\"}]},\n"
    "  \"dense\": {\"chain\": [\n"
    "   {\"vertex\": \"linear\", \"size\": {\"from\": 4, \"to\": 12}}, {\"use\": \"act\"}]}},\n"
    " \"body\": {\"chain\": [\n"
    "  {\"vertex\": \"avg_pool\", \"kernel\": 4, \"stride\": 4},\n"
    "  {\"choice\": [{\"use\": \"conv\"}, {\"residual\": {\"use\": \"conv\"}},\n"
    "   {\"chain\": []}]},\n"
    "  {\"vertex\": \"flatten\"},\n"
    "  {\"repeat\": {\"use\": \"dense\"}, \"times\": [0, 2]},\n"
    "  {\"choice\": [{\"chain\": []}, {\"vertex\": \"dropout\", \"rate\": 0.1}]}]},\n"
    " \"insert\": [{\"if\": \"image\", \"then\": {\"use\": \"conv\"},\n"
    "  \"else\": {\"choice\": [{\"use\": \"dense\"}, {\"residual\": {\"use\": "
    "\"dense\"}}]}}],\n"
    " \"optimizers\": [\"adam\", \"sgd\"],\n"
    " \"lr\": {\"from\": 0.001, \"to\": 0.02},\n"
    " \"batch\": [8, 16],\n"
    " \"activations\": [\"relu\", \"tanh\"]}\n";

static const char dense_space[] =
    "{\"format\": \"stepwell search space 1\",\n"
    " \"body\": {\"chain\": [{\"vertex\": \"flatten\"},\n"
    "  {\"vertex\": \"linear\", \"size\": {\"from\": 8, \"to\": 12}},\n"
    "  {\"vertex\": \"activation\", \"activation\": \"relu\"}]},\n"
    " \"optimizers\": [\"adam\"], \"lr\": 0.003, \"batch\": [8, 16]}\n";

static sw_search_space *space_of(const char *text)
{
    sw_search_space *space = NULL;
    OK(sw_search_space_parse(&space, text, strlen(text), "a space"));
    AFTER(sw_search_space_destroy, space);
    return space;
}

sw_search_space *evo_space(void)
{
    return space_of(small_space);
}

sw_search_space *evo_dense_space(void)
{
    return space_of(dense_space);
}

sw_evolution_opts evo_opts(const evo_data *data, sw_evolution_opts given)
{
    given.size = sizeof given;
    given.train = data->train;
    given.validation = data->validation;
    given.space = given.space != NULL ? given.space : evo_space();
    given.trainings = given.trainings > 0 ? given.trainings : 6;
    given.start = given.start > 0 ? given.start : 6;
    given.samples = given.samples > 0 ? given.samples : 288;
    given.seed = given.seed > 0 ? given.seed : 5;
    return given;
}

sw_exec *evo_exec(int threads, sw_budget *budget)
{
    return made_exec(&SW_OPTS(sw_exec_opts, .threads = threads, .budget = budget));
}

sw_evolution *evo_evolution(sw_exec *exec, const sw_evolution_opts *opts)
{
    sw_evolution *e = NULL;
    OK(sw_evolution_create(&e, exec, opts));
    AFTER(sw_evolution_destroy, e);
    return e;
}

void evo_run(sw_evolution *e, uint64_t trainings)
{
    sw_evolve_progress p = SW_OPTS(sw_evolve_progress);
    while (p.generation < trainings && p.what != SW_EVOLVE_ENDED &&
           OK(sw_evolution_advance(e, &p)))
        ;
}

sw_candidate evo_member(sw_evolution *e, uint32_t i)
{
    sw_candidate c = SW_OPTS(sw_candidate);
    OK(sw_evolution_member(e, i, &c));
    return c;
}

uint64_t evo_net_sum(const sw_net *made)
{
    return swi_sum_of(made->model->base, made->model->bytes, swi_genome_hash(made->genome));
}

static uint64_t sum_of_member(sw_evolution *e, uint32_t i, uint64_t sum)
{
    const sw_candidate c = evo_member(e, i);
    sw_genome_info info = SW_OPTS(sw_genome_info);
    sw_net *made = NULL;
    OK(sw_genome_describe(c.genome, &info));
    const uint64_t numbers[] = {c.id,
                                c.parents[0],
                                c.born,
                                info.hash,
                                (uint64_t)c.rung,
                                c.price->peak_bytes,
                                c.training ? 0 : c.steps};
    const double reals[] = {c.fitness, c.loss, c.accuracy, c.train_accuracy, c.mean};
    sum = swi_sum_of(numbers, sizeof numbers, sum);
    sum = swi_sum_of(reals, sizeof reals, sum);
    if (c.training || sw_net_copy(&made, e, i) != SW_OK)
        return sum;
    const uint64_t weights = evo_net_sum(made);
    sw_net_destroy(made);
    return swi_sum_of(&weights, sizeof weights, sum);
}

uint64_t evo_sum(sw_evolution *e)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sw_evolution_count(e); i++)
        sum = sum_of_member(e, i, sum);
    return sum;
}

const char *evo_folder(void)
{
    static int n;
    static char path[1024];
    char name[32];
    (void)snprintf(name, sizeof name, "run%d", n++);
    (void)snprintf(path, sizeof path, "%s", sw_temp_path(name));
    CU_ASSERT_EQUAL_FATAL(mkdir(path, 0700), 0);
    return path;
}

char *evo_read(const char *path, size_t *n)
{
    char *bytes = sw_file_text(path, n);
    SW_CHECK(bytes != NULL, "%s", path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    sw_after(free, bytes);
    return bytes;
}

char *evo_history(const char *dir)
{
    char path[1100];
    size_t n;
    (void)snprintf(path, sizeof path, "%s/history.jsonl", dir);
    char *text = evo_read(path, &n), *to = text;
    for (char *line = text, *next; *line != '\0'; line = next) {
        const size_t all = strcspn(line, "\n");
        char *end = strstr(line, ",\"ns_per_sample\"");
        next = line + all + (line[all] != '\0');
        if (end == NULL || end > line + all) /* of a beginning */
            end = line + all;
        memmove(to, line, (size_t)(end - line));
        to += end - line;
        *to++ = '\n';
    }
    *to = '\0';
    return text;
}

/* ---- files ------------------------------------------------------------------------------- */

typedef struct {
    evo_tree *tree; /* NULL: files are removed */
    const char *dir;
} walk;

static bool take_file(void *context, const char *name)
{
    const walk *w = context;
    char path[1200];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/%s", w->dir, name);
    CU_ASSERT_EQUAL_FATAL(stat(path, &st), 0);
    if (S_ISDIR(st.st_mode)) {
        walk inner = {w->tree, path};
        OK(sw_folder_for_each(path, take_file, &inner));
        return true;
    }
    if (w->tree == NULL)
        return remove(path) == 0;
    evo_tree *t = w->tree;
    CU_ASSERT_FATAL(t->n < EVO_FILES);
    t->path[t->n] = strcpy(sw_block(strlen(path) + 1), path);
    t->bytes[t->n] = evo_read(path, &t->size[t->n]);
    t->n++;
    return true;
}

void evo_tree_take(evo_tree *tree, const char *dir)
{
    walk w = {tree, dir};
    tree->n = 0;
    OK(sw_folder_for_each(dir, take_file, &w));
}

void evo_tree_put(const evo_tree *tree, const char *dir)
{
    walk w = {NULL, dir};
    OK(sw_folder_for_each(dir, take_file, &w));
    for (int i = 0; i < tree->n; i++)
        sw_file_put(tree->path[i], tree->bytes[i], tree->size[i]);
}
