/* The stepwell side of compare_point.py: every op of tests/ops/pointwise_list.h.
 *
 *   point_peer DIR    writes to DIR: names.txt (name, whether it is a loss), t.bin, w.bin
 * (float32), mask.bin (uint8), labels.bin (int32), and for each op NAME.bin: x, y, dx (float32;
 * y is one number for losses, whose gradient dx is; else dx is that of sum(y w)) */
#include "peer.h"
#include <stdint.h>
#include "tests/ops/pointwise_list.h"

enum { ROWS = 401, N = ROWS * POINT_CLASSES };

typedef struct {
    size_t op;
    sw_param x;
    sw_optimizer *optimizer;
} use;

static float x[N], t[N], w[N], dx[N];
static uint8_t mask[N];
static int32_t labels[ROWS];

/* splitmix64 in -> 0..1 */
static float draw(void)
{
    static uint64_t state = 20;
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (float)((z ^ z >> 31) >> 40) / (float)(1 << 24);
}

static void step(sw_ctx *c, void *user)
{
    use *u = user;
    const sw_value y = point_list[u->op].run(c, sw_use(c, u->x));
    const sw_value loss =
        point_list[u->op].is_loss ? y : sw_sum(c, sw_mul(c, y, sw_input(c, 3)), 0);
    sw_output(c, "y", y);
    sw_backward(c, loss, &u->optimizer, 1);
    sw_accumulate(c, u->optimizer);
}

static FILE *create(const char *dir, const char *name, const char *end)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", dir, name, end);
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

static void dump(const char *dir, const char *name, const void *from, size_t bytes)
{
    FILE *file = create(dir, name, ".bin");
    fwrite(from, 1, bytes, file);
    if (fclose(file) != 0)
        exit(1);
}

static void run_op(sw_exec *exec, sw_model *model, use *u, const char *dir)
{
    const float low = point_list[u->op].low, high = point_list[u->op].high;
    for (int i = 0; i < N; i++)
        x[i] = low + (high - low) * draw();
    CHECK(sw_model_ready(model, exec, 1));
    CHECK(sw_param_write(u->x, x, sizeof x));
    const sw_array inputs[] = {{SW_F32, SW_SHAPE(N), t},
                               {SW_U8, SW_SHAPE(N), mask},
                               {SW_I32, SW_SHAPE(ROWS), labels},
                               {SW_F32, SW_SHAPE(N), w}};
    const sw_run_args args = {.size = sizeof args,
                              .fn = step,
                              .user = u,
                              .models = &model,
                              .n_models = 1,
                              .inputs = inputs,
                              .n_inputs = 4,
                              .variant = u->op};
    sw_array y;
    CHECK(sw_run(exec, &args));
    CHECK(sw_output_get(exec, "y", &y));
    FILE *file = create(dir, point_list[u->op].name, ".bin");
    fwrite(x, sizeof(float), N, file);
    fwrite(y.data, sizeof(float), point_list[u->op].is_loss ? 1 : N, file);
    CHECK(sw_param_gradient(u->x, dx, sizeof dx));
    fwrite(dx, sizeof(float), N, file);
    if (fclose(file) != 0)
        exit(1);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: point_peer DIR\n");
        return 2;
    }
    for (int i = 0; i < N; i++) {
        t[i] = 0.1f + 0.9f * draw();
        w[i] = 2.0f * draw() - 1.0f;
        mask[i] = draw() < 0.5f;
    }
    for (int i = 0; i < ROWS; i++)
        labels[i] = (int32_t)(draw() * POINT_CLASSES);
    dump(argv[1], "t", t, sizeof t);
    dump(argv[1], "w", w, sizeof w);
    dump(argv[1], "mask", mask, sizeof mask);
    dump(argv[1], "labels", labels, sizeof labels);
    use u = {0};
    sw_exec *exec;
    sw_model *model;
    const sw_exec_opts exec_opts = {.size = sizeof exec_opts, .threads = 2};
    const sw_optimizer_opts opts = {.size = sizeof opts, .kind = "sgd", .keep_gradients = 1};
    CHECK(sw_exec_create(&exec, &exec_opts));
    CHECK(sw_model_create(&model, "point"));
    u.x = sw_param_new(model, "x", SW_F32, SW_SHAPE(N), "zeros");
    CHECK(sw_optimizer_create(&u.optimizer, model, &opts));
    FILE *names = create(argv[1], "names", ".txt");
    for (u.op = 0; u.op < POINT_COUNT; u.op++) {
        run_op(exec, model, &u, argv[1]);
        fprintf(names, "%s %d\n", point_list[u.op].name, point_list[u.op].is_loss);
    }
    const int failed = fclose(names) != 0;
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    return failed;
}
