/* The stepwell side of compare_mbconv.py: the model of tools/models/mbconv.c on images drawn
 * here.
 *
 *   mbconv_peer dump BATCH CHANNELS SIDE WIDTH DEPTH DIR    ten steps of SGD with momentum;
 * WIDTH and DEPTH are the model's factors. Writes to DIR: init.safetensors, batches.bin (per
 * batch its images and labels in bytes), grads.bin (float32, all parameters in order, of the
 * first batch), after.safetensors, and losses.txt: scale and shift of bytes, then the loss of
 * each step, then that of the last batch in evaluation mbconv_peer plan BATCH CHANNELS SIDE
 * WIDTH DEPTH        planned peak and saved bytes, with and without released gradients */
#include "peer.h"
#include "tools/models/models.h"
#include <string.h>

enum { STEPS = 10, CLASSES = 10 };

typedef struct {
    int64_t batch, channels, side;
    double width, depth;
    size_t pixels;  /* of a batch */
    uint8_t *bytes; /* pixels, then labels */
    uint64_t dice;
} job;

static sw_exec *open_exec(int threads)
{
    sw_exec *exec;
    const sw_exec_opts opts = {.size = sizeof opts, .threads = threads};
    CHECK(sw_exec_create(&exec, &opts));
    return exec;
}

static void make(tool_net *net, const job *j, sw_optimizer_opts optimizer)
{
    tool_net_opts o = {
        .model = tool_model_find("mbconv"),
        .settings = TOOL_SETTINGS_NONE,
        .data = {.size = sizeof o.data,
                 .n_classes = CLASSES,
                 .n_fields = 2,
                 .field = {{SW_U8, SW_SHAPE(j->channels, j->side, j->side), NULL},
                           {SW_U8, SW_SCALAR, NULL}},
                 .name = "drawn"},
        .optimizer = optimizer};
    o.settings.width_factor = j->width;
    o.settings.depth_factor = j->depth;
    if (tool_settings_complete(o.model, &o.settings) != CLI_GO)
        exit(2);
    CHECK(tool_net_create(net, &o));
}

/* The next batch: noise around a level of its label. */
static void draw(job *j)
{
    uint8_t *labels = j->bytes + j->pixels;
    const size_t each = j->pixels / (size_t)j->batch;
    for (size_t i = 0; i < j->pixels; i++) {
        j->dice = j->dice * 6364136223846793005u + 1442695040888963407u;
        const size_t b = i / each;
        if (i % each == 0)
            labels[b] = (uint8_t)((j->dice >> 33) % CLASSES);
        j->bytes[i] = (uint8_t)(labels[b] * 12 + (j->dice >> 33) % 128);
    }
}

static sw_run_args args_of(const job *j, tool_net *net, sw_array inputs[2])
{
    inputs[0] = (sw_array){SW_U8, SW_SHAPE(j->batch, j->channels, j->side, j->side), j->bytes};
    inputs[1] = (sw_array){SW_U8, SW_SHAPE(j->batch), j->bytes + j->pixels};
    return (sw_run_args){.size = sizeof(sw_run_args),
                         .fn = tool_net_step,
                         .user = net,
                         .models = &net->model,
                         .n_models = 1,
                         .inputs = inputs,
                         .n_inputs = 2};
}

static double run(sw_exec *exec, const sw_run_args *args)
{
    double loss;
    CHECK(sw_run(exec, args));
    CHECK(sw_metric_get(exec, "loss", &loss));
    return loss;
}

static int dump(job *j, const char *dir)
{
    tool_net net;
    sw_array inputs[2];
    sw_exec *exec = open_exec(2);
    make(&net, j,
         (sw_optimizer_opts){.size = sizeof(sw_optimizer_opts),
                             .kind = "sgd",
                             .lr = 2e-3f,
                             .momentum = 0.9f,
                             .keep_gradients = 1});
    CHECK(sw_model_ready(net.model, exec, 7));
    FILE *batches = peer_create(dir, "batches.bin"), *grads = peer_create(dir, "grads.bin"),
         *losses = peer_create(dir, "losses.txt");
    peer_save(net.model, dir, "init.safetensors");
    fprintf(losses, "%.9g %.9g\n", (double)net.scale[0], (double)net.shift[0]);
    sw_run_args args = args_of(j, &net, inputs);
    for (args.step = 0; args.step < STEPS; args.step++) {
        draw(j);
        peer_put(batches, j->bytes, j->pixels + (size_t)j->batch);
        fprintf(losses, "%.9g\n", run(exec, &args));
        if (args.step == 0)
            peer_put_gradients(net.model, grads);
    }
    args.mode = SW_EVAL;
    fprintf(losses, "%.9g\n", run(exec, &args));
    peer_save(net.model, dir, "after.safetensors");
    tool_net_destroy(&net);
    sw_exec_destroy(exec);
    return (fclose(batches) != 0) + (fclose(grads) != 0) + (fclose(losses) != 0);
}

static void saved_share(void *to, const sw_share *share)
{
    if (share->kind == SW_SHARE_ROLE && strcmp(share->name, "saved") == 0)
        *(size_t *)to = share->peak_bytes;
}

static int plan(const job *j)
{
    for (int release = 0; release < 2; release++) {
        tool_net net;
        sw_array inputs[2];
        size_t saved = 0;
        sw_plan_info info = {.size = sizeof info};
        sw_exec *exec = open_exec(2);
        make(&net, j,
             (sw_optimizer_opts){
                 .size = sizeof(sw_optimizer_opts), .kind = "sgd", .release = release});
        const sw_run_args args = args_of(j, &net, inputs);
        CHECK(sw_plan(exec, &args, &info));
        CHECK(sw_plan_shares(exec, &args, saved_share, &saved));
        printf("%s %zu %zu %zu\n", release ? "release" : "after", info.peak_bytes, saved,
               info.model_bytes);
        tool_net_destroy(&net);
        sw_exec_destroy(exec);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const bool is_plan = strcmp(what, "plan") == 0;
    if (argc != (is_plan ? 7 : 8) || !(is_plan || strcmp(what, "dump") == 0)) {
        fprintf(stderr, "usage: mbconv_peer dump BATCH CHANNELS SIDE WIDTH DEPTH DIR | plan "
                        "BATCH CHANNELS SIDE WIDTH DEPTH\n");
        return 2;
    }
    job j = {atoi(argv[2]), atoi(argv[3]), atoi(argv[4]),
             atof(argv[5]), atof(argv[6]), .dice = 5};
    j.pixels = (size_t)(j.batch * j.channels * j.side * j.side);
    j.bytes = calloc(j.pixels + (size_t)j.batch, 1);
    if (j.pixels == 0 || j.bytes == NULL)
        return 2;
    const int status = is_plan ? plan(&j) : dump(&j, argv[7]);
    free(j.bytes);
    return status;
}
