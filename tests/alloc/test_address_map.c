/* The address map: arenas, stacks and the heap's purposes enter their ranges. */
#include "alloc/arena/arena.h"
#include "alloc/base/address_map.h"
#include "alloc/base/sys.h"
#include "tests/support/suite.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("claims")

typedef struct {
    sw_address_kind kind;
    const char *label;
    uintptr_t at; /* 0: anywhere */
    int found;
    sw_address_range last;
    size_t heap_bytes;
} search;

static void look(void *context, const sw_address_range *c)
{
    search *s = context;
    if (c->kind == SW_ADDRESS_HEAP)
        s->heap_bytes += c->bytes;
    if (c->kind != s->kind || strcmp(c->label, s->label) != 0 ||
        (s->at != 0 && (s->at < c->base || s->at - c->base >= c->bytes)))
        return;
    s->found++;
    s->last = *c;
}

static search find(sw_address_kind kind, const char *label, const void *at)
{
    search s = {.kind = kind, .label = label, .at = (uintptr_t)at};
    sw_address_map_visit(look, &s);
    return s;
}

static sw_arena *arena_of(size_t bytes)
{
    sw_store *store = NULL;
    sw_arena *arena = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_store_host_create(&store, bytes), SW_OK);
    const sw_arena_opts opts = {.label = "claimed", .store = store, .use = SW_ARENA_DATA};
    CU_ASSERT_EQUAL_FATAL(sw_arena_create(&arena, &opts), SW_OK);
    return arena;
}

SW_TEST("arenas are claimed while they live")
{
    enum { N = 5 };
    sw_arena *arenas[N];
    CU_ASSERT_EQUAL(find(SW_ADDRESS_ARENA, "claimed", NULL).found, 0);
    for (int i = 0; i < N; i++)
        arenas[i] = arena_of(100000);
    CU_ASSERT_EQUAL(find(SW_ADDRESS_ARENA, "claimed", NULL).found, N);
    size_t before[SW_ARENA_USES], after[SW_ARENA_USES];
    sw_address_map_arenas(before);
    const uint64_t version = sw_address_map_version();
    CU_ASSERT_EQUAL(sw_arena_grow(arenas[2], 1000, false), SW_OK);
    CU_ASSERT_NOT_EQUAL(sw_address_map_version(), version);
    sw_address_map_arenas(after);
    CU_ASSERT_EQUAL(after[SW_ARENA_DATA], before[SW_ARENA_DATA] + 1024);
    CU_ASSERT_EQUAL(after[SW_ARENA_STEP], before[SW_ARENA_STEP]);
    const search s = find(SW_ADDRESS_ARENA, "claimed", sw_arena_base(arenas[2]));
    CU_ASSERT_EQUAL(s.found, 1);
    CU_ASSERT_EQUAL(s.last.base, (uintptr_t)sw_arena_base(arenas[2]));
    CU_ASSERT_EQUAL(s.last.promised_bytes, 1024);
    CU_ASSERT(s.last.bytes >= 100000 && s.last.bytes % sw_page_bytes() == 0);
    static const int order[N] = {2, 0, 4, 3, 1}; /* middle, ends, rest */
    for (int i = 0; i < N; i++) {
        sw_arena_destroy(arenas[order[i]]);
        CU_ASSERT_EQUAL(find(SW_ADDRESS_ARENA, "claimed", NULL).found, N - 1 - i);
    }
}

typedef struct {
    const void *on_stack;
    int ready[2], go[2];
} stacked;

static void stand(void *arg)
{
    stacked *s = arg;
    char byte = 1;
    s->on_stack = &byte;
    (void)!write(s->ready[1], &byte, 1);
    (void)!read(s->go[0], &byte, 1);
}

SW_TEST("a stack is claimed until its thread is joined")
{
    stacked s = {0};
    sw_thread *thread;
    char byte = 1;
    CU_ASSERT_FATAL(pipe(s.ready) == 0 && pipe(s.go) == 0);
    CU_ASSERT_EQUAL_FATAL(sw_thread_start(&thread, stand, &s, "sw-standing"), SW_OK);
    CU_ASSERT_EQUAL(read(s.ready[0], &byte, 1), 1);
    const search found = find(SW_ADDRESS_STACK, "sw-standing", NULL);
    CU_ASSERT_EQUAL(found.found, 1);
#if !defined __SANITIZE_ADDRESS__ /* which may keep locals elsewhere */
    CU_ASSERT_EQUAL(find(SW_ADDRESS_STACK, "sw-standing", s.on_stack).found, 1);
#endif
    CU_ASSERT_EQUAL(write(s.go[1], &byte, 1), 1);
    sw_thread_join(thread);
    CU_ASSERT_EQUAL(find(SW_ADDRESS_STACK, "sw-standing", NULL).found, 0);
    for (int i = 0; i < 2; i++) {
        close(s.ready[i]);
        close(s.go[i]);
    }
}

typedef struct {
    int left, wrong; /* threads that run; calls that failed */
} coming;

static void come_and_go(void *arg)
{
    coming *c = arg;
    int wrong = 0;
    for (int i = 0; i < 200; i++) {
        sw_store *store = NULL;
        sw_arena *arena = NULL;
        wrong += sw_store_host_create(&store, 100000) != SW_OK;
        const sw_arena_opts opts = {.label = "claimed", .store = store};
        wrong += store == NULL || sw_arena_create(&arena, &opts) != SW_OK;
        wrong += arena == NULL || sw_arena_grow(arena, 1000, false) != SW_OK ||
                 sw_arena_grow(arena, 50000, true) != SW_OK;
        sw_arena_destroy(arena);
    }
    __atomic_fetch_add(&c->wrong, wrong, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&c->left, 1, __ATOMIC_RELEASE);
}

/* A reader sees each entry as it is or was: never more entries than there are, and only
 * heights that were asked for. */
SW_TEST("claims come and go while somebody looks")
{
    enum { N = 3 };
    sw_thread *threads[N];
    coming c = {.left = N};
    for (int i = 0; i < N; i++)
        CU_ASSERT_EQUAL_FATAL(sw_thread_start(&threads[i], come_and_go, &c, "sw-coming"),
                              SW_OK);
    while (__atomic_load_n(&c.left, __ATOMIC_ACQUIRE) > 0) {
        const search s = find(SW_ADDRESS_ARENA, "claimed", NULL);
        const size_t height = s.last.promised_bytes;
        SW_CHECK(s.found <= N && (height == 0 || height == 1024 || height == 50048),
                 "%d arenas, height %zu", s.found, height);
        CU_ASSERT_EQUAL(find(SW_ADDRESS_STACK, "sw-coming", NULL).found, N);
    }
    for (int i = 0; i < N; i++)
        sw_thread_join(threads[i]);
    CU_ASSERT_EQUAL(c.wrong, 0);
    CU_ASSERT_EQUAL(find(SW_ADDRESS_ARENA, "claimed", NULL).found, 0);
    CU_ASSERT_EQUAL(find(SW_ADDRESS_STACK, "sw-coming", NULL).found, 0);
}

/* Of whatever size, a block lies in what its purpose claims, and in no other's. */
SW_TEST("blocks lie in what their purpose claims")
{
    static const size_t sizes[] = {1, 100, 5000, 70000, 3000000, 40000000};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    if (strncmp(sw_heap_backend(), "jemalloc", 8) != 0)
        SW_SKIP("the heap of the C library does not tell purposes apart");
    for (int h = 0; h < SW_HEAP_KINDS; h++)
        for (int i = 0; i < SIZES && h != SW_HEAP_PINNED; i++) { /* which others give */
            void *block;
            CU_ASSERT_EQUAL_FATAL(sw_heap_alloc(&block, (sw_heap)h, sizes[i]), SW_OK);
            for (int k = 0; k < SW_HEAP_KINDS; k++) {
                const char *name = sw_heap_name((sw_heap)k);
                const int found = find(SW_ADDRESS_HEAP, name, block).found;
                const char *end = (const char *)block + sizes[i] - 1;
                SW_CHECK(
                    found == (k == h) && find(SW_ADDRESS_HEAP, name, end).found == (k == h),
                    "%zu bytes of %s, %s: %d", sizes[i], sw_heap_name((sw_heap)h), name, found);
            }
            sw_heap_free(block, (sw_heap)h, sizes[i]);
        }
    CU_ASSERT(find(SW_ADDRESS_HEAP, "", NULL).heap_bytes > 0);
    CU_ASSERT(sw_heap_unclaimed_bytes() > 0); /* jemalloc's own records */
    CU_ASSERT(sw_heap_unclaimed_bytes() < (size_t)1 << 30);
}

/* Whether host code can write there, tried in a child of its own. */
static bool writable(unsigned char *at)
{
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile unsigned char *)at = 1;
        _exit(0);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

SW_TEST("a store has a guard at both ends")
{
    sw_store *store;
    const size_t page = sw_page_bytes();
    CU_ASSERT_EQUAL_FATAL(sw_store_host_create(&store, 3 * page), SW_OK);
    CU_ASSERT_EQUAL(store->ops->commit(store, 3 * page), SW_OK);
    CU_ASSERT(writable(store->base));
    CU_ASSERT(writable(store->base + 3 * page - 1));
    CU_ASSERT_FALSE(writable(store->base - 1));
    CU_ASSERT_FALSE(writable(store->base + 3 * page));
    sw_store_destroy(store);
}
