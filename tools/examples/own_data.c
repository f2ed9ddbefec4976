/* A data set of the program's own memory: an array of structs, used where it lies. Flowers are
 * drawn here; a perceptron learns their kinds, and is tested on a fifth of them.
 *
 * cc own_data.c $(pkg-config --cflags --libs stepwell) */
#include <stdio.h>
#include <stepwell.h>

enum { N = 600, KINDS = 3 };

typedef struct {
    long long number; /* what the program keeps for itself is no matter */
    float size[4];
    short kind;
} flower;

static flower garden[N];
static sw_linear fc1, fc2;

/* A number in -1..1, the same on every machine. */
static float draw(void)
{
    static unsigned long long state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)(state >> 40) / 8388608.0f - 1.0f;
}

static void grow(void)
{
    for (int i = 0; i < N; i++) {
        garden[i].number = i;
        garden[i].kind = (short)(i % KINDS);
        for (int k = 0; k < 4; k++)
            garden[i].size[k] = (float)((i % KINDS + k) % KINDS) + 0.8f * draw();
    }
}

static void step(sw_ctx *c, void *adam)
{
    const sw_value labels = sw_input(c, 1);
    sw_value x = sw_tanh(c, sw_apply_linear(c, fc1, sw_input(c, 0)));
    x = sw_apply_linear(c, fc2, x);
    sw_metric(c, "accuracy", sw_accuracy(c, x, labels));
    if (sw_ctx_mode(c) != SW_TRAIN)
        return;
    sw_backward(c, sw_softmax_ce(c, x, labels), (sw_optimizer *[]){adam}, 1);
    sw_update(c, adam);
}

/* One epoch; the share that was right, over all of it. */
static sw_status epoch(sw_exec *exec, sw_run_args *r, sw_loader *l, uint64_t number,
                       double *share)
{
    double right = 0, rows = 0;
    SW_TRY(sw_loader_epoch(l, number));
    for (;; r->step++) {
        double accuracy;
        SW_TRY(sw_loader_next(l, &r->inputs, &r->n_inputs));
        if (r->n_inputs == 0)
            break;
        SW_TRY(sw_run(exec, r));
        SW_TRY(sw_metric_get(exec, "accuracy", &accuracy));
        right += accuracy * (double)r->inputs[0].shape.dim[0];
        rows += (double)r->inputs[0].shape.dim[0];
    }
    *share = right / rows;
    return SW_OK;
}

static sw_status train(double *share)
{
    /* Each field: where its first number is, and how many bytes lie between two samples. */
    const sw_samples fields[] = {
        {.data = garden[0].size,
         .type = SW_NUMBER_F32,
         .shape = SW_SHAPE(4),
         .strides = {sizeof(flower), sizeof(float)}},
        {.data = &garden[0].kind, .type = SW_NUMBER_I16, .strides = {sizeof(flower)}}};
    const sw_optimizer_opts how = SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.01f);
    const sw_loader_opts opts = SW_OPTS(sw_loader_opts, .batch = 32, .shuffle = 1);
    sw_dataset *all, *part[2];
    sw_loader *l[2];
    sw_exec *exec;
    sw_model *m;
    sw_optimizer *adam;
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
    SW_TRY(sw_dataset_arrays(&all, N, fields, 2, NULL));
    sw_dataset_describe(all, &info);
    printf("%lld flowers of %lld kinds, %zu bytes copied\n", (long long)info.n,
           (long long)info.n_classes, info.bytes);
    SW_TRY(sw_dataset_split(&part[0], &part[1], all, N / 5, 1)); /* copies of both parts */
    for (int i = 0; i < 2; i++)
        SW_TRY(sw_loader_create(&l[i], part[i], &opts));
    SW_TRY(sw_exec_create(&exec, NULL));
    SW_TRY(sw_model_create(&m, "flowers"));
    fc1 = sw_linear_new(m, "fc1", 4, 16), fc2 = sw_linear_new(m, "fc2", 16, KINDS);
    SW_TRY(sw_optimizer_create(&adam, m, &how));
    SW_TRY(sw_model_ready(m, exec, 1));
    sw_run_args r = SW_OPTS(sw_run_args, .fn = step, .user = adam, .models = &m, .n_models = 1);
    for (uint64_t e = 0; e < 20; e++)
        SW_TRY(epoch(exec, &r, l[0], e, share));
    r.mode = SW_EVAL;
    SW_TRY(epoch(exec, &r, l[1], 0, share));
    for (int i = 0; i < 2; i++)
        sw_loader_destroy(l[i]), sw_dataset_destroy(part[i]);
    sw_dataset_destroy(all), sw_model_destroy(m), sw_exec_destroy(exec);
    return SW_OK;
}

int main(void)
{
    double share = 0;
    grow();
    if (train(&share) != SW_OK) {
        fprintf(stderr, "%s\n", sw_last_error());
        return 1;
    }
    printf("right in the test part: %.1f %%\n", 100 * share);
    return share > 0.9 ? 0 : 1;
}
