/* The module's half on the host (runtime/device/cuda) over the fake runtime: the contract of
 * api.h, and every call of CUDA failing once. */
#include "kernels/cuda/api.h"
#include "tests/cuda/fake/fake.h"
#include "tests/support/suite.h"
#include <dlfcn.h>
#include <pthread.h>

SW_TESTS("host")

#define MIB ((size_t)1 << 20)
#define STEP SW_FAKE_GRANULARITY

/* ---- the module -------------------------------------------------------------------------- */

static const sw_cuda_module *module;
static const sw_cuda_api *api;
static const sw_fake_api *fake;
static int records; /* host blocks that the module has */

static sw_status take(void **out, size_t bytes)
{
    *out = calloc(1, bytes);
    records++;
    return *out != NULL ? SW_OK : SW_NOMEM;
}

static void give(void *block, size_t bytes)
{
    records -= block != NULL;
    free(block);
}

static void *symbol_of(void *library, const char *name)
{
    void *symbol = library != NULL ? dlsym(library, name) : NULL;
    CU_ASSERT_PTR_NOT_NULL_FATAL(symbol);
    return symbol;
}

/* A card as it is plugged in, from here on. */
static void plug(const sw_fake_card *card)
{
    static const sw_cuda_host host = {SW_CUDA_ABI, sizeof host, sw_error_set, take, give};
    if (module == NULL) {
        void *library =
            dlopen(SW_BUILD_ROOT "/tests/cuda/libstepwell-cuda-fake.so", RTLD_NOW | RTLD_LOCAL);
        sw_cuda_module_opener *opener;
        sw_fake_opener *faker;
        SW_CHECK(library != NULL, "%s", dlerror());
        void *symbol = symbol_of(library, "sw_cuda_module_open");
        memcpy(&opener, &symbol, sizeof opener);
        symbol = symbol_of(library, "sw_fake");
        memcpy(&faker, &symbol, sizeof faker);
        module = opener(&host);
        CU_ASSERT_PTR_NOT_NULL_FATAL(module);
        api = module->api;
        fake = faker();
    }
    static const sw_fake_card usual;
    fake->reset(card != NULL ? card : &usual);
    fake->lazy(0);
    records = 0;
}

static sw_cuda_device *open_card(void)
{
    sw_cuda_device *card = NULL;
    SW_CHECK(api->open(&card, 0) == SW_OK, "%s", sw_last_error());
    CU_ASSERT_PTR_NOT_NULL_FATAL(card);
    return card;
}

static void good(sw_status status)
{
    SW_CHECK(status == SW_OK, "%s: %s", sw_status_name(status), sw_last_error());
}

/* Nothing is left, of the card's nor of the host's. */
static bool all_given_back(void)
{
    sw_fake_live l;
    fake->live(&l);
    return SW_CHECK(l.device_blocks + l.ranges + l.handles + l.pinned + l.streams + l.events +
                                l.graphs + l.execs + l.blas + l.device_bytes ==
                            0 &&
                        records == 0,
                    "left: %llu blocks, %llu ranges, %llu handles, %zu bytes, %llu pinned, "
                    "%llu streams, %llu events, %llu graphs, %d records",
                    (unsigned long long)l.device_blocks, (unsigned long long)l.ranges,
                    (unsigned long long)l.handles, l.device_bytes, (unsigned long long)l.pinned,
                    (unsigned long long)l.streams, (unsigned long long)l.events,
                    (unsigned long long)(l.graphs + l.execs), records);
}

static void nothing_was_wrong(void)
{
    SW_CHECK(fake->violation()[0] == '\0', "%s", fake->violation());
}

/* ---- cards ------------------------------------------------------------------------------- */

static void refused(const sw_fake_card *card, int ordinal, const char *what)
{
    sw_cuda_device *device = NULL;
    plug(card);
    const sw_status status = api->open(&device, ordinal);
    SW_CHECK(status == SW_DEVICE && strstr(sw_last_error(), what) != NULL && device == NULL,
             "%s: %s", sw_status_name(status), sw_last_error());
    all_given_back();
}

SW_TEST("cards that cannot be used are refused in a line")
{
    refused(&(sw_fake_card){.driver = -1}, 0, "no NVIDIA driver");
    refused(&(sw_fake_card){.driver = 12040}, 0, "it is for CUDA 12.4");
    refused(&(sw_fake_card){.cards = -1}, 0, "no device cuda:0: 0 were found");
    refused(&(sw_fake_card){.cards = 1}, 1,
            "no device cuda:1: 1 was found, the first is cuda:0");
    refused(&(sw_fake_card){.cards = 2}, 7,
            "no device cuda:7: 2 were found, the first is cuda:0");
    refused(NULL, -1, "no device cuda:-1");
    refused(&(sw_fake_card){.major = 7}, 0, "7.5 and up");
    refused(&(sw_fake_card){.major = 6, .minor = 1}, 0, "compute capability 6.1");
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    refused(&(sw_fake_card){.cards = -1}, 0, "CUDA_VISIBLE_DEVICES is ");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

SW_TEST("a card says what it is")
{
    sw_cuda_info info;
    void *block = NULL;
    plug(&(sw_fake_card){.major = 7, .minor = 5, .total_bytes = 1024 * MIB});
    sw_cuda_device *card = open_card();
    good(api->info(card, &info));
    CU_ASSERT(info.name[0] != '\0');
    CU_ASSERT(info.major == 7 && info.minor == 5 && info.driver == 13000);
    CU_ASSERT(info.can_map && info.granularity == STEP);
    CU_ASSERT_EQUAL(info.total_bytes, 1024 * MIB);
    CU_ASSERT_EQUAL(info.open_bytes, 1024 * MIB - SW_FAKE_CONTEXT_BYTES);
    CU_ASSERT_EQUAL(info.free_bytes, info.open_bytes);
    good(api->alloc(card, &block, 4 * MIB));
    good(api->info(card, &info));
    CU_ASSERT_EQUAL(info.free_bytes, info.open_bytes - 4 * MIB);
    api->free(card, block);
    api->close(card);
    plug(&(sw_fake_card){.cannot_map = true});
    card = open_card();
    good(api->info(card, &info));
    CU_ASSERT(!info.can_map && info.granularity == 0);
    CU_ASSERT_EQUAL(api->reserve(card, &block, STEP), SW_INVALID);
    api->close(card);
    all_given_back();
}

SW_TEST("a driver that refuses to map gives plain blocks")
{
    enum { OUT_OF_MEMORY = 2, LAUNCH_FAILURE = 719, NOT_SUPPORTED = 801 };
    static const char *const calls[] = {"cuMemGetAllocationGranularity",
                                        "cuMemAddressReserve",
                                        "cuMemCreate",
                                        "cuMemMap",
                                        "cuMemRelease",
                                        "cuMemSetAccess"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        sw_cuda_info info;
        void *block = NULL;
        plug(NULL);
        fake->fail(calls[i], 0, NOT_SUPPORTED);
        sw_cuda_device *card = open_card();
        CU_ASSERT_STRING_EQUAL(fake->failed(), calls[i]);
        good(api->info(card, &info));
        CU_ASSERT(!info.can_map && info.granularity == 0);
        CU_ASSERT_EQUAL(info.free_bytes, info.open_bytes);
        CU_ASSERT_EQUAL(api->reserve(card, &block, STEP), SW_INVALID);
        good(api->alloc(card, &block, STEP));
        api->free(card, block);
        api->close(card);
        all_given_back();
        for (int broken = 0; broken < 2; broken++) {
            plug(NULL);
            card = NULL;
            fake->fail(calls[i], 0, broken ? LAUNCH_FAILURE : OUT_OF_MEMORY);
            CU_ASSERT_EQUAL(api->open(&card, 0), broken ? SW_DEVICE : SW_NOMEM);
            CU_ASSERT_PTR_NULL(card);
            CU_ASSERT_EQUAL(records, 0);
        }
    }
    plug(NULL);
}

/* ---- memory ------------------------------------------------------------------------------ */

SW_TEST("a range grows and stays where it is")
{
    sw_cuda_queue queue;
    void *base = NULL;
    char text[] = "over the border", back[sizeof text] = "";
    plug(NULL);
    sw_cuda_device *card = open_card();
    good(api->queue_create(card, &queue, false, 0));
    good(api->reserve(card, &base, 64 * STEP));
    char *border = (char *)base + STEP;
    CU_ASSERT(!fake->is_device(base, 1));
    good(api->map(card, base, 0, STEP));
    CU_ASSERT(fake->is_device(base, STEP) && !fake->is_device(border, 1));
    CU_ASSERT_EQUAL(api->map(card, base, 0, 2 * STEP), SW_INVALID);
    CU_ASSERT_EQUAL(api->map(card, base, STEP, STEP), SW_INVALID);
    CU_ASSERT_EQUAL(api->map(card, base, STEP, 65 * STEP), SW_INVALID);
    CU_ASSERT_EQUAL(api->map(card, base, STEP, STEP + 4096), SW_INVALID);
    CU_ASSERT_EQUAL(api->map(card, border, STEP, 2 * STEP), SW_INVALID);
    CU_ASSERT_EQUAL(api->reserve(card, &base, STEP + 1), SW_INVALID);
    CU_ASSERT_EQUAL(api->reserve(card, &base, 0), SW_INVALID);
    good(api->map(card, base, STEP, 5 * STEP));
    good(api->copy(&queue, border - 4, text, sizeof text, SW_CUDA_TO_DEVICE));
    good(api->copy(&queue, border + STEP, border - 4, sizeof text, SW_CUDA_ON_DEVICE));
    good(api->fill(&queue, border + STEP, 'O', 1));
    good(api->copy(&queue, back, border + STEP, sizeof text, SW_CUDA_TO_HOST));
    good(api->queue_sync(card, &queue));
    CU_ASSERT_STRING_EQUAL(back, "Over the border");
    sw_fake_live l;
    fake->live(&l);
    CU_ASSERT_EQUAL(l.device_bytes, 5 * STEP);
    api->release(card, base, 64 * STEP);
    api->queue_destroy(card, &queue);
    api->close(card);
    all_given_back();
    nothing_was_wrong();
}

SW_TEST("what does not fit is refused and changes nothing")
{
    void *base = NULL, *block = &base;
    plug(&(sw_fake_card){.total_bytes = SW_FAKE_CONTEXT_BYTES + 8 * MIB});
    sw_cuda_device *card = open_card();
    good(api->reserve(card, &base, 64 * MIB));
    good(api->map(card, base, 0, 4 * MIB));
    CU_ASSERT_EQUAL(api->map(card, base, 4 * MIB, 10 * MIB), SW_NOMEM);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "cuMemCreate (6291456 bytes, 4194304 of"));
    good(api->map(card, base, 4 * MIB, 6 * MIB));
    CU_ASSERT_EQUAL(api->alloc(card, &block, 3 * MIB), SW_NOMEM);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "cudaMalloc (3145728 bytes, 2097152 of"));
    CU_ASSERT_PTR_EQUAL(block, &base);
    good(api->sync(card)); /* the error is not found again */
    api->release(card, base, 64 * MIB);
    api->close(card);
    all_given_back();
    nothing_was_wrong();
}

/* ---- events ------------------------------------------------------------------------------ */

typedef struct {
    sw_cuda_device *card;
    sw_cuda_queue queue, other;
    sw_cuda_event *from, *to;
    void *there, *pinned;
    bool wrong; /* a mistake is made on purpose */
} bench;

static bench b; /* of the running test */

static void end(void *unused)
{
    api->host_free(b.card, b.pinned);
    api->free(b.card, b.there);
    api->event_destroy(b.from);
    api->event_destroy(b.to);
    api->queue_destroy(b.card, &b.queue);
    api->queue_destroy(b.card, &b.other);
    api->close(b.card);
    all_given_back();
    if (!b.wrong)
        nothing_was_wrong();
}

/* A new card with all of this on it, until the test ends. */
static void begin(void)
{
    plug(NULL);
    b = (bench){.card = open_card()};
    good(api->use(b.card));
    good(api->queue_create(b.card, &b.queue, false, 0));
    good(api->queue_create(b.card, &b.other, false, 0));
    good(api->event_create(b.card, &b.from, true));
    good(api->event_create(b.card, &b.to, true));
    good(api->alloc(b.card, &b.there, 4096));
    good(api->host_alloc(b.card, &b.pinned, 4096));
    memset(b.pinned, 0, 4096);
    sw_after(end, &b);
}

SW_TEST("events say where a queue is")
{
    bool done = false;
    uint64_t ns = 0;
    sw_cuda_event *plain = NULL;
    begin();
    good(api->event_create(b.card, &plain, false));
    good(api->done(b.from, &done));
    CU_ASSERT(done); /* never recorded */
    fake->lazy(1);
    good(api->record(b.from, &b.queue));
    good(api->fill(&b.queue, b.there, 1, 4096));
    good(api->record(b.to, &b.queue));
    good(api->record(plain, &b.queue));
    good(api->done(b.to, &done));
    CU_ASSERT(!done);
    good(api->fill(&b.queue, b.there, 2, 1)); /* "not ready" is not found after it */
    good(api->wait(plain));
    good(api->done(b.to, &done));
    CU_ASSERT(done);
    good(api->between(b.from, b.to, &ns));
    CU_ASSERT(ns > 0 && ns < 1000000000u);
    api->event_destroy(plain);
}

SW_TEST("a queue waits for an event of another")
{
    for (uint64_t seed = 1; seed < 30; seed++) {
        begin();
        fake->lazy(seed);
        memset(b.pinned, 'a', 4096);
        good(api->copy(&b.other, b.there, b.pinned, 4096, SW_CUDA_TO_DEVICE));
        good(api->record(b.to, &b.other));
        good(api->after(&b.queue, b.to));
        good(api->copy(&b.queue, (char *)b.pinned + 2048, b.there, 16, SW_CUDA_TO_HOST));
        good(api->fill(&b.queue, b.there, 'b', 4096));
        good(api->queue_sync(b.card, &b.queue));
        CU_ASSERT_EQUAL(((char *)b.pinned)[2048], 'a');
        char now[2] = "";
        fake->peek(now, b.there, 1);
        CU_ASSERT_EQUAL(now[0], 'b');
        sw_now(&b);
    }
}

/* ---- graphs ------------------------------------------------------------------------------ */

static sw_status note_work(bench *on)
{
    SW_TRY(api->after(&on->queue, on->from));
    SW_TRY(api->copy(&on->queue, on->there, on->pinned, 64, SW_CUDA_TO_DEVICE));
    SW_TRY(api->fill(&on->queue, (char *)on->there + 8, '-', 2));
    SW_TRY(api->copy(&on->queue, (char *)on->pinned + 64, on->there, 64, SW_CUDA_TO_HOST));
    return api->record(on->to, &on->queue);
}

SW_TEST("a captured queue is replayed with its events")
{
    sw_cuda_graph *graph = NULL;
    sw_cuda_event *end = NULL;
    sw_fake_counts before, after;
    uint64_t ns = 0;
    begin();
    good(api->event_create(b.card, &end, true));
    char *host = b.pinned;
    strcpy(host, "first words of the host");
    good(api->capture_begin(&b.queue));
    good(note_work(&b));
    good(api->capture_end(&b.queue, &graph));
    CU_ASSERT_EQUAL(host[64], '\0'); /* noted, not run */
    CU_ASSERT_EQUAL(api->graph_nodes(graph), 5);
    fake->counts(&before);
    for (int i = 0; i < 3; i++) {
        fake->lazy((uint64_t)i);
        host[0] = (char)('A' + i);
        good(api->record(b.from, &b.other));
        good(api->graph_launch(graph, &b.queue));
        good(api->record(end, &b.queue));
        good(api->wait(end));
        CU_ASSERT_EQUAL(host[64], 'A' + i);
        CU_ASSERT_EQUAL(host[72], '-');
        good(api->between(b.from, b.to, &ns)); /* those of this replay */
        CU_ASSERT(ns > 0);
        good(api->between(b.to, end, &ns));
    }
    fake->counts(&after);
    CU_ASSERT_EQUAL(after.graph_launches - before.graph_launches, 3);
    CU_ASSERT_EQUAL(after.allocs + after.maps + after.host_allocs + after.instantiated,
                    before.allocs + before.maps + before.host_allocs + before.instantiated);
    good(api->sync(b.card));
    api->graph_destroy(graph);
    api->event_destroy(end);
}

SW_TEST("a capture can be thrown away")
{
    begin();
    good(api->capture_begin(&b.queue));
    CU_ASSERT_EQUAL(api->capture_begin(&b.queue), SW_INVALID);
    CU_ASSERT_EQUAL(api->sync(b.card), SW_INVALID);
    good(note_work(&b));
    good(api->capture_end(&b.queue, NULL));
    good(note_work(&b)); /* runs */
    good(api->queue_sync(b.card, &b.queue));
}

SW_TEST("what no capture may see ends it")
{
    sw_cuda_graph *graph = NULL;
    begin();
    good(api->capture_begin(&b.queue));
    CU_ASSERT_EQUAL(api->queue_sync(b.card, &b.queue), SW_DEVICE);
    CU_ASSERT_EQUAL(api->capture_end(&b.queue, &graph), SW_DEVICE);
    CU_ASSERT_PTR_NULL(graph);
    good(note_work(&b)); /* nothing is captured any more */
    good(api->queue_sync(b.card, &b.queue));
    good(api->sync(b.card));
    CU_ASSERT_PTR_NOT_NULL(strstr(fake->violation(), "cudaStreamSynchronize"));
    b.wrong = true;
}

typedef struct {
    bench *b;
    int begun, waited;
} waiter;

static void *wait_for_card(void *arg)
{
    waiter *w = arg;
    __atomic_store_n(&w->begun, 1, __ATOMIC_RELEASE);
    const sw_status status = api->sync(w->b->card);
    __atomic_store_n(&w->waited, status == SW_OK ? 1 : -1, __ATOMIC_RELEASE);
    return NULL;
}

SW_TEST("another thread waits for the card after a capture")
{
    sw_cuda_graph *graph = NULL;
    pthread_t thread;
    begin();
    waiter w = {&b, 0, 0};
    good(api->capture_begin(&b.queue));
    pthread_create(&thread, NULL, wait_for_card, &w);
    while (__atomic_load_n(&w.begun, __ATOMIC_ACQUIRE) == 0)
        ;
    for (int i = 0; i < 1000; i++)
        good(api->fill(&b.queue, b.there, i & 255, 4096));
    CU_ASSERT_EQUAL(__atomic_load_n(&w.waited, __ATOMIC_ACQUIRE), 0);
    good(api->capture_end(&b.queue, &graph));
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(w.waited, 1);
    CU_ASSERT_EQUAL(api->graph_nodes(graph), 1000);
    api->graph_destroy(graph);
}

/* ---- every call fails -------------------------------------------------------------------- */

/* All of the table once; what was made is given back, however far it got. */
static sw_status everything(void)
{
    bench it = {0};
    sw_cuda_graph *graph = NULL;
    void *base = NULL;
    sw_cuda_info info = {.can_map = true};
    bool done = false, capturing = false;
    uint64_t ns;
    sw_status s = api->open(&it.card, 0);
    if (s != SW_OK)
        return s;
#define DO(call) s = s == SW_OK ? (call) : s
    DO(api->info(it.card, &info));
    DO(api->use(it.card));
    DO(api->queue_create(it.card, &it.queue, true, 0));
    DO(api->queue_create(it.card, &it.other, false, 0));
    if (info.can_map) {
        DO(api->reserve(it.card, &base, 8 * STEP));
        DO(api->map(it.card, base, 0, STEP));
        DO(api->map(it.card, base, STEP, 3 * STEP));
    }
    DO(api->alloc(it.card, &it.there, 4096));
    DO(api->host_alloc(it.card, &it.pinned, 4096));
    DO(api->event_create(it.card, &it.from, true));
    DO(api->event_create(it.card, &it.to, true));
    DO(api->record(it.from, &it.other));
    DO(note_work(&it));
    DO(api->wait(it.to));
    DO(api->done(it.to, &done));
    DO(api->between(it.from, it.to, &ns));
    DO(api->capture_begin(&it.queue));
    capturing = s == SW_OK;
    DO(note_work(&it));
    if (capturing) {
        const sw_status ended = api->capture_end(&it.queue, s == SW_OK ? &graph : NULL);
        DO(ended);
    }
    DO(api->graph_launch(graph, &it.queue));
    DO(api->queue_sync(it.card, &it.queue));
    DO(api->sync(it.card));
#undef DO
    api->graph_destroy(graph);
    api->event_destroy(it.from);
    api->event_destroy(it.to);
    api->host_free(it.card, it.pinned);
    api->free(it.card, it.there);
    if (base != NULL)
        api->release(it.card, base, 8 * STEP);
    api->queue_destroy(it.card, &it.queue);
    api->queue_destroy(it.card, &it.other);
    api->close(it.card);
    return s;
}

/* Call k fails with that error. Returns false when there is no call k. */
static bool fails(uint64_t k, int error)
{
    plug(NULL);
    fake->fail(NULL, k, error);
    const sw_status status = everything();
    const char *function = fake->failed();
    const sw_status wanted = error == 2 ? SW_NOMEM : SW_DEVICE;
    fake->fail(NULL, UINT64_MAX, 0);
    if (function == NULL) {
        SW_CHECK(status == SW_OK, "%s", sw_last_error());
        return false;
    }
    /* Calls that give back, and those that try to map, do not say that they failed; the broken
     * card is found later. */
    const bool named = strstr(sw_last_error(), function) != NULL ||
                       (error >= 700 && (strstr(function, "Destroy") != NULL ||
                                         strstr(function, "cuMem") != NULL));
    SW_CHECK(status == SW_OK || (status == wanted && named), "call %llu, %s: %s: %s",
             (unsigned long long)k, function, sw_status_name(status), sw_last_error());
    if (error < 700)
        SW_CHECK(all_given_back(), "call %llu, %s", (unsigned long long)k, function);
    else
        CU_ASSERT_EQUAL(records, 0);
    return true;
}

SW_TEST("every call fails by its name and leaves nothing")
{
    static const int errors[] = {2, 1, 719}; /* memory, invalid value, the card breaks */
    uint64_t k = 0;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        for (k = 0; fails(k, errors[i]); k++)
            ;
    sw_note("%llu calls", (unsigned long long)k);
    CU_ASSERT(k > 60);
    plug(NULL);
    good(everything());
    all_given_back();
    nothing_was_wrong();
}

static sw_status launch_tanh(const bench *on)
{
    for (uint32_t i = 0; i < module->n_entries; i++) {
        const sw_cuda_entry *e = &module->entries[i];
        if (strcmp(e->op, "tanh") != 0 || e->which != SW_CUDA_FORWARD)
            continue;
        const sw_buffer x = {
            .ptr = on->there, .type = {SW_F32, SW_PLAIN, SW_SHAPE(4)}, .stride = {1}};
        const sw_launch launch = {
            .size = sizeof launch, .in = &x, .n_in = 1, .out = &x, .n_out = 1};
        return e->kernel(&launch, &on->queue);
    }
    return SW_INVALID;
}

/* Neither memory that is short, nor a call that failed, nor "not ready" is found after the
 * next launch. */
SW_TEST("an error is reported once")
{
    void *huge = NULL;
    float value[4] = {0.5f, 0.5f, 0.5f, 0.5f};
    bool done = true;
    begin();
    good(api->copy(&b.queue, b.there, value, sizeof value, SW_CUDA_TO_DEVICE));
    good(launch_tanh(&b));
    CU_ASSERT_EQUAL(api->alloc(b.card, &huge, (size_t)1 << 50), SW_NOMEM);
    good(launch_tanh(&b));
    fake->fail("cudaMemcpyAsync", 0, 1);
    CU_ASSERT_EQUAL(api->copy(&b.queue, b.there, value, 4, SW_CUDA_TO_DEVICE), SW_DEVICE);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "cudaMemcpyAsync (4 bytes to the device)"));
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "cudaErrorInvalidValue, 1"));
    good(launch_tanh(&b));
    fake->lazy(1);
    good(api->fill(&b.queue, (char *)b.there + 16, 0, 1));
    good(api->record(b.to, &b.queue));
    good(api->done(b.to, &done));
    CU_ASSERT(!done);
    good(launch_tanh(&b));
    good(api->copy(&b.queue, value, b.there, sizeof value, SW_CUDA_TO_HOST));
    good(api->queue_sync(b.card, &b.queue));
    CU_ASSERT(fabsf(value[0] - 0.385779f) < 1e-5f && value[3] == value[0]); /* four times */
}
