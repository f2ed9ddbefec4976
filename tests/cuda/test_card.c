/* Memory of a card and what works on it, over the card that is not there (fake/): who waits for
 * whom when models, execs and threads come and go, cards that cannot map, and what is said of
 * it. */
#include "alloc/base/fault.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "runtime/device/device.h"
#include "runtime/exec/queue_internal.h"
#include "runtime/exec/run_internal.h"
#include "runtime/model/model.h"
#include "runtime/observe/observe.h"
#include "tests/cuda/fake_card.h"
#include "tests/runtime/nets.h"
#include "tests/runtime/tuned.h"
#include "tests/support/files.h"
#include <math.h>
#include <time.h>

SW_TESTS("card")

/* ---- models in the memory of a card ------------------------------------------------------ */

/* Models in the memory of a card, the one that is not there (fake/): host code can reach its
 * bytes in copies alone. They hold the same as models in host memory. */

#define LONG ((int64_t)SWI_PIECE_BYTES / 4 + 4097) /* floats: two pieces */

/* ---- the card ---------------------------------------------------------------------------- */

static void new_cards(void)
{
    sw_fake_card_new(&(sw_fake_card){.cards = 2}, 1);
}

static const sw_cuda_api *its; /* of the module */
static int64_t copies;
static size_t most_files; /* of host memory for files, at any copy */

static sw_status copy(const sw_cuda_queue *queue, void *to, const void *from, size_t bytes,
                      sw_cuda_way way)
{
    sw_heap_stats files;
    sw_heap_read(SW_HEAP_FILES, &files);
    most_files = files.bytes > most_files ? files.bytes : most_files;
    copies++;
    return its->copy(queue, to, from, bytes, way);
}

/* NULL: of the CPU. Copies of a card are looked at. */
static sw_exec *exec_on_card(const char *card, sw_budget *budget)
{
    static sw_cuda_api watched;
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .device = card, .budget = budget));
    swi_device *device = exec->target.device;
    if (card != NULL && device->api != &watched) {
        its = device->api;
        watched = *its;
        watched.copy = copy;
        device->api = exec->queue->api = &watched;
    }
    return exec;
}

/* ---- models ------------------------------------------------------------------------------ */

typedef struct {
    sw_model *model;
    sw_param weight, ones, state;
    sw_knob knob;
    sw_optimizer *opt;
} rich;

/* Something of each role. */
static void declare_rich(rich *r)
{
    static float numbers[LONG];
    const sw_array table = {SW_F32, SW_SHAPE(LONG), numbers};
    for (int i = 0; i < LONG; i++)
        numbers[i] = 0.5f * (float)i;
    OK(sw_model_create(&r->model, "rich"));
    r->weight = sw_param_new(r->model, "weight", SW_F32, SW_SHAPE(LONG), "normal:0.5");
    (void)sw_param_new(r->model, "uniform", SW_F32, SW_SHAPE(7, 5), "kaiming_uniform");
    r->ones = sw_buffer_new(r->model, "ones", SW_F32, SW_SHAPE(33), "ones");
    r->state = sw_state_new(r->model, "state", SW_U8, SW_SHAPE(1001));
    (void)sw_constant_new(r->model, "table", &table);
    r->knob = sw_knob_new(r->model, "heat", 3.5f);
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "adam", .keep_gradients = 1, .lr = 0.25f);
    OK(sw_optimizer_create(&r->opt, r->model, &opts));
}

static rich new_rich(void)
{
    rich r;
    declare_rich(&r);
    AFTER(sw_model_destroy, r.model);
    return r;
}

static rich ready_on(const char *card, uint64_t seed)
{
    const rich r = new_rich();
    sw_exec *exec = exec_on_card(card, NULL);
    OK(sw_model_ready(r.model, exec, seed));
    return r;
}

/* All bytes of both, the knobs as runs would read them. */
static bool same(const sw_model *a, const sw_model *b)
{
    static unsigned char x[1 << 23], y[1 << 23];
    for (size_t at = 0; at < a->entries[a->knob_entry].offset; at += sizeof x) {
        const size_t left = a->entries[a->knob_entry].offset - at;
        const size_t n = left < sizeof x ? left : sizeof x;
        if (swi_model_read(a, x, at, n) != SW_OK || swi_model_read(b, y, at, n) != SW_OK ||
            memcmp(x, y, n) != 0)
            return false;
    }
    for (uint32_t i = 0; i < a->n_knobs; i++)
        if (a->knobs[i].value != b->knobs[i].value)
            return false;
    return a->bytes == b->bytes && a->n_knobs == b->n_knobs;
}

SW_TEST("first values are those of the host")
{
    new_cards();
    sw_exec *exec = exec_on_card("cuda", NULL);
    most_files = 0;
    const rich there = ready_on("cuda", 7), here = ready_on(NULL, 7), other = ready_on(NULL, 8);
    CU_ASSERT_PTR_EQUAL(there.model->device, exec->target.device);
    CU_ASSERT_PTR_EQUAL(here.model->device, swi_device_cpu());
    CU_ASSERT(same(there.model, here.model));
    CU_ASSERT(!same(there.model, other.model));
    CU_ASSERT_NOT_EQUAL(there.model->knob_version, there.model->knob_uploaded);
    CU_ASSERT(most_files <= SWI_PIECE_BYTES);
    OK(sw_model_ready(there.model, exec, 8)); /* a second call begins anew */
    CU_ASSERT(same(there.model, other.model));
}

/* A card's products of float32 widen the weight in scratch. */
SW_TEST("frozen weights in bf16 have the bits of float32 on a card, and near the CPU's")
{
    sw_plan_info plan[2], here[2];
    const double want = tuned_same_runs(NULL, SW_BF16, NULL, TUNED_TOKENS, here);
    double loss[3];
    for (int run = 0; run < 3; run++) {
        const bool half = run == 1, kept = run == 2; /* in bf16; all of it kept in float32 */
        new_cards();
        const sw_exec_opts opts =
            SW_OPTS(sw_exec_opts, .device = "cuda", .compute = run > 0 ? SW_BF16 : SW_F32);
        loss[run] = tuned_same_runs(&opts, SW_BF16, kept ? "f32" : NULL, TUNED_TOKENS, plan);
        SW_CHECK(fabs(loss[run] - want) < (half ? 1e-2 : 1e-5) &&
                     (!kept || loss[run] == loss[0]),
                 "run %d: the loss is %.9g, on the CPU %.9g", run, loss[run], want);
        /* In bf16 the masters are rounded there instead. */
        CU_ASSERT(half ? plan[1].arena_bytes <= plan[0].arena_bytes
                       : plan[1].arena_bytes > plan[0].arena_bytes);
        CU_ASSERT_EQUAL(plan[0].model_bytes - plan[1].model_bytes,
                        here[0].model_bytes - here[1].model_bytes);
    }
}

SW_TEST("a card refuses weights in 8 and 4 bits by name, and the CPU may have them then")
{
    static const char *const words[] = {
        "model coded: 'w' is i8: frozen weights of a card must be f32 or bf16",
        "model coded: 'w' is nf4: frozen weights of a card must be f32 or bf16"};
    for (int i = 0; i < 2; i++) {
        sw_model *model;
        new_cards();
        OK(sw_model_create(&model, "coded"));
        AFTER(sw_model_destroy, model);
        (void)sw_param_new(model, "before", SW_F32, SW_SHAPE(3), "ones");
        (void)sw_weights_new(model, "w", i == 0 ? SW_I8 : SW_NF4, SW_SHAPE(2, 64));
        REFUSED(sw_model_ready(model, exec_on_card("cuda", NULL), 1), SW_UNSUPPORTED, words[i]);
        OK(sw_model_ready(model, exec_on_card(NULL, NULL), 1));
    }
}

SW_TEST("bytes are copied in every direction")
{
    new_cards();
    const rich host = ready_on(NULL, 3), from = ready_on("cuda", 1);
    const rich beside = ready_on("cuda", 2), across = ready_on("cuda:1", 4),
               back = ready_on(NULL, 5);
    sw_knob_set(from.knob, 9.0f);
    sw_knob_set(sw_optimizer_lr(from.opt, 0), 0.125f);
    const uint64_t version = across.model->knob_version;
    OK(sw_model_copy(beside.model, from.model)); /* on one card */
    CU_ASSERT(same(beside.model, from.model));
    most_files = 0;
    OK(sw_model_copy(across.model, beside.model)); /* to another */
    CU_ASSERT(same(across.model, from.model));
    CU_ASSERT_NOT_EQUAL(across.model->knob_version, version);
    CU_ASSERT(most_files <= SWI_PIECE_BYTES);
    OK(sw_model_copy(back.model, across.model)); /* to the host */
    CU_ASSERT(same(back.model, from.model));
    CU_ASSERT_EQUAL(sw_knob_get(back.knob), 9.0f);
    const float *knobs =
        (const float *)(const void *)(back.model->base +
                                      back.model->entries[back.model->knob_entry].offset);
    CU_ASSERT_EQUAL(knobs[back.knob.index], 9.0f); /* what runs of the CPU read */
    OK(sw_model_copy(from.model, host.model));     /* and from it */
    CU_ASSERT(same(from.model, host.model));
    OK(sw_model_copy(from.model, from.model));
}

SW_TEST("parameters, gradients and counts are read and written")
{
    new_cards();
    const rich r = ready_on("cuda", 1);
    float ones[33], x[33];
    OK(sw_param_read(r.ones, ones, sizeof ones));
    CU_ASSERT_EQUAL(ones[32], 1.0f);
    for (int i = 0; i < 33; i++)
        ones[i] = (float)i;
    OK(sw_param_write(r.ones, ones, sizeof ones));
    OK(sw_param_read(r.ones, x, sizeof x));
    CU_ASSERT_EQUAL(memcmp(x, ones, sizeof x), 0);
    REFUSED(sw_param_read(r.ones, x, 4), SW_INVALID, "132 bytes");
    unsigned char state[1001];
    memset(state, 1, sizeof state);
    OK(sw_param_read(r.state, state, sizeof state));
    CU_ASSERT_EQUAL(state[0] + state[1000], 0);

    const sw_param small = sw_param_find(r.model, "uniform");
    const swi_entry *kept = &r.model->entries[r.model->entries[small.index].kept];
    const float gradient[35] = {1.0f, 2.0f};
    float seen[35];
    OK(swi_model_write(r.model, kept->offset, gradient, sizeof gradient));
    OK(sw_param_gradient(small, seen, sizeof seen));
    CU_ASSERT_EQUAL(memcmp(seen, gradient, sizeof seen), 0);

    const double counts[SWI_SKIPPED_N] = {5.0, 2.0};
    uint64_t total = 9, in_a_row = 9;
    OK(sw_optimizer_skipped(r.opt, &total, &in_a_row));
    CU_ASSERT_EQUAL(total + in_a_row, 0);
    OK(swi_model_write(r.model, r.model->entries[r.opt->counts].offset, counts, sizeof counts));
    OK(sw_optimizer_skipped(r.opt, &total, &in_a_row));
    CU_ASSERT_EQUAL(total, 5);
    CU_ASSERT_EQUAL(in_a_row, 2);
}

SW_TEST("a knob waits for the next run")
{
    new_cards();
    const rich r = ready_on("cuda", 1);
    r.model->knob_uploaded = r.model->knob_version;
    const int64_t before = copies;
    sw_knob_set(r.knob, 0.5f);
    CU_ASSERT_EQUAL(sw_knob_get(r.knob), 0.5f);
    CU_ASSERT_NOT_EQUAL(r.model->knob_version, r.model->knob_uploaded);
    CU_ASSERT(before > 0 && copies == before); /* nothing waits for the card */
}

/* ---- files ------------------------------------------------------------------------------- */

static bool same_files(const char *a, const char *b)
{
    size_t n, m;
    char *x = sw_file_text(a, &n), *y = sw_file_text(b, &m);
    const bool same = x != NULL && y != NULL && n == m && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return same;
}

SW_TEST("files are those of the host, in pieces")
{
    new_cards();
    const rich there = ready_on("cuda", 7), here = ready_on(NULL, 7),
               anew = ready_on("cuda", 1);
    most_files = 0;
    OK(sw_model_save(there.model, sw_temp_path("there")));
    OK(sw_model_save(here.model, sw_temp_path("here")));
    CU_ASSERT(same_files(sw_temp_path("there"), sw_temp_path("here")));
    OK(sw_model_load(anew.model, sw_temp_path("here")));
    CU_ASSERT(same(anew.model, here.model));
    /* A piece, what checksums are read by, and names. */
    CU_ASSERT(most_files < SWI_PIECE_BYTES + ((size_t)1 << 20) + ((size_t)64 << 10));
    /* Halves are rounded and widened piece by piece. */
    OK(sw_model_save_as(there.model, sw_temp_path("there"), SW_BF16));
    OK(sw_model_save_as(here.model, sw_temp_path("halves"), SW_BF16));
    CU_ASSERT(same_files(sw_temp_path("there"), sw_temp_path("halves")));
    OK(sw_model_load(anew.model, sw_temp_path("halves")));
    OK(sw_model_load(there.model, sw_temp_path("here")));
    CU_ASSERT_FALSE(same(anew.model, there.model));
    OK(sw_model_load(there.model, sw_temp_path("there")));
    CU_ASSERT(same(anew.model, there.model));
    OK(sw_model_load(anew.model, sw_temp_path("here")));
    /* Of a damaged one the rest begins anew, here and there. */
    const double counts[SWI_SKIPPED_N] = {5.0, 2.0};
    const size_t at = anew.model->entries[anew.opt->counts].offset;
    OK(swi_model_write(anew.model, at, counts, sizeof counts));
    anew.model->damaged = true;
    OK(sw_model_load(anew.model, sw_temp_path("here")));
    CU_ASSERT(!anew.model->damaged);
    CU_ASSERT(same(anew.model, here.model));
}

/* A model that was only drawn is drawn again; of another it is said that it is damaged. */
SW_TEST("a file that is refused changes nothing")
{
    new_cards();
    const rich there = ready_on("cuda", 7), here = ready_on(NULL, 7), other = ready_on(NULL, 9);
    OK(sw_model_save(other.model, sw_temp_path("other")));
    OK(sw_model_save(here.model, sw_temp_path("here")));
    for (int drawn = 1; drawn >= 0; drawn--) {
        const rich was = drawn ? here : other, is = drawn ? other : here;
        const char *path = sw_textf("%s", sw_temp_path(drawn ? "other" : "here"));
        sw_status status = SW_IO;
        uint64_t k = 0;
        CU_ASSERT(there.model->drawn == (drawn != 0));
        for (; status != SW_OK && k < 1000; k++) {
            sw_fault_plan(SW_FAULT_FILE, k, SW_FAULT_ONCE);
            status = sw_model_load(there.model, path);
            sw_fault_plan(SW_FAULT_FILE, 0, SW_FAULT_OFF);
            if (status == SW_OK || there.model->damaged)
                break;
            CU_ASSERT(same(there.model, was.model));
        }
        CU_ASSERT(k >= 8); /* open, size, header, the first time through the data */
        CU_ASSERT(there.model->damaged == !drawn);
        if (!drawn) { /* from the second piece on: it says so, and is restored */
            REFUSED(sw_model_save(there.model, sw_temp_path("no")), SW_STALE, "restore");
            OK(sw_model_load(there.model, path));
        }
        CU_ASSERT(same(there.model, is.model));
    }
}

/* ---- refusals ---------------------------------------------------------------------------- */

static void no_step(sw_ctx *ctx, void *user)
{
}

SW_TEST("a model stays where it lies")
{
    new_cards();
    const rich there = ready_on("cuda", 1);
    sw_exec *cpu = exec_on_card(NULL, NULL);
    REFUSED(sw_model_ready(there.model, cpu, 1), SW_INVALID, "cuda:0");
    const sw_run_args args = SW_OPTS(sw_run_args, .fn = no_step, .mode = SW_EVAL,
                                     .models = (sw_model *[]){there.model}, .n_models = 1);
    REFUSED(sw_run(cpu, &args), SW_INVALID, "the exec works on the CPU");
    CU_ASSERT(!there.model->damaged);
}

SW_TEST("a budget is of the device")
{
    new_cards();
    sw_budget *budget;
    sw_fake_live before, after;
    OK(sw_budget_create(&budget, (size_t)1 << 20));
    AFTER(sw_budget_destroy, budget);
    const rich r = new_rich();
    sw_exec *exec = exec_on_card("cuda", budget);
    sw_fake_card_api()->live(&before);
    REFUSED(sw_model_ready(r.model, exec, 1), SW_NOMEM, "rich");
    sw_fake_card_api()->live(&after);
    CU_ASSERT_PTR_EQUAL(r.model->device, swi_device_cpu());
    CU_ASSERT(after.ranges == before.ranges && after.device_bytes == before.device_bytes);
    CU_ASSERT_EQUAL(exec->target.device->users, 1);
    CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
}

/* Each call of making a model ready fails once: the card is broken from then on, nothing is
 * half ready, and all memory comes back. */
SW_TEST("a card that fails leaves no half model")
{
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .device = "cuda");
    uint64_t k = 0;
    for (bool failed = true; failed && k < 100; k++) {
        const sw_fake_api *f = sw_fake_card_new(NULL, 0);
        float x[33];
        rich r;
        sw_exec *exec = NULL;
        declare_rich(&r);
        OK(sw_exec_create(&exec, &opts));
        f->fail(NULL, k, 719);
        failed = sw_model_ready(r.model, exec, 1) != SW_OK;
        f->fail(NULL, 0, -1);
        CU_ASSERT_EQUAL(r.model->ready, !failed);
        if (failed) {
            REFUSED(sw_model_ready(r.model, exec, 1), SW_DEVICE, "failed before");
            CU_ASSERT_NOT_EQUAL(sw_param_read(r.ones, x, sizeof x), SW_OK);
        }
        sw_model_destroy(r.model);
        sw_exec_destroy(exec);
    }
    CU_ASSERT(k > 8 && k < 100);
    new_cards();
    sw_exec *exec = exec_on_card("cuda", NULL);
    const rich r = ready_on("cuda", 1);
    sw_fake_card_api()->fail("cudaMemcpyAsync", 1, 719);
    REFUSED(sw_model_ready(r.model, exec, 1), SW_DEVICE, "cudaMemcpyAsync");
    CU_ASSERT(r.model->damaged); /* it was whole before */
}

/* ---- what is said of the card ------------------------------------------------------------ */

SW_TEST("the card says whose its memory is")
{
    new_cards();
    const rich r = ready_on("cuda", 1);
    sw_exec *exec = exec_on_card("cuda", NULL), *cpu = exec_on_card(NULL, NULL);
    sw_device_info info = SW_OPTS(sw_device_info);
    sw_fake_live live;
    OK(sw_exec_device(exec, &info));
    CU_ASSERT_STRING_EQUAL(info.name, "cuda:0");
    CU_ASSERT_STRING_EQUAL(info.card, "card that is not there 0");
    CU_ASSERT_EQUAL(info.model_bytes, sw_arena_store(r.model->arena)->committed_bytes);
    sw_fake_card_api()->live(&live);
    CU_ASSERT_EQUAL(info.model_bytes, live.device_bytes);
    CU_ASSERT_EQUAL(info.arena_bytes + info.data_bytes, 0);
    CU_ASSERT_EQUAL(info.unexplained_bytes, 2 * (int64_t)SW_FAKE_BLAS_BYTES); /* of two execs */
    OK(sw_exec_device(cpu, &info));
    CU_ASSERT_STRING_EQUAL(info.name, "cpu");
    CU_ASSERT_EQUAL(info.total_bytes + info.model_bytes, 0);
    info.size = 0;
    REFUSED(sw_exec_device(cpu, &info), SW_INVALID, "size");
}

/* Once when it joins, once when it ends, whoever comes first. */
SW_TEST("a profile has the card at both ends")
{
    new_cards();
    sw_exec *exec = NULL;
    sw_profile *profile;
    OK(sw_profile_create(&profile, &SW_OPTS(sw_profile_opts, .path = sw_temp_path("cards"))));
    OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .device = "cuda")));
    OK(sw_exec_set_profile(exec, profile));
    swi_profile_device(exec, true);
    swi_profile_device(exec, true);
    sw_exec_destroy(exec);
    OK(sw_profile_destroy(profile));
    char line[4096];
    int begins = 0, ends = 0;
    FILE *f = fopen(sw_temp_path("cards"), "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    while (fgets(line, sizeof line, f) != NULL) {
        const bool is = strstr(line, "\"type\":\"device\"") != NULL &&
                        strstr(line, "\"card\":\"card that is not there 0\"") != NULL &&
                        strstr(line, "\"driver\":\"13.0\"") != NULL &&
                        strstr(line, "\"unexplained_bytes\":8388608") != NULL;
        begins += is && strstr(line, "\"at\":\"begin\"") != NULL;
        ends += is && strstr(line, "\"at\":\"end\"") != NULL;
    }
    (void)fclose(f);
    CU_ASSERT_EQUAL(begins, 1);
    CU_ASSERT_EQUAL(ends, 1);
}

/* ---- what works on it -------------------------------------------------------------------- */

static sw_exec *exec_as(const char *device, bool graphs)
{
    return net_exec(&SW_OPTS(sw_exec_opts, .device = device, .seed = 11, .no_graphs = !graphs));
}

static sw_exec *exec_on(const char *device)
{
    return exec_as(device, true);
}

/* All bytes but the knobs, which a run may not have taken yet, are those of *first; NULL: these
 * are the first, and stay until the test ends. */
static bool same_as(unsigned char **first, const sw_model *model)
{
    const size_t n = model->entries[model->knob_entry].offset;
    unsigned char *now = sw_block(n);
    OK(swi_model_read(model, now, 0, n));
    *first = *first != NULL ? *first : now;
    return memcmp(now, *first, n) == 0;
}

/* Three steps on a card whose call k is refused, and, where one of them failed, three more from
 * the beginning on the same exec: the bits are those of a card that refuses nothing. */
static bool go_on_after(uint64_t k, int error, bool graphs, unsigned char **bytes)
{
    sw_exec *exec = NULL;
    const sw_fake_api *f = sw_fake_card_new(NULL, 0);
    const batch b = net_batch(false, 0, 8);
    net *n = net_new(false, NULL);
    sw_run_args args = net_args(n, &b);
    OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .device = "cuda", .no_graphs = !graphs)));
    f->fail(NULL, k, error);
    sw_status status = sw_model_ready(n->model, exec, 1);
    for (args.step = 0; args.step < 3 && status == SW_OK; args.step++)
        status = sw_run(exec, &args);
    const char *failed = f->failed();
    f->fail(NULL, 0, -1);
    SW_CHECK(status == SW_OK || failed != NULL, "%s", sw_last_error());
    SW_CHECK(swi_device_fault(exec->target.device) == SW_OK, "call %d, %s: %s", (int)k, failed,
             sw_last_error());
    if (status != SW_OK) {
        OK(sw_model_ready(n->model, exec, 1));
        for (args.step = 0; args.step < 3; args.step++)
            OK(sw_run(exec, &args));
    }
    /* Where the library cannot be asked, own kernels make the product. */
    const bool prepares = failed != NULL && strncmp(failed, "cublasLtMat", 11) == 0 &&
                          strcmp(failed, "cublasLtMatmul") != 0;
    SW_CHECK(prepares || same_as(bytes, n->model), "call %d, %s: other bits", (int)k, failed);
    sw_model_destroy(n->model);
    n->model = NULL;
    sw_exec_destroy(exec);
    return failed != NULL;
}

SW_TEST("a call that a card refuses leaves it usable")
{
    enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2 };
    static const int errors[] = {INVALID_VALUE, OUT_OF_MEMORY};
    for (int i = 0; i < 4; i++) {
        unsigned char *bytes = NULL;
        uint64_t k = UINT64_MAX;
        (void)go_on_after(k, errors[i / 2], i % 2 == 0, &bytes);
        for (k = (uint64_t)i; go_on_after(k, errors[i / 2], i % 2 == 0, &bytes);)
            k += sw_tests_full() ? 1 : 17;
        CU_ASSERT(k > 100);
    }
}

/* ---- who waits for whom ------------------------------------------------------------------ */

/* Launched work is late, and the model is read, copied, saved and destroyed at once. */
SW_TEST("a model is read, copied and gone after what was launched")
{
    static const uint64_t seeds[] = {0, 1, 2, 3};
    unsigned char *bytes = NULL;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        sw_fake_card_new(NULL, seeds[i]);
        const batch b = net_batch(false, 0, 8);
        sw_exec *exec = exec_on("cuda");
        net *a = net_new(false, NULL), *c = net_new(false, NULL);
        sw_run_args args = net_args(a, &b);
        for (args.step = 0; args.step < 3; args.step++)
            OK(sw_run(exec, &args));
        OK(sw_model_ready(c->model, exec, 5));
        OK(sw_model_copy(c->model, a->model));
        CU_ASSERT(i > 0 || same_as(&bytes, a->model)); /* reading it waits */
        CU_ASSERT(same_as(&bytes, c->model));
        OK(sw_run(exec, &args)); /* the models end while one is trained */
    }
}

/* Two execs train one model in turns: each waits for what the other has left to do. */
SW_TEST("execs that share a model wait for each other")
{
    unsigned char *bytes = NULL;
    for (uint64_t lazy = 0; lazy < 3; lazy++) {
        sw_fake_card_new(NULL, lazy);
        const batch b = net_batch(false, 0, 8);
        sw_exec *execs[2] = {NULL, exec_on("cuda")};
        net *n = net_new(false, NULL);
        execs[0] = exec_on("cuda"); /* ends before the model, the other one after it */
        sw_run_args args = net_args(n, &b);
        for (args.step = 0; args.step < 6; args.step++)
            OK(sw_run(execs[args.step % 2], &args));
        CU_ASSERT(same_as(&bytes, n->model));
    }
}

typedef struct {
    sw_exec *exec;
    const sw_run_args *args;
    sw_status status;
    char message[300];
} other_thread;

static void run_there(void *arg)
{
    other_thread *t = arg;
    t->status = sw_run(t->exec, t->args);
    strncpy(t->message, sw_last_error(), sizeof t->message - 1);
}

/* A card belongs to each thread that works with it, also where that thread never said so. */
SW_TEST("any thread can work on any card")
{
    sw_fake_card_new(&(sw_fake_card){.cards = 2}, 0);
    const batch b = net_batch(false, 0, 8);
    sw_exec *execs[] = {exec_as("cuda:1", false), exec_as("cuda:0", true)};
    net *nets[] = {net_new(false, NULL), net_new(false, NULL)};
    for (int i = 0; i < 2; i++) {
        const sw_run_args args = net_args(nets[i], &b);
        OK(sw_run(execs[i], &args));
        for (int round = 0; round < 2; round++) {
            sw_thread *thread = NULL;
            other_thread there = {.exec = execs[i], .args = &args};
            CU_ASSERT_EQUAL_FATAL(sw_thread_start(&thread, run_there, &there, "sw-there"),
                                  SW_OK);
            sw_thread_join(thread);
            SW_CHECK(there.status == SW_OK, "%s", there.message);
        }
    }
    const sw_run_args args = net_args(nets[0], &b);
    REFUSED(sw_run(execs[1], &args), SW_INVALID, "cuda:1");
}

typedef struct {
    swi_device *device;
    void *from;
    int reads;
} reader;

static void read_there(void *arg)
{
    reader *r = arg;
    char byte;
    __atomic_store_n(&r->reads, 1, __ATOMIC_RELEASE);
    OK(swi_device_read(r->device, &byte, r->from, 1));
}

/* A launch under capture that fails looks at the card's fault: who waits for the capture to end
 * may not hold what that needs. */
SW_TEST("who waits for a capture holds nothing up")
{
    swi_device *device;
    sw_cuda_queue queue = {0};
    sw_thread *thread = NULL;
    sw_fake_card_new(NULL, 0);
    OK(swi_device_open(&device, "cuda"));
    reader there = {.device = device};
    OK(device->memory.alloc(device, &there.from, 4096));
    OK(swi_device_zero(device, there.from, 4096));
    OK(device->api->queue_create(device->card, &queue, false, 0));
    OK(device->api->capture_begin(&queue));
    CU_ASSERT_EQUAL_FATAL(sw_thread_start(&thread, read_there, &there, "sw-reader"), SW_OK);
    for (int rest = 100; rest > 0; rest -= __atomic_load_n(&there.reads, __ATOMIC_ACQUIRE))
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    const int busy = pthread_mutex_trylock(&device->lock);
    if (busy == 0)
        pthread_mutex_unlock(&device->lock);
    CU_ASSERT_EQUAL(busy, 0);
    OK(device->api->capture_end(&queue, NULL));
    sw_thread_join(thread);
    device->api->queue_destroy(device->card, &queue);
    device->memory.free(device, there.from);
    swi_device_close(device);
}

/* ---- cards that cannot map --------------------------------------------------------------- */

/* Blocks move when a larger batch comes, while earlier work is late. The driver has no mapping,
 * or says that it has, and refuses. */
SW_TEST("a card of plain blocks trains the same")
{
    unsigned char *bytes = NULL;
    for (int plain = 0; plain < 3; plain++)
        for (uint64_t lazy = 0; lazy < 2; lazy++) {
            sw_fake_card_new(&(sw_fake_card){.cannot_map = plain == 1}, lazy)
                ->fail("cuMemMap", 0, plain == 2 ? 801 : -1); /* cudaErrorNotSupported */
            sw_exec *exec = exec_on("cuda");
            CU_ASSERT_EQUAL(exec->target.device->memory.granularity > 0, plain == 0);
            net *n = net_new(false, NULL);
            for (int step = 0; step < 6; step++) {
                const batch b = net_batch(false, 0, step < 2 ? 2 : step < 4 ? 37 : 8);
                sw_run_args args = net_args(n, &b);
                args.step = (uint64_t)step;
                OK(sw_run(exec, &args));
            }
            CU_ASSERT(same_as(&bytes, n->model));
        }
}

/* ---- what is said ------------------------------------------------------------------------ */

SW_TEST("the figures of the card add up")
{
    sw_fake_card_new(NULL, 0);
    const batch b = net_batch(false, 0, 8);
    sw_exec *exec = exec_on("cuda");
    net *n = net_new(false, NULL);
    (void)net_train(exec, n, &b, 3);
    sw_device_info d = SW_OPTS(sw_device_info);
    sw_heap_stats pinned;
    OK(sw_exec_device(exec, &d));
    sw_heap_read(SW_HEAP_PINNED, &pinned);
    CU_ASSERT(d.model_bytes >= n->model->bytes && d.arena_bytes > 0 && d.data_bytes > 0);
    CU_ASSERT_EQUAL(d.open_bytes - d.free_bytes, d.model_bytes + d.arena_bytes + d.data_bytes +
                                                     d.graph_bytes +
                                                     (size_t)d.unexplained_bytes);
    CU_ASSERT(d.graph_bytes > 0);
    SW_CHECK(d.unexplained_bytes >= 0 && d.unexplained_bytes <= (int64_t)SW_FAKE_BLAS_BYTES,
             "%lld", (long long)d.unexplained_bytes);
    CU_ASSERT(pinned.bytes > 0);
    CU_ASSERT_EQUAL(d.pinned_bytes, pinned.bytes);
}

SW_TEST("what does not fit names the card")
{
    sw_fake_card_new(&(sw_fake_card){.total_bytes = SW_FAKE_CONTEXT_BYTES + ((size_t)32 << 20)},
                     0);
    sw_exec *exec = exec_on("cuda");
    net *n = net_new(false, NULL);
    sw_model *big = NULL;
    OK(sw_model_create(&big, "big"));
    (void)sw_param_new(big, "w", SW_F32, SW_SHAPE(16, 1 << 20), "zeros");
    REFUSED(sw_model_ready(big, exec, 1), SW_NOMEM, "67108864");
    sw_model_destroy(big);
    /* All of it is somebody else's. */
    swi_device *device = exec->target.device;
    void *block;
    sw_device_info d = SW_OPTS(sw_device_info);
    OK(sw_exec_device(exec, &d));
    OK(device->memory.alloc(device->memory.context, &block, d.free_bytes));
    const batch b = net_batch(false, 0, 8);
    const sw_run_args args = net_args(n, &b);
    REFUSED(sw_run(exec, &args), SW_NOMEM,
            "cuda:0 (card that is not there 0) has 0 bytes free");
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "the peak is at"));
    device->memory.free(device->memory.context, block);
    OK(sw_run(exec, &args));
}

/* Of the step's own memory nothing is missing: it can run without a graph. */
SW_TEST("a graph that does not fit names the way out")
{
    sw_fake_card_new(NULL, 0);
    sw_exec *exec = exec_on("cuda");
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 8);
    const sw_run_args args = net_args(n, &b);
    OK(sw_model_ready(n->model, exec, 1));
    sw_fake_card_api()->fail("cudaGraphInstantiate", 0, 2); /* cudaErrorMemoryAllocation */
    REFUSED(sw_run(exec, &args), SW_NOMEM, "--no-graphs");
    REFUSED(sw_run(exec, &args), SW_STALE, "restore it");
    sw_fake_card_api()->fail(NULL, UINT64_MAX, -1);
    OK(sw_model_ready(n->model, exec, 1));
    OK(sw_run(exec, &args));
}

/* ---- skipped updates --------------------------------------------------------------------- */

/* Members of one program take turns; each that goes wrong is named when it is next. The two
 * that come first want no word of it. */
SW_TEST("skipped updates of members that take turns are reported")
{
    for (uint64_t lazy = 0; lazy < 2; lazy++) {
        sw_fake_card_new(NULL, lazy);
        sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.1f);
        float pixels[2 * NET_PIXELS] = {0};
        const uint8_t labels[2] = {1, 2};
        pixels[5] = NAN;
        const sw_array bad[2] = {{SW_F32, SW_SHAPE(2, NET_PIXELS), pixels},
                                 {SW_U8, SW_SHAPE(2), labels}};
        sw_exec *exec = exec_on("cuda");
        net *members[6];
        int told[6] = {0};
        for (int m = 0; m < 6; m++) {
            opts.max_skipped = m < 2 ? -1 : 3;
            members[m] = net_new(false, &opts);
        }
        for (int round = 0; round < 8; round++)
            for (int m = 0; m < 6; m++) {
                const batch good = net_batch(false, 0, 2);
                sw_run_args args = net_args(members[m], &good);
                args.inputs = m % 2 == 0 ? bad : good.in; /* every other one learns nothing */
                args.user = members[m];
                args.step = (uint64_t)round;
                const sw_status status = sw_run(exec, &args);
                CU_ASSERT(status == SW_OK || status == SW_INVALID);
                told[m] += status == SW_INVALID;
                CU_ASSERT(status == SW_OK || round >= 2); /* the third in a row */
            }
        for (int m = 0; m < 6; m++)
            SW_CHECK((m % 2 == 0 && m >= 2) == (told[m] > 0), "member %d: %d", m, told[m]);
        uint64_t total, in_a_row;
        OK(sw_optimizer_skipped(members[2]->opt, &total, &in_a_row));
        CU_ASSERT_EQUAL(total, 8);
        CU_ASSERT_EQUAL(in_a_row, 8);
    }
}
