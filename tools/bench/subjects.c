/* The subjects: a table of cases, and one way to make, step and destroy each. */
#include "tools/bench/subjects.h"
#include "alloc/base/mem.h"
#include "runtime/exec/exec.h"
#include <string.h>

enum { LENETS = 5, LOADED = 128 * 32, FED = 60000 };

/* clang-format off */
static const bench_case cases[] = {
    {.name = "lenet5", .about = "LeNet5, Adam, loader included", .lists = BENCH_OF_SPEED, .model = "lenet5",
     .digits = true, .source = BENCH_LOADER, .batch = 128, .steps = 500},
    SW_INIT(.name = "mlp200", .about = "200 perceptrons 49-64-24-10 as members, Adam", .lists = BENCH_OF_SPEED, .model = "mlp", .optimizer = "adam", .release = true, .plain = true, .batch = 128, .steps = 200, .members = 200, .features = 49, .classes = 10, .hidden = {{64, 24}, 2}),
    /* A thread takes a member for a slice, then the next one: none waits for long at the end. */
    {.name = "lenet5x5", .about = "14 steps of each of 5 LeNet5 as members, Adam, own orders", .lists = BENCH_OF_SPEED,
     .model = "lenet5", .digits = true, .source = BENCH_FEED, .batch = 128, .steps = 30, .members = LENETS, .slice = 7,
     .slices = 2, .epoch = 469},
    {.name = "swishnet", .about = "8 linear layers of 4096, swish, SGD", .lists = BENCH_OF_SPEED,
     .model = "swishnet", .optimizer = "sgd", .release = true, .batch = 128, .steps = 15, .layers = 8, .width = 4096},
    SW_INIT(.name = "gpt", .about = "gpt, 4 layers of 256, 8 heads, context 128, vocabulary 8192, AdamW", .lists = BENCH_OF_SPEED, .model = "gpt", .optimizer = "adamw", .release = true, .batch = 8, .steps = 30, .layers = 4, .width = 256, .heads = 8, .context = 128, .classes = 8192),
    SW_INIT(.name = "mbconv", .about = "EfficientNet-B0's body, images of 64 x 64, Adam", .lists = BENCH_OF_SPEED, .model = "mbconv", .optimizer = "adam", .release = true, .batch = 32, .steps = 30, .classes = 10, .channels = 3, .side = 64),
    SW_INIT(.name = "es", .about = "a generation of LeNet5: evaluations of an image each under low-rank noise in pairs, and the update", .lists = BENCH_OF_SPEED, .model = "lenet5", .optimizer = "sgd", .es = true, .batch = 1024, .steps = 30, .classes = 10, .channels = 1, .side = 28),
    {.name = "digits", .model = "lenet5", .digits = true, .batch = 128}, /* lenet5 over one batch */
    /* tools/bench/device_torch.py has the same table. */
    {.name = "mlp4096", .about = "8 linear layers of 4096, swish, SGD", .lists = BENCH_OF_DEVICE,
     .model = "swishnet", .optimizer = "sgd", .batch = 512, .layers = 8, .width = 4096},
    {.name = "mlp256", .about = "8 linear layers of 256, swish, Adam: bound by launches", .lists = BENCH_OF_DEVICE,
     .model = "swishnet", .optimizer = "adam", .batch = 64, .layers = 8, .width = 256},
    {.name = "lenet5", .about = "LeNet5, images of 28 x 28 bytes, Adam", .lists = BENCH_OF_DEVICE, .model = "lenet5",
     .optimizer = "adam", .batch = 128, .classes = 10, .channels = 1, .side = 28},
    SW_INIT(.name = "mbconv128", .about = "EfficientNet-B0, images of 224 x 224 bytes, SGD with momentum", .lists = BENCH_OF_DEVICE, .model = "mbconv", .optimizer = "sgd", .momentum = 0.9f, .batch = 128, .classes = 1000, .channels = 3, .side = 224),
    SW_INIT(.name = "mbconv16", .about = "the same, a batch that is bound by launches", .lists = BENCH_OF_DEVICE, .model = "mbconv", .optimizer = "sgd", .momentum = 0.9f, .batch = 16, .classes = 1000, .channels = 3, .side = 224),
    SW_INIT(.name = "gpt124m", .about = "GPT-2 of 124 million parameters, context 1024, AdamW", .lists = BENCH_OF_DEVICE, .model = "gpt", .optimizer = "adamw", .batch = 8, .layers = 12, .width = 768, .heads = 12, .context = 1024, .classes = 50257),
};
/* clang-format on */
enum { CASES = sizeof cases / sizeof *cases };

const bench_case *bench_case_at(int list, int i)
{
    for (int k = 0; k < CASES; k++)
        if ((cases[k].lists & list) != 0 && i-- == 0)
            return &cases[k];
    return NULL;
}

const bench_case *bench_case_find(int list, const char *name)
{
    for (int k = 0; k < CASES; k++)
        if (cases[k].lists == list && strcmp(cases[k].name, name) == 0)
            return &cases[k];
    return NULL;
}

/* ---- data -------------------------------------------------------------------------------- */

static size_t bytes_of(const sw_array *a)
{
    const sw_type type = {a->dtype, SW_PLAIN, a->shape};
    return sw_type_bytes(&type);
}

sw_status bench_batch_make(sw_array *arrays, int n, int64_t ids)
{
    uint32_t state = 1;
    for (int k = 0; k < n; k++) {
        sw_array *a = &arrays[k];
        const sw_type type = {a->dtype, SW_PLAIN, a->shape};
        void *block;
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_DATASETS, bytes_of(a)));
        a->data = block;
        for (int64_t i = 0; i < sw_type_elements(&type); i++) {
            state = state * 1664525u + 1013904223u;
            if (a->dtype == SW_F32)
                ((float *)block)[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
            else if (a->dtype == SW_I32)
                ((int32_t *)block)[i] = (int32_t)((state >> 8) % (uint32_t)ids);
            else
                ((unsigned char *)block)[i] =
                    (unsigned char)(k == 0 ? state >> 24 : (state >> 16) % (uint32_t)ids);
        }
    }
    return SW_OK;
}

void bench_batch_free(sw_array *arrays, int n)
{
    for (int k = 0; k < n; k++)
        if (arrays[k].data != NULL)
            sw_heap_free((void *)(uintptr_t)arrays[k].data, SW_HEAP_DATASETS,
                         bytes_of(&arrays[k]));
}

static sw_status open_data(bench_subject *s, const sw_dataset_info *one)
{
    const bench_case *c = &s->of;
    if (c->source == BENCH_BATCH) {
        for (int k = 0; k < 2; k++) {
            const sw_array *field = &one->field[k];
            s->own[k] = (sw_array){field->dtype, {field->shape.rank + 1, {s->batch}}, NULL};
            memcpy(s->own[k].shape.dim + 1, field->shape.dim,
                   (size_t)field->shape.rank * sizeof(int64_t));
        }
        s->inputs = s->own;
        return bench_batch_make(s->own, 2, one->n_classes > 0 ? one->n_classes : 1);
    }
    const int64_t n = c->members > 0 ? FED : s->batch > LOADED ? s->batch : LOADED;
    const sw_feed_opts feed = {.size = sizeof feed, .batch = s->batch, .shuffle = 1};
    const sw_loader_opts loader = {
        .size = sizeof loader, .batch = s->batch, .shuffle = 1, .drop_last = 1};
    SW_TRY(sw_dataset_synthetic(&s->set, n, 1));
    if (c->members > 0)
        return sw_feed_create(&s->feed, s->set, &feed);
    SW_TRY(sw_loader_create(&s->loader, s->set, &loader));
    return sw_loader_epoch(s->loader, 0);
}

/* ---- models ------------------------------------------------------------------------------ */

/* How one sample looks. */
static sw_dataset_info data_of(const bench_case *c)
{
    sw_dataset_info d = {
        .size = sizeof d, .n_classes = c->classes, .n_fields = 2, .name = "random numbers"};
    const int64_t width = c->features > 0 ? c->features : c->width;
    const sw_array label = {c->classes > 256 ? SW_I32 : SW_U8, SW_SCALAR, NULL};
    if (c->context > 0) {
        d.field[0] = d.field[1] = (sw_array){SW_I32, SW_SHAPE(c->context), NULL};
    } else if (c->side > 0) {
        d.field[0] = (sw_array){SW_U8, SW_SHAPE(c->channels, c->side, c->side), NULL};
        d.field[1] = label;
    } else {
        d.field[0] = (sw_array){SW_F32, SW_SHAPE(width), NULL};
        d.field[1] = c->classes > 0 ? label : d.field[0];
    }
    return d;
}

static sw_status options_of(const bench_case *c, tool_net_opts *net)
{
    if (c->digits)
        return tool_net_digits(net, c->model);
    *net = (tool_net_opts){
        .model = tool_model_find(c->model),
        .settings = TOOL_SETTINGS_NONE,
        .data = data_of(c),
        .optimizer = {.size = sizeof net->optimizer,
                      .kind = c->optimizer,
                      .momentum = c->momentum,
                      .update = c->release ? SW_UPDATE_RELEASE : SW_UPDATE_DEFAULT}};
    net->settings.layers = c->layers;
    net->settings.width = c->features > 0 ? 0 : c->width;
    net->settings.heads = c->heads;
    net->settings.context = c->context;
    net->settings.hidden = c->hidden;
    if (tool_settings_complete(net->model, &net->settings) != CLI_GO)
        SW_FAIL(SW_INVALID, "%s: its settings are not those of %s", c->name, c->model);
    return SW_OK;
}

/* A step with cross-entropy, and nothing but the loss is measured. */
static void plain_step(sw_ctx *ctx, void *user)
{
    tool_net *net = user;
    const sw_value x = net->kind->forward(ctx, net, sw_input(ctx, 0)),
                   loss = sw_softmax_ce(ctx, x, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &net->optimizer, 1);
    sw_update(ctx, net->optimizer);
}

static sw_step_fn *step_of(const bench_case *c)
{
    return c->plain ? plain_step : tool_net_step;
}

sw_status bench_subject_make(bench_subject *s, const bench_case *which, int64_t batch,
                             const sw_exec_opts *exec)
{
    tool_net_opts net;
    *s = (bench_subject){.of = *which, .batch = batch, .threads = exec->threads};
    SW_TRY(options_of(&s->of, &net));
    SW_TRY(sw_exec_create(&s->exec, exec));
    SW_TRY(tool_net_create(&s->net, &net));
    SW_TRY(open_data(s, &net.data));
    if (s->of.es) {
        const sw_es_opts opts =
            SW_INIT(.size = sizeof opts, .noise = "low-rank",
                    .directions = (uint32_t)(s->batch / 2), .repeats = 2, .seed = 7);
        SW_TRY(sw_es_create(&s->es, s->net.optimizer, &opts));
    }
    /* its sigma is part of the model's layout */
    if (s->of.members > 0) {
        const int64_t n = s->of.members;
        const sw_members_opts opts =
            SW_INIT(.size = sizeof opts, .shape = s->net.model, .fn = step_of(&s->of),
                    .user = &s->net, .threads = 1);
        SW_TRY(sw_members_create(&s->group, s->exec, &opts));
        SW_TRY(sw_heap_alloc(&s->members, SW_HEAP_RECORDS, (size_t)n * sizeof *s->members));
        for (int64_t i = 0; i < n; i++)
            SW_TRY(sw_member_new(&s->members[i], s->group, (uint64_t)i));

    } else
        SW_TRY(sw_model_ready(s->net.model, s->exec, 1));
    for (int i = 0; i < 2; i++)
        SW_TRY(bench_subject_step(s));
    return SW_OK;
}

void bench_subject_destroy(bench_subject *s)
{
    sw_es_destroy(s->es);
    sw_members_destroy(s->group);
    sw_heap_free(s->members, SW_HEAP_RECORDS, (size_t)s->of.members * sizeof *s->members);
    sw_loader_destroy(s->loader);
    sw_feed_destroy(s->feed);
    if (s->net.model != NULL)
        tool_net_destroy(&s->net);
    sw_exec_destroy(s->exec);
    sw_dataset_destroy(s->set);
    bench_batch_free(s->own, 2);
    *s = (bench_subject){0};
}

/* ---- steps ------------------------------------------------------------------------------- */

sw_run_args bench_subject_args(bench_subject *s)
{
    return (sw_run_args)SW_INIT(.size = sizeof(sw_run_args), .fn = step_of(&s->of),
                                .user = &s->net, .models = &s->net.model, .n_models = 1,
                                .inputs = s->inputs, .n_inputs = 2,
                                .mode = s->of.es ? SW_EVAL : SW_TRAIN, .es = s->es,
                                .step = s->step);
}

static sw_status step_fed(bench_subject *s)
{
    const int64_t n = s->of.members, most = s->threads < n ? s->threads : n;
    for (int64_t left = n * s->of.slices; left > 0;) {
        sw_member side[LENETS];
        const int64_t now = left < most ? left : most;
        for (int64_t i = 0; i < now; i++)
            side[i] = s->members[s->turn++ % n];
        const sw_members_args args =
            SW_INIT(.size = sizeof args, .members = side, .n = (size_t)now, .mode = SW_TRAIN,
                    .feed = s->feed, .own_steps = 1, .steps = (uint32_t)s->of.slice);
        SW_TRY(sw_members_run(s->group, &args));
        left -= now;
    }
    return SW_OK;
}

static sw_status step_members(bench_subject *s)
{
    const sw_members_args args =
        SW_INIT(.size = sizeof args, .members = s->members, .n = (size_t)s->of.members,
                .inputs = s->inputs, .n_inputs = 2, .mode = SW_TRAIN, .step = s->step);
    return sw_members_run(s->group, &args);
}

static sw_status next_batch(bench_subject *s)
{
    int n;
    SW_TRY(sw_loader_next(s->loader, &s->inputs, &n));
    if (n > 0)
        return SW_OK;
    SW_TRY(sw_loader_epoch(s->loader, ++s->epoch));
    return sw_loader_next(s->loader, &s->inputs, &n);
}

sw_status bench_subject_step(bench_subject *s)
{
    s->step++;
    if (s->of.members > 0)
        return s->feed != NULL ? step_fed(s) : step_members(s);
    if (s->loader != NULL)
        SW_TRY(next_batch(s));
    const sw_run_args args = bench_subject_args(s);
    if (s->es == NULL)
        return sw_run(s->exec, &args);
    SW_TRY(sw_es_evaluate(s->es, s->exec, &args, 0, "loss"));
    return sw_es_step(s->es, s->exec, NULL);
}

sw_status bench_subject_bytes(const bench_subject *s, size_t *out)
{
    sw_members_memory m = {.size = sizeof m};
    if (s->group == NULL) {
        const swi_program *p = s->exec->last;
        *out = p->model_bytes + p->height + p->slot_bytes;
        return SW_OK;
    }
    SW_TRY(sw_members_used(s->group, &m));
    *out = m.live_bytes + m.lane_bytes;
    return SW_OK;
}
