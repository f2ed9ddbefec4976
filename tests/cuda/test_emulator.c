/* The emulator finds what it is there to find, and nothing in kernels that are right. */
#include "alloc/base/poison.h"
#include "tests/cuda/emulator.h"
#include "kernels/cuda/table.h"
#include "runtime/ops/ops.h"
#include "runtime/stepwell.h"
#include "tests/cuda/entry.h"
#include "tests/cuda/planted.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("emulator")

#define N 1024
static float x[N], y[N];
static uint32_t u[N];
static const uint64_t schedules[] = {0, 1, 2, 3, 4};
#define SCHEDULES (sizeof schedules / sizeof *schedules)

static void set_up(uint64_t schedule)
{
    swi_emu_clear();
    swi_emu_schedule(schedule);
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i % 37);
        y[i] = -1.0f;
        u[i] = 0;
    }
}

static int run(planted p)
{
    p.y = p.y != NULL ? p.y : y;
    p.x = p.x != NULL ? p.x : x;
    p.u = u;
    p.blocks = p.blocks != 0 ? p.blocks : 1;
    p.threads = p.threads != 0 ? p.threads : 128;
    return planted_run(&p);
}

/* The number of blocks with the sum of their numbers. */
static int right_sums(void)
{
    int right = 0;
    for (int b = 0; b < 8; b++) {
        float sum = 0.0f;
        for (int i = 0; i < 128; i++)
            sum += x[b * 128 + i];
        right += y[b] == sum;
    }
    return right;
}

SW_TEST("a missing barrier shows")
{
    for (size_t s = 0; s < SCHEDULES; s++) {
        set_up(schedules[s]);
        CU_ASSERT_EQUAL(run((planted){.kernel = PLANTED_BLOCK_SUM, .blocks = 8, .right = 1}),
                        0);
        SW_CHECK(right_sums() == 8, "schedule %d: %s", (int)s, swi_emu_error());
    }
    /* The thread that adds comes last in order, so only other schedules see this one. */
    int seen = 0;
    for (size_t s = 0; s < SCHEDULES; s++) {
        set_up(schedules[s]);
        CU_ASSERT_EQUAL(run((planted){.kernel = PLANTED_BLOCK_SUM, .blocks = 8}), 0);
        seen += right_sums() < 8;
    }
    SW_CHECK(seen == SCHEDULES - 1, "%d of %d schedules show it", seen, (int)SCHEDULES);
}

static int wrong_reversals(void)
{
    int wrong = 0;
    for (int i = 0; i < 256; i++)
        wrong += y[i] != x[i / 128 * 128 + 127 - i % 128];
    return wrong;
}

SW_TEST("overwriting what others still read shows")
{
    for (size_t s = 0; s < SCHEDULES; s++) {
        set_up(schedules[s]);
        run((planted){.kernel = PLANTED_REVERSE_TWICE, .right = 1});
        CU_ASSERT_EQUAL(wrong_reversals(), 0);
        set_up(schedules[s]);
        run((planted){.kernel = PLANTED_REVERSE_TWICE});
        SW_CHECK(wrong_reversals() > 0, "schedule %d", (int)s);
    }
}

static int wrong_rounds(void)
{
    int wrong = 0;
    for (int i = 0; i < 256; i++)
        wrong += y[i] != (float)(i / 128 * 10 + i % 4);
    return wrong;
}

SW_TEST("a warp that runs ahead shows")
{
    for (size_t s = 0; s < SCHEDULES; s++) {
        set_up(schedules[s]);
        run((planted){.kernel = PLANTED_WARP_AHEAD, .right = 1});
        CU_ASSERT_EQUAL(wrong_rounds(), 0);
    }
    set_up(2); /* the newest first */
    run((planted){.kernel = PLANTED_WARP_AHEAD});
    CU_ASSERT(wrong_rounds() > 0);
}

static void expect(planted p, const char *const *words)
{
    for (size_t s = 0; s < SCHEDULES; s++) {
        set_up(schedules[s]);
        CU_ASSERT_NOT_EQUAL(run(p), 0);
        for (int i = 0; words[i] != NULL; i++)
            SW_CHECK(strstr(swi_emu_error(), words[i]) != NULL, "'%s' in: %s", words[i],
                     swi_emu_error());
    }
    set_up(0); /* and the next launch is as good as ever */
    CU_ASSERT_EQUAL(run((planted){.kernel = PLANTED_BLOCK_SUM, .blocks = 8, .right = 1}), 0);
    CU_ASSERT_EQUAL(right_sums(), 8);
}

SW_TEST("divergent barriers are named")
{
    expect((planted){.kernel = PLANTED_HALF_WAITS},
           (const char *[]){"half_waits: divergent barrier", "thread (",
                            "planted.cu:", "has ended", NULL});
    expect((planted){.kernel = PLANTED_WAITS_APART},
           (const char *[]){"waits_apart: divergent barrier", "waits at", NULL});
    expect((planted){.kernel = PLANTED_HALF_A_WARP},
           (const char *[]){"half_a_warp: divergent warp", "has ended", NULL});
    expect((planted){.kernel = PLANTED_BARRIER_AND_WARP},
           (const char *[]){"barrier_and_warp: divergent", NULL});
}

SW_TEST("launches that no device takes are refused")
{
    expect((planted){.kernel = PLANTED_COPIES, .threads = 1056},
           (const char *[]){"copies: a block of (1056, 1, 1)", NULL});
    expect((planted){.kernel = PLANTED_COPIES, .threads = 40},
           (const char *[]){"copies: a block of 40 threads", NULL});
    expect((planted){.kernel = PLANTED_COPIES, .blocks = 0x80000000u},
           (const char *[]){"copies: a grid of (2147483648, 1, 1)", NULL});
    expect((planted){.kernel = PLANTED_DYNAMIC_REVERSE, .right = 1, .shared_bytes = 50000},
           (const char *[]){"50000 bytes of shared memory", NULL});
    expect((planted){.kernel = PLANTED_TOO_MUCH_SHARED},
           (const char *[]){"65536 bytes of shared memory", NULL});
}

SW_TEST("a store to global memory stays out of shared memory")
{
    expect((planted){.kernel = PLANTED_GLOBAL_STORE_TO_SHARED},
           (const char *[]){"global_store_to_shared: a store to global memory", NULL});
    set_up(0);
    CU_ASSERT_EQUAL(run((planted){.kernel = PLANTED_GLOBAL_STORE_TO_SHARED, .right = 1}), 0);
    CU_ASSERT(y[0] == 1.0f && y[3] == 4.0f);
}

SW_TEST("shared memory begins as NaNs in each block")
{
    set_up(0);
    CU_ASSERT_EQUAL(run((planted){.kernel = PLANTED_READS_UNWRITTEN, .blocks = 2}), 0);
    for (int i = 0; i < 128; i++) {
        CU_ASSERT_EQUAL(y[i], 1.0f);
        CU_ASSERT(isnan(y[128 + i]));
    }
}

SW_TEST("lanes and atomics are those of the device")
{
    for (size_t s = 0; s < SCHEDULES; s++) {
        set_up(schedules[s]);
        CU_ASSERT_EQUAL(run((planted){.kernel = PLANTED_LANES, .threads = 96}), 0);
        for (uint32_t t = 0; t < 96; t++) {
            const uint32_t lane = t % 32, *got = u + t * 8;
            const uint32_t want[8] =
                SW_INIT(15, lane + 4 < 32 ? lane + 4 : lane, lane >= 2 ? lane - 2 : lane,
                        lane ^ 16u, 0x49249249u, 3, lane ^ 1u, lane);
            for (int k = 0; k < 8; k++)
                SW_CHECK(got[k] == want[k], "lane %u, %d: %u for %u", lane, k, got[k], want[k]);
        }
        set_up(schedules[s]);
        CU_ASSERT_EQUAL(run((planted){.kernel = PLANTED_COUNTS, .blocks = 5}), 0);
        CU_ASSERT_EQUAL(u[0], 640);
        CU_ASSERT_EQUAL(u[1], 639);
        CU_ASSERT_EQUAL(u[2], 7);
        CU_ASSERT_EQUAL(u[3], 9);
    }
}

SW_TEST("schedules are different, and each repeats")
{
    uint32_t last[SCHEDULES][2];
    for (size_t s = 0; s < SCHEDULES; s++) {
        for (int again = 0; again < 2; again++) {
            set_up(schedules[s]);
            CU_ASSERT_EQUAL(run((planted){.kernel = PLANTED_WHO_IS_LAST, .blocks = 7}), 0);
            CU_ASSERT(again == 0 || (u[0] == last[s][0] && u[1] == last[s][1]));
            memcpy(last[s], u, sizeof last[s]);
        }
    }
    CU_ASSERT(last[0][0] == 127 && last[0][1] == 6);
    CU_ASSERT(last[1][0] == 0 && last[1][1] == 0);
    CU_ASSERT(last[2][0] != last[3][0] || last[3][0] != last[4][0]);
}

/* ---- what the sanitizers see ------------------------------------------------------------- */

/* The last message of a child that runs `p`; "" where nothing is wrong. */
static void last_words(planted p, char *text, size_t room)
{
    int ends[2];
    text[0] = '\0';
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        run(p);
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got = 1; got > 0;) {
        got = read(ends[0], text + n, room - 1 - n);
        n += got > 0 ? (size_t)got : 0;
    }
    text[n] = '\0';
    close(ends[0]);
    waitpid(child, NULL, 0);
}

SW_TEST("overruns are reported where they are")
{
    static char text[1 << 16];
    if (!SW_POISON)
        SW_SKIP("built without the address sanitizer");
    set_up(0);
    float *room = malloc(200 * sizeof *room);
    last_words((planted){.kernel = PLANTED_COPIES, .y = room, .n = 200, .blocks = 2}, text,
               sizeof text);
    SW_CHECK(text[0] == '\0', "%s", text);
    last_words((planted){.kernel = PLANTED_COPIES, .y = room, .n = 201, .blocks = 2}, text,
               sizeof text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "heap-buffer-overflow"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "planted.cu:"));
    free(room);
    /* The operands of a launch, an element outside of one. */
    const sw_type six = {SW_F32, SW_PLAIN, {1, {6}}};
    const sw_buffer in = sw_entry_fill(&six, x, false, 0.0f, 0), out = sw_entry_buffer(&six, 0);
    for (int at = -2; at < 3; at++) {
        planted copy = {.kernel = PLANTED_COPIES, .x = in.ptr, .y = out.ptr, .n = 6};
        copy.x += at % 2 == 0 ? at / 2 : 0;
        copy.y += at % 2;
        last_words(copy, text, sizeof text);
        SW_CHECK((strstr(text, "use-after-poison") == NULL) == (at == 0), "%d: %s", at, text);
    }
    sw_entry_free();
    planted shared = {.kernel = PLANTED_DYNAMIC_REVERSE, .right = 1, .shared_bytes = 512};
    last_words(shared, text, sizeof text);
    SW_CHECK(text[0] == '\0', "%s", text);
    shared.right = 0; /* one place further */
    last_words(shared, text, sizeof text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "use-after-poison"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "planted.cu:"));
    last_words((planted){.kernel = PLANTED_COPIES_FOUR, .threads = 32, .x = x + 1}, text,
               sizeof text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "misaligned"));
}

SW_TEST("unwritten bytes are followed")
{
    static char text[1 << 16];
    if (!swi_emu_tracks())
        SW_SKIP("built without the memory sanitizer");
    set_up(1);
    CU_ASSERT_EQUAL(run((planted){.kernel = PLANTED_READS_UNWRITTEN, .blocks = 2}), 0);
    CU_ASSERT_EQUAL(swi_emu_unknown(y, 256 * sizeof *y), 128 * sizeof *y);
    CU_ASSERT_EQUAL(run((planted){.kernel = PLANTED_BLOCK_SUM, .right = 1}), 0);
    CU_ASSERT_EQUAL(swi_emu_unknown(y, sizeof *y), -1);
    CU_ASSERT_EQUAL(run((planted){.kernel = PLANTED_BLOCK_SUM}), 0);
    CU_ASSERT_EQUAL(swi_emu_unknown(y, sizeof *y), 0);
    planted passes = {.kernel = PLANTED_PASSES_UNWRITTEN, .right = 1};
    CU_ASSERT_EQUAL(run(passes), 0);
    for (int i = 0; i < 128; i++)
        CU_ASSERT_EQUAL(swi_emu_unknown(&y[i], sizeof *y), i % 2 == 0 ? 0 : -1);
    last_words(passes, text, sizeof text);
    SW_CHECK(text[0] == '\0', "%s", text);
    passes.right = 0;
    last_words(passes, text, sizeof text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "use-of-uninitialized-value"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "planted.cu:"));
    swi_emu_know(y, sizeof y);
}

/* An entry that copies `n` numbers from place `from` of its input on. */
typedef struct {
    int from, n;
} copied;

static sw_status copies_some(const sw_launch *l, const sw_cuda_queue *queue)
{
    const copied *c = l->attrs;
    if (queue->stated != NULL)
        ++*queue->stated;
    else
        planted_run(&(planted){.kernel = PLANTED_COPIES,
                               .blocks = 2,
                               .threads = 32,
                               .n = c->n,
                               .x = (const float *)l->in[0].ptr + c->from,
                               .y = l->out[0].ptr});
    return SW_OK;
}

SW_TEST("a launch knows its operands alone, and writes all")
{
    static const struct {
        bool strided;
        copied c;
        const char *says;
    } cases[] = {{false, {0, 6}, NULL},
                 {false, {0, 5}, "byte 20 of output 0"},
                 {false, {-1, 6}, "byte 0 of"},
                 {false, {1, 6}, "byte 20 of output 0"},
                 {true, {0, 6}, "byte 4 of"}};
    const sw_type type = {SW_F32, SW_PLAIN, {2, {2, 3}}};
    if (!swi_emu_tracks())
        SW_SKIP("built without the memory sanitizer");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sw_cuda_entry entry = {"copies", -1, copies_some, NULL, 1};
        const sw_buffer in = sw_entry_fill(&type, x, cases[i].strided, 0.0f, 0),
                        out = sw_entry_buffer(&type, 0);
        const sw_launch l = SW_OPTS(sw_launch, .in = &in, .n_in = 1, .out = &out, .n_out = 1,
                                    .attrs = &cases[i].c);
        const sw_status status = sw_side_launch(&entry, &l, (sw_cuda_counters){0});
        CU_ASSERT_EQUAL(status, cases[i].says == NULL ? SW_OK : SW_INVALID);
        SW_CHECK(status == SW_OK || strstr(sw_last_error(), cases[i].says) != NULL, "%s",
                 sw_last_error());
        sw_entry_free();
    }
}

/* A launch reads and writes so many fours of numbers. */
static void moves(const sw_entry_run *r, const sw_buffer *in, int n_in, const sw_buffer *out,
                  int n_out, uint64_t read, uint64_t written)
{
    const swi_emu_counts before = swi_emu_counted();
    sw_entry_launch(r->entry, in, n_in, out, n_out, r->attrs);
    const swi_emu_counts after = swi_emu_counted();
    SW_CHECK(after.fours_read - before.fours_read == read &&
                 after.fours_written - before.fours_written == written,
             "%s: %llu fours read of %llu, %llu written of %llu", r->label,
             (unsigned long long)(after.fours_read - before.fours_read),
             (unsigned long long)read,
             (unsigned long long)(after.fours_written - before.fours_written),
             (unsigned long long)written);
}

SW_TEST("cross-entropy and copies move each number once")
{
    static const swi_ce_attrs attrs = {0.1f, 0, 0};
    static float numbers[3 * 1003];
    static const int32_t labels[3] = {0};
    const sw_type scalar = {SW_F32, SW_PLAIN, {0}}, three = {SW_F32, SW_PLAIN, {1, {3}}};
    const sw_type ids = {SW_I32, SW_PLAIN, {1, {3}}};
    for (int64_t cols = 37; cols < 1004; cols += 322)
        for (size_t shift = 0; shift < 4; shift++) {
            const sw_type matrix = {SW_F32, SW_PLAIN, {2, {3, cols}}};
            uint64_t fours = 0;
            for (int64_t r = 0; r < 3; r++)
                fours += (uint64_t)(cols - ((-(int64_t)shift - r * cols) & 3)) / 4;
            sw_entry_run forward = sw_entry_of("forward", &sw_op_softmax_ce, -1, &attrs);
            sw_entry_run backward = sw_entry_of("backward", &sw_op_softmax_ce, 0, &attrs);
            const sw_buffer in[] = {sw_entry_fill(&matrix, numbers, false, 0.0f, shift),
                                    sw_entry_fill(&ids, labels, false, 0.0f, 0),
                                    sw_entry_fill(&three, numbers, false, 0.0f, 0),
                                    sw_entry_fill(&scalar, numbers, false, 0.0f, 0)};
            const sw_buffer out[] = {sw_entry_buffer(&scalar, 0), sw_entry_buffer(&three, 0)};
            const sw_buffer dx = sw_entry_buffer(&matrix, shift);
            moves(&forward, in, 2, out, 2, fours, 0);
            moves(&backward, in, 4, &dx, 1, fours, fours);
            sw_entry_free();
        }
    const sw_type part = {SW_F32, SW_PLAIN, {2, {3, 20}}};
    sw_entry_run copy = sw_entry_of("copy", &sw_op_copy, -1, NULL);
    sw_buffer from =
        sw_entry_fill(&(sw_type){SW_F32, SW_PLAIN, {2, {3, 24}}}, numbers, false, 0.0f, 0);
    const sw_buffer to = sw_entry_buffer(&part, 0);
    from.type = part;
    moves(&copy, &from, 1, &to, 1, 15, 15);
    sw_entry_free();
}

SW_TEST("gradients of biases read each number once, of either type, in one launch")
{
    static const swi_conv_attrs attrs = {1, 0, 1, 1};
    static float numbers[3 * 2 * 20];
    const sw_type images = {SW_F32, SW_PLAIN, {4, {3, 2, 4, 5}}};
    const sw_type halves = {SW_BF16, SW_PLAIN, {2, {6, 20}}};
    sw_type channels = {SW_F32, SW_PLAIN, {1, {2}}};
    sw_entry_run conv = sw_entry_of("conv2d", &sw_op_conv2d, 3, &attrs);
    sw_entry_run linear = sw_entry_of("linear", &sw_op_linear, 2, NULL);
    sw_buffer dy = sw_entry_fill(&images, numbers, false, 0.0f, 0);
    sw_buffer db = sw_entry_buffer(&channels, 0);
    moves(&conv, &dy, 1, &db, 1, 30, 0);
    dy = sw_entry_buffer(&halves, 0);
    channels = (sw_type){SW_BF16, SW_PLAIN, {1, {20}}};
    db = sw_entry_buffer(&channels, 0);
    memset(dy.ptr, 0, 6 * 20 * 2);
    const uint64_t before = swi_emu_counted().launches;
    moves(&linear, &dy, 1, &db, 1, 0, 0);
    CU_ASSERT_EQUAL(swi_emu_counted().launches, before + 1);
    CU_ASSERT(linear.entry->exact >= 2); /* it goes in no pieces */
    sw_entry_free();
}

/* Small whole numbers, whose sums are exact in any order. */
static sw_buffer whole(const sw_type *type, sw_dice *dice)
{
    const sw_buffer b = sw_entry_buffer(type, 0);
    for (int64_t i = 0; i < sw_type_elements(type); i++)
        ((float *)b.ptr)[i] = (float)sw_dice_below(dice, 9) - 4.0f;
    return b;
}

SW_TEST("the gradient of a convolution's bias is no launch beside that of its weights")
{
    static const struct {
        int64_t image[4], result[4], weights[4];
        int groups;
    } cases[] = {{{3, 4, 5, 5}, {3, 6, 5, 5}, {6, 4, 1, 1}, 1},
                 {{7, 4, 6, 6}, {7, 6, 6, 6}, {6, 4, 1, 1}, 1},
                 {{2, 10, 7, 7}, {2, 6, 5, 5}, {6, 10, 3, 3}, 1},
                 {{5, 4, 1, 1}, {5, 70, 1, 1}, {70, 4, 1, 1}, 1},
                 {{3, 8, 5, 5}, {3, 40, 5, 5}, {40, 4, 1, 1}, 2},
                 {{9, 130, 1, 1}, {9, 130, 1, 1}, {130, 130, 1, 1}, 1},
                 {{0, 4, 5, 5}, {0, 6, 5, 5}, {6, 4, 1, 1}, 1}};
    sw_dice dice = {7};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const swi_conv_attrs attrs = {1, 0, 1, cases[i].groups};
        sw_type image = {SW_F32, SW_PLAIN, {4, {0}}}, result = image, weights = image;
        memcpy(image.shape.dim, cases[i].image, sizeof cases[i].image);
        memcpy(result.shape.dim, cases[i].result, sizeof cases[i].result);
        memcpy(weights.shape.dim, cases[i].weights, sizeof cases[i].weights);
        const int64_t channels = cases[i].result[1],
                      plane = cases[i].result[2] * cases[i].result[3];
        const sw_type bias = {SW_F32, SW_PLAIN, {1, {channels}}};
        const sw_buffer in[] = {whole(&image, &dice), whole(&result, &dice)};
        const sw_buffer out[] = {sw_entry_buffer(&weights, 0), sw_entry_buffer(&bias, 0)};
        const sw_buffer alone = sw_entry_buffer(&weights, 0);
        uint64_t launches[3];
        sw_side_counts(&launches[0]);
        sw_entry_launch(sw_side_entry("conv2d", 2), in, 2, &alone, 1, &attrs);
        sw_side_counts(&launches[1]);
        sw_entry_launch(sw_side_entry("conv2d", 1), in, 2, out, 2, &attrs);
        sw_side_counts(&launches[2]);
        CU_ASSERT_EQUAL(launches[2] - launches[1], launches[1] - launches[0]);
        CU_ASSERT_EQUAL(memcmp(out[0].ptr, alone.ptr, sw_type_bytes(&weights)), 0);
        for (int64_t c = 0; c < channels; c++) {
            const float *db = out[1].ptr, *dy = in[1].ptr;
            float sum = 0.0f;
            for (int64_t k = 0; k < cases[i].result[0] * plane; k++)
                sum += dy[(k / plane * channels + c) * plane + k % plane];
            SW_CHECK(db[c] == sum, "case %d, channel %d: %g for %g", (int)i, (int)c,
                     (double)db[c], (double)sum);
        }
        sw_entry_free();
    }
}

SW_TEST("a module of another size is refused")
{
    sw_cuda_host host = {SW_CUDA_ABI + 1, sizeof host, sw_error_set};
    CU_ASSERT_PTR_NULL(sw_cuda_module_open(&host));
    host.abi--;
    host.size--;
    CU_ASSERT_PTR_NULL(sw_cuda_module_open(&host));
    CU_ASSERT_PTR_NULL(sw_cuda_module_open(NULL));
    host.size++;
    const sw_cuda_module *m = sw_cuda_module_open(&host);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    CU_ASSERT(m->abi == SW_CUDA_ABI && m->size == sizeof *m);
    CU_ASSERT_EQUAL(m->entry_size, sizeof(sw_cuda_entry));
}
