/* Memory of a card and what works on it, over the card that is not there (fake/): who waits for
 * whom when models, execs and threads come and go, cards that cannot map, and what is said of
 * it. */
#include "alloc/base/sys.h"
#include "runtime/device/device.h"
#include "runtime/model/model.h"
#include "tests/cuda/fake_card.h"
#include "tests/runtime/nets.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

SW_TESTS("card")

static sw_exec *exec_as(const char *device, bool graphs)
{
    return net_exec(&SW_OPTS(sw_exec_opts, .device = device, .seed = 11, .no_graphs = !graphs));
}

static sw_exec *exec_on(const char *device)
{
    return exec_as(device, true);
}

static bool same_as(const sw_model *model, const void *bytes, size_t n)
{
    void *copy = malloc(n);
    const bool same = copy != NULL && swi_model_read(model, copy, 0, n) == SW_OK &&
                      memcmp(copy, bytes, n) == 0;
    free(copy);
    return same;
}

/* All bytes but the knobs, which a run may not have taken yet. */
static size_t numbers_of(const sw_model *model)
{
    return model->entries[model->knob_entry].offset;
}

/* ---- who waits for whom ------------------------------------------------------------------ */

/* Launched work is late, and the model is read, copied, saved and destroyed at once. */
SW_TEST("a model is read, copied and gone after what was launched")
{
    static const uint64_t seeds[] = {0, 1, 2, 3};
    unsigned char *bytes = NULL;
    size_t n = 0;
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
        if (bytes == NULL) {
            n = numbers_of(a->model);
            bytes = sw_block(n);
            OK(swi_model_read(a->model, bytes, 0, n));
        }
        CU_ASSERT(same_as(c->model, bytes, n));
        OK(sw_run(exec, &args)); /* the models end while one is trained */
    }
}

/* Two execs train one model in turns: each waits for what the other has left to do. */
SW_TEST("execs that share a model wait for each other")
{
    void *bytes = NULL;
    for (uint64_t lazy = 0; lazy < 3; lazy++) {
        sw_fake_card_new(NULL, lazy);
        const batch b = net_batch(false, 0, 8);
        sw_exec *execs[2] = {NULL, exec_on("cuda")};
        net *n = net_new(false, NULL);
        execs[0] = exec_on("cuda"); /* ends before the model, the other one after it */
        sw_run_args args = net_args(n, &b);
        for (args.step = 0; args.step < 6; args.step++)
            OK(sw_run(execs[args.step % 2], &args));
        const size_t size = numbers_of(n->model);
        if (bytes == NULL) {
            bytes = sw_block(size);
            OK(swi_model_read(n->model, bytes, 0, size));
        }
        CU_ASSERT(same_as(n->model, bytes, size));
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

/* Blocks move when a larger batch comes, while earlier work is late. */
SW_TEST("a card of plain blocks trains the same")
{
    void *bytes = NULL;
    for (int plain = 0; plain < 2; plain++)
        for (uint64_t lazy = 0; lazy < 2; lazy++) {
            sw_fake_card_new(&(sw_fake_card){.cannot_map = plain == 1}, lazy);
            sw_exec *exec = exec_on("cuda");
            net *n = net_new(false, NULL);
            for (int step = 0; step < 6; step++) {
                const batch b = net_batch(false, 0, step < 2 ? 2 : step < 4 ? 37 : 8);
                sw_run_args args = net_args(n, &b);
                args.step = (uint64_t)step;
                OK(sw_run(exec, &args));
            }
            const size_t size = numbers_of(n->model);
            if (bytes == NULL) {
                bytes = sw_block(size);
                OK(swi_model_read(n->model, bytes, 0, size));
            }
            CU_ASSERT(same_as(n->model, bytes, size));
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
    CU_ASSERT_EQUAL(d.open_bytes - d.free_bytes,
                    d.model_bytes + d.arena_bytes + d.data_bytes + (size_t)d.unexplained_bytes);
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
