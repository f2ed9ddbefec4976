#include "tests/evolve/net_scene.h"

/* sw_after takes 256 things; these are thousands. */
typedef struct {
    void (*end)(void *);
    void *what;
} later;
static later *things;
static size_t n_things, cap_things;

void scene_sweep(void)
{
    while (n_things > 0) {
        const later last = things[--n_things];
        last.end(last.what);
    }
}

static void end_things(void *unused)
{
    scene_sweep();
    free(things);
    things = NULL;
    cap_things = 0;
}

void scene_later(void (*end)(void *), void *what)
{
    if (cap_things == 0)
        sw_after(end_things, NULL);
    if (n_things == cap_things) {
        cap_things = cap_things == 0 ? 64 : 2 * cap_things;
        things = realloc(things, cap_things * sizeof *things);
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(things);
    things[n_things++] = (later){end, what};
}

/* ---- genomes ----------------------------------------------------------------------------- */

sw_genome *scene_genome(int64_t channels, int64_t height, int64_t width)
{
    sw_genome *g = NULL;
    OK(swi_genome_new(&g, &SW_OPTS(sw_task, .channels = channels, .height = height,
                                   .width = width, .classes = 10)));
    CU_ASSERT_PTR_NOT_NULL_FATAL(g);
    scene_later(ENDS(sw_genome_destroy, g), g);
    return g;
}

swi_vertex *scene_add(sw_genome *g, sw_vertex_kind kind, const char *name, uint32_t in)
{
    swi_vertex v = swi_vertex_of(kind);
    snprintf(v.name, sizeof v.name, "%s", name);
    v.in[0] = in;
    v.n_in = 1;
    OK(swi_genome_insert(g, g->n, &v));
    return &g->vertices[g->n - 1];
}

swi_vertex *scene_linear(sw_genome *g, const char *name, uint32_t in, int64_t size)
{
    swi_vertex *v = scene_add(g, SW_VERTEX_LINEAR, name, in);
    v->size = size;
    return v;
}

swi_vertex *scene_conv(sw_genome *g, const char *name, uint32_t in, int64_t size, int kernel)
{
    swi_vertex *v = scene_add(g, SW_VERTEX_CONV2D, name, in);
    v->size = size;
    v->kernel = kernel;
    return v;
}

swi_vertex *scene_activation(sw_genome *g, const char *name, uint32_t in, const char *which)
{
    swi_vertex *v = scene_add(g, SW_VERTEX_ACTIVATION, name, in);
    v->activation = swi_activation_find(which);
    return v;
}

void scene_check(sw_genome *g)
{
    OK(swi_genome_check(g, NULL));
}

static void pool(sw_genome *g, const char *name, uint32_t in)
{
    swi_vertex *v = scene_add(g, SW_VERTEX_MAX_POOL, name, in);
    v->kernel = v->stride = 2;
}

sw_genome *scene_lenet(void)
{
    sw_genome *g = scene_genome(1, 28, 28);
    scene_conv(g, "conv1", 0, 6, 5);
    scene_activation(g, "act1", 1, "relu");
    pool(g, "pool1", 2);
    scene_conv(g, "conv2", 3, 16, 5);
    scene_activation(g, "act2", 4, "relu");
    pool(g, "pool2", 5);
    scene_add(g, SW_VERTEX_FLATTEN, "flat", 6);
    scene_linear(g, "fc1", 7, 120);
    scene_activation(g, "act3", 8, "relu");
    scene_linear(g, "fc2", 9, 84);
    scene_activation(g, "act4", 10, "relu");
    scene_linear(g, "fc3", 11, 10);
    scene_check(g);
    return g;
}

sw_genome *scene_deep(int vertices)
{
    sw_genome *g = scene_genome(3, 16, 16);
    char name[SWI_VERTEX_NAME];
    scene_conv(g, "stem", 0, 8, 3);
    while ((int)g->n + 9 < vertices) {
        const uint32_t x = g->n - 1;
        snprintf(name, sizeof name, "norm%u", g->n);
        scene_add(g, SW_VERTEX_BATCH_NORM, name, x);
        snprintf(name, sizeof name, "act%u", g->n);
        scene_activation(g, name, x + 1, "relu");
        snprintf(name, sizeof name, "conv%u", g->n);
        scene_conv(g, name, x + 2, 8, 3);
        snprintf(name, sizeof name, "add%u", g->n);
        swi_vertex *add = scene_add(g, SW_VERTEX_ADD, name, x + 3);
        add->in[add->n_in++] = x;
    }
    while ((int)g->n + 3 < vertices) {
        snprintf(name, sizeof name, "swish%u", g->n);
        scene_activation(g, name, g->n - 1, "swish");
    }
    scene_add(g, SW_VERTEX_GLOBAL_AVG_POOL, "pool", g->n - 1);
    scene_linear(g, "hidden", g->n - 1, 16);
    scene_linear(g, "logits", g->n - 1, 10);
    scene_check(g);
    return g;
}

/* ---- random genomes ---------------------------------------------------------------------- */

static char name_room[SWI_VERTEX_NAME];
static const char *next_name(const sw_genome *g)
{
    snprintf(name_room, sizeof name_room, "x%u", g->n);
    return name_room;
}

static int64_t size_of(sw_dice *dice, int64_t multiple)
{
    return multiple * (1 + (int64_t)sw_dice_below(dice, (uint64_t)(12 / multiple)));
}

/* Two branches of what is there, joined. */
static void random_fork(sw_genome *g, sw_dice *dice, uint32_t in)
{
    const bool add = sw_dice_below(dice, 2) == 0, image = g->vertices[in].height != 0;
    const int64_t size = add ? g->vertices[in].channels : size_of(dice, 1);
    if (image)
        scene_conv(g, next_name(g), in, size, 3);
    else
        scene_linear(g, next_name(g), in, size);
    const uint32_t a = g->n - 1;
    if (sw_dice_below(dice, 2) == 0)
        scene_activation(g, next_name(g), in, "tanh");
    const uint32_t b = g->n - 1 != a ? g->n - 1 : in;
    swi_vertex *v = scene_add(g, add ? SW_VERTEX_ADD : SW_VERTEX_CONCAT, next_name(g), a);
    v->in[v->n_in++] = b;
    if (!add && sw_dice_below(dice, 3) == 0)
        v->in[v->n_in++] = a;
}

static void random_plain(sw_genome *g, sw_dice *dice, uint32_t in)
{
    int n = 0;
    while (swi_activation_name(n) != NULL)
        n++;
    if (sw_dice_below(dice, 6) == 0) {
        scene_add(g, SW_VERTEX_DROPOUT, next_name(g), in)->rate = 0.25f;
        return;
    }
    swi_vertex *v = scene_add(g, SW_VERTEX_ACTIVATION, next_name(g), in);
    v->activation = (int)sw_dice_below(dice, (uint64_t)n);
}

static void random_image_vertex(sw_genome *g, sw_dice *dice)
{
    const uint32_t x = g->n - 1;
    switch (sw_dice_below(dice, 6)) {
    case 0:
    case 1: {
        const int64_t channels = g->vertices[x].channels;
        swi_vertex *v = scene_conv(g, next_name(g), x, 1, 1 + 2 * (int)sw_dice_below(dice, 3));
        if (sw_dice_below(dice, 5) == 0) {
            v->groups = 0;
            v->size = 0;
        } else if (channels % 2 == 0 && sw_dice_below(dice, 3) == 0) {
            v->groups = channels % 3 == 0 && sw_dice_below(dice, 2) == 0 ? 3 : 2;
            v->size = size_of(dice, v->groups);
        } else {
            v->size = size_of(dice, 1);
        }
        if (sw_dice_below(dice, 4) == 0)
            v->dilation = 2;
        if (g->vertices[x].height > 4 && sw_dice_below(dice, 5) == 0)
            v->stride = 2;
    } break;
    case 2:
        scene_add(g, SW_VERTEX_BATCH_NORM, next_name(g), x);
        break;
    case 3:
        if (g->vertices[x].height >= 4) {
            swi_vertex *v =
                scene_add(g, sw_dice_below(dice, 2) ? SW_VERTEX_MAX_POOL : SW_VERTEX_AVG_POOL,
                          next_name(g), x);
            v->kernel = 2 + (int)sw_dice_below(dice, 2);
            v->stride = 1 + (int)sw_dice_below(dice, 2);
        }
        break;
    case 4:
        random_fork(g, dice, x);
        break;
    default:
        random_plain(g, dice, x);
    }
    OK(swi_genome_infer(g, NULL));
}

sw_genome *scene_random(sw_dice *dice)
{
    static const char *const optimizers[] = {"sgd",     "adam", "adamw",    "rmsprop",
                                             "adagrad", "lion", "adafactor"};
    static const sw_vertex_kind ends[] = {SW_VERTEX_FLATTEN, SW_VERTEX_GLOBAL_MAX_POOL,
                                          SW_VERTEX_GLOBAL_AVG_POOL};
    const int64_t dim = 5 + (int64_t)sw_dice_below(dice, 4);
    sw_genome *g = scene_genome(1 + (int64_t)sw_dice_below(dice, 4), dim, dim + 1);
    snprintf(g->optimizer, sizeof g->optimizer, "%s", optimizers[sw_dice_below(dice, 7)]);
    if (strcmp(g->optimizer, "sgd") == 0 || strcmp(g->optimizer, "rmsprop") == 0)
        g->momentum = sw_dice_below(dice, 2) ? 0.9f : 0;
    g->update = sw_dice_below(dice, 2) ? SW_UPDATE_RELEASE : SW_UPDATE_AFTER;
    for (uint64_t i = sw_dice_below(dice, 9); i > 0; i--)
        random_image_vertex(g, dice);
    scene_add(g, ends[sw_dice_below(dice, 3)], next_name(g), g->n - 1);
    OK(swi_genome_infer(g, NULL));
    for (uint64_t i = sw_dice_below(dice, 4); i > 0; i--) {
        if (sw_dice_below(dice, 2))
            scene_linear(g, next_name(g), g->n - 1, size_of(dice, 1));
        else if (sw_dice_below(dice, 2))
            random_fork(g, dice, g->n - 1);
        else
            random_plain(g, dice, g->n - 1);
        OK(swi_genome_infer(g, NULL));
    }
    scene_linear(g, "logits", g->n - 1, 10);
    g->batch = 4;
    scene_check(g);
    return g;
}

/* ---- nets -------------------------------------------------------------------------------- */

sw_net *scene_net(const sw_genome *g, const sw_net_opts *opts)
{
    sw_net *made = NULL;
    OK(sw_net_create(&made, g, opts));
    CU_ASSERT_PTR_NOT_NULL_FATAL(made);
    scene_later(ENDS(sw_net_destroy, made), made);
    return made;
}

sw_exec *scene_exec(int threads)
{
    return net_exec(&SW_OPTS(sw_exec_opts, .threads = threads));
}

sw_net *scene_ready(const sw_genome *g, const sw_net_opts *opts, sw_exec *exec, uint64_t seed)
{
    sw_net *made = scene_net(g, opts);
    OK(sw_model_ready(sw_net_model(made), exec, seed));
    return made;
}

/* ---- data -------------------------------------------------------------------------------- */

void *scene_block(size_t bytes)
{
    void *block = calloc(1, bytes > 0 ? bytes : 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    scene_later(free, block);
    return block;
}

scene_batch scene_data(const sw_genome *g, sw_dtype dtype, int64_t rows, uint64_t seed)
{
    const swi_vertex *x = &g->vertices[0];
    const bool image = x->height != 0;
    const int64_t n = rows * x->channels * (image ? x->height * x->width : 1);
    const uint64_t classes = (uint64_t)g->vertices[g->n - 1].channels;
    unsigned char *values = scene_block((size_t)n * sw_dtype_bytes(dtype));
    unsigned char *labels = scene_block((size_t)rows);
    sw_dice dice = {seed};
    for (int64_t i = 0; i < n; i++) {
        const uint64_t byte = sw_dice_below(&dice, 256);
        if (dtype == SW_F32)
            ((float *)(void *)values)[i] = (float)byte / 64 - 2;
        else
            values[i] = (unsigned char)byte;
    }
    for (int64_t i = 0; i < rows; i++)
        labels[i] = (unsigned char)sw_dice_below(&dice, classes);
    scene_batch b = {.rows = rows};
    b.in[0] = (sw_array){.dtype = dtype, .data = values};
    b.in[0].shape =
        image ? SW_SHAPE(rows, x->channels, x->height, x->width) : SW_SHAPE(rows, x->channels);
    b.in[1] = (sw_array){.dtype = SW_U8, .shape = SW_SHAPE(rows), .data = labels};
    return b;
}

/* ---- logits as the library makes them ---------------------------------------------------- */

typedef struct {
    sw_net *made;
} logits_step;

static sw_value keep_logits(sw_ctx *ctx, sw_value logits, sw_value labels, void *user)
{
    sw_output(ctx, "logits", logits);
    return sw_softmax_ce(ctx, logits, labels);
}

float *scene_run_logits(sw_exec *exec, sw_net *made, const scene_batch *data)
{
    sw_array out = {.data = NULL};
    sw_run_args args = SCENE_ARGS(made, data, SW_EVAL);
    sw_loss_fn *const loss = made->loss;
    made->loss = keep_logits;
    args.variant = 77; /* the step function has an output more */
    OK(sw_run(exec, &args));
    made->loss = loss;
    const size_t bytes =
        (size_t)(data->rows * made->genome->vertices[made->genome->n - 1].channels) * 4;
    float *logits = scene_block(bytes);
    OK(sw_output_get(exec, "logits", &out));
    if (out.data != NULL)
        memcpy(logits, out.data, bytes);
    return logits;
}

/* ---- for alignment ----------------------------------------------------------------------- */

static uint32_t append(sw_genome *g, swi_vertex v)
{
    snprintf(v.name, sizeof v.name, "v%u", g->n);
    OK(swi_genome_insert(g, g->n, &v));
    OK(swi_genome_infer(g, NULL));
    return g->n - 1;
}

uint32_t aligned_linear(sw_genome *g, uint32_t in, int64_t size)
{
    swi_vertex v = swi_vertex_of(SW_VERTEX_LINEAR);
    v.in[v.n_in++] = in;
    v.size = size;
    return append(g, v);
}

uint32_t aligned_conv(sw_genome *g, uint32_t in, int64_t size, int groups)
{
    swi_vertex v = swi_vertex_of(SW_VERTEX_CONV2D);
    v.in[v.n_in++] = in;
    v.size = groups == 0 ? 0 : size;
    v.groups = groups;
    return append(g, v);
}

uint32_t aligned_through(sw_genome *g, uint32_t in, sw_vertex_kind kind)
{
    swi_vertex v = swi_vertex_of(kind);
    v.in[v.n_in++] = in;
    return append(g, v);
}

uint32_t aligned_join(sw_genome *g, sw_vertex_kind kind, uint32_t a, uint32_t b)
{
    swi_vertex v = swi_vertex_of(kind);
    v.in[v.n_in++] = a;
    v.in[v.n_in++] = b;
    return append(g, v);
}

void aligned_end(sw_genome *g, uint32_t in)
{
    if (g->vertices[in].height > 0)
        in = aligned_through(g, in, SW_VERTEX_GLOBAL_AVG_POOL);
    aligned_linear(g, in, 10);
    OK(swi_genome_infer(g, NULL));
    OK(swi_genome_begin_lineage(g));
}

static bool same_numbers(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b)
{
    return n_a == n_b && (a == NULL) == (b == NULL) &&
           (a == NULL || memcmp(a, b, n_a * sizeof *a) == 0);
}

bool aligned_same(const sw_genome *a, const sw_genome *b)
{
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++) {
        const swi_vertex *x = &a->vertices[i], *y = &b->vertices[i];
        same = x->size == y->size && x->channels == y->channels && x->height == y->height &&
               x->width == y->width && x->parent == y->parent && x->was == y->was &&
               same_numbers(x->rows, x->n_rows, y->rows, y->n_rows) &&
               same_numbers(x->cols, x->n_cols, y->cols, y->n_cols);
    }
    return same;
}

sw_status aligned_resize(sw_genome *g, uint32_t vertex, int64_t size)
{
    const swi_wish wish = {vertex, size};
    const swi_align_opts opts = {.wishes = &wish, .n_wishes = 1};
    return swi_align(g, &opts, NULL);
}

size_t scene_utilities(const sw_net *made, const unsigned char *bytes, sw_neuron_utility *out)
{
    size_t n = 0;
    for (uint32_t i = 0; i < made->genome->n; i++) {
        const sw_param utility = made->layers[i].utility;
        if (utility.index == 0)
            continue;
        const swi_entry *e = &made->model->entries[utility.index];
        out[n++] =
            (sw_neuron_utility){.vertex = i,
                                .n = (int64_t)(e->bytes / sizeof(float)),
                                .values = (const float *)(const void *)(bytes + e->offset)};
    }
    return n;
}
