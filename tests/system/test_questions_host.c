/* Of the sixteen questions those about the host, budgets and long runs; see test_questions.c.
 */
#include "alloc/base/mem.h"
#include "profiler/record/process.h"
#include "tests/system/asking.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

SW_TESTS("questions")

/* ---- 6: growth --------------------------------------------------------------------------- */

#define LEAK_BYTES 4096
#define LEAKS 64

/* Blocks that are given back when the test has ended. */
static struct {
    void *block[LEAKS];
    int n;
} leaked;

static void give_back(void *unused)
{
    while (leaked.n > 0)
        sw_heap_free(leaked.block[--leaked.n], SW_HEAP_DATASETS, LEAK_BYTES);
}

/* Two steps leak 4 KiB each, the second one is the last: the report names purpose and line. */
SW_TEST("6 what grows is named within two steps")
{
    const char *path = sw_temp_path("leak.jsonl");
    char place[64] = "";
    scene *s = scene_open(path, (sw_profile_opts){0});
    sw_after(give_back, NULL);
    for (int step = 1; step <= 6; step++) {
        if (step >= 5) {
            void **to = &leaked.block[leaked.n++];
            snprintf(place, sizeof place, "test_questions_host.c:%d", __LINE__ + 1);
            CU_ASSERT_EQUAL(sw_heap_alloc(to, SW_HEAP_DATASETS, LEAK_BYTES), SW_OK);
        }
        scene_layers(s, net, NET);
    }
    scene_close(s);
    const json_t *growth = at(report_of(path), "growth"), *rows = at(growth, "rows");
    CU_ASSERT_TRUE(json_is_true(at(growth, "grew")));
    CU_ASSERT_EQUAL(json_array_size(rows), 1);
    const json_t *row = json_array_get(rows, 0);
    check_text(row, "purpose", "datasets");
    check(row, "bytes_per_step", LEAK_BYTES);
    check(row, "first_step", 5);
    const char *at_place = json_string_value(at(row, "place"));
    SW_CHECK(at_place != NULL && strstr(at_place, place) != NULL, "%s, not %s", at_place,
             place);
}

SW_TEST("6 nothing grows in a clean run")
{
    const char *path = sw_temp_path("clean.jsonl");
    const int steps = sw_tests_full() ? 100000 : 3000;
    scene *s = scene_open(path, (sw_profile_opts){0});
    for (int i = 0; i < steps; i++)
        scene_layers(s, net, i % 2 == 0 ? NET : NET - 1);
    scene_close(s);
    const json_t *r = report_of(path);
    check(r, "steps", steps);
    CU_ASSERT_TRUE(json_is_false(at(r, "growth.grew")));
}

/* ---- 7 and 11: a budget ------------------------------------------------------------------ */

#define FIT "--model mlp --hidden 32 --synthetic-n 2000"
#define FIT_BYTES ((int64_t)2 << 20)

/* Of that model, by its shapes: weights and biases; two loaders of images and labels, which
 * have one slot up to 256 KiB and three above; at the peak of the step the images as floats,
 * the gradient of the first weight and the layer's result. Not counted here are numbers of 64
 * bytes, no more than this: */
#define FIT_NUMBERS 1024

static int64_t fit_parameters(void)
{
    return (int64_t)(floats(784 * 32) + floats(32) + floats(32 * 10) + floats(10));
}

static int64_t fit_slot(int64_t batch)
{
    return (int64_t)(scene_rounded((size_t)batch * 784) + scene_rounded((size_t)batch));
}

/* Of the loader for training. */
static int64_t fit_slots(int64_t batch)
{
    return fit_slot(batch) * (fit_slot(batch) <= (int64_t)256 << 10 ? 1 : 2);
}

static int64_t fit_arena(int64_t batch)
{
    return (int64_t)(floats(784 * batch) + floats(784 * 32) + floats(32 * batch));
}

static int64_t fit_total(int64_t batch)
{
    return 3 * fit_parameters() + fit_slots(batch) + fit_arena(batch);
}

static bool near(int64_t is, int64_t least)
{
    return is >= least && is <= least + FIT_NUMBERS;
}

/* The answer is tried, once for all questions: that batch trains under the budget, and one more
 * is refused. */
static int64_t largest_that_trains(void)
{
    static int64_t batch;
    if (batch > 0)
        return batch;
    batch = (FIT_BYTES - 3 * fit_parameters()) / (784 * (2 + 4));
    while (ask("train --quiet --steps 1 --no-recompute " FIT
               " --memory-budget %lld --batch %lld",
               (long long)FIT_BYTES, (long long)batch) == 4)
        batch--;
    CU_ASSERT_EQUAL(asked.status, 0);
    return batch;
}

SW_TEST("7 the largest batch fits, and no other")
{
    CU_ASSERT_EQUAL(ask("plan --json " FIT " --fit %lld", (long long)FIT_BYTES), 0);
    const json_t *r = answer();
    const int64_t batch = number_at(r, "largest_batch"), total = number_at(r, "total_bytes");
    SW_CHECK(total <= FIT_BYTES && near(total, fit_total(batch)), "%lld bytes",
             (long long)total);
    CU_ASSERT_EQUAL(batch, largest_that_trains());
}

SW_TEST("11 who held what when it did not fit")
{
    const int64_t trains = largest_that_trains(), batch = trains + 1;
    const char *path = sw_temp_path("denied.jsonl");
    CU_ASSERT_EQUAL(ask("train --quiet --no-recompute " FIT
                        " --memory-budget %lld --batch %lld --profile %s",
                        (long long)FIT_BYTES, (long long)batch, path),
                    4);
    const json_t *d = at(report_of(path), "denied");
    check(d, "batch", batch);
    check_text(d, "limited_by", "budget");
    check(d, "limit_bytes", FIT_BYTES);
    check(d, "data_bytes", fit_slots(batch));
    check(d, "largest_batch", trains);
    CU_ASSERT(near(number_at(d, "model_bytes"), 3 * fit_parameters()));
    CU_ASSERT(near(number_at(d, "request_bytes"), fit_arena(batch)));
    CU_ASSERT(near(number_at(d, "needed_bytes"), fit_total(batch)));
    CU_ASSERT(number_at(d, "needed_bytes") > FIT_BYTES);
    check(d, "by_role.parameter", fit_parameters());
    check(d, "by_role.input", (int64_t)floats(784 * batch) + fit_slot(batch));
    check(d, "by_role.saved", (int64_t)floats(32 * batch));
    CU_ASSERT(near(number_at(d, "by_role.optimizer_state"), 2 * fit_parameters()));
    CU_ASSERT(near(number_at(d, "by_role.gradient"), (int64_t)floats(784 * 32)));
    CU_ASSERT_EQUAL(sum_of(at(d, "by_role"), NULL), number_at(d, "live_bytes"));
    CU_ASSERT_EQUAL(sum_of(at(d, "by_layer"), NULL), number_at(d, "live_bytes"));
    const json_t *first = json_array_get(at(d, "holders"), 0);
    check_text(first, "name", "to_f32.out");
    check(first, "bytes", (int64_t)floats(784 * batch));
}

/* ---- 8 to 10: where the bytes are -------------------------------------------------------- */

#if HAVE_STEADY /* sanitizers keep memory of their own for each byte */
static int64_t pages(int64_t bytes)
{
    const int64_t page = (int64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* From the process down to the tensors; the system says from outside what the process took. */
static void reserved_and_used(int64_t batch)
{
    const char *path = sw_temp_path("waterfall.jsonl");
    CU_ASSERT_EQUAL(ask("train --quiet --steps 3 " FIT " --batch %lld --process --profile %s",
                        (long long)batch, path),
                    0);
    const int64_t outside = (int64_t)asked.peak_bytes;
    const json_t *w = at(report_of(path), "waterfall");
    const int64_t process = number_at(w, "process_bytes");
    /* The system counts pages for each processor, and adds them up from time to time. */
    SW_CHECK(process <= outside + (1 << 20) && process > outside / 2, "%lld of %lld bytes",
             (long long)process, (long long)outside);
    CU_ASSERT_EQUAL(number_at(w, "system_bytes") + number_at(w, "stack_bytes") +
                        number_at(w, "heap_bytes") + number_at(w, "arenas_bytes") +
                        number_at(w, "unexplained_bytes"),
                    process);
    const int64_t model = number_at(w, "model_bytes"), arena = number_at(w, "arena_bytes");
    CU_ASSERT(near(model, 3 * fit_parameters()) && near(arena, fit_arena(batch)));
    check(w, "data_bytes", fit_slots(batch));
    check(w, "planned_bytes", model + fit_slots(batch) + arena);
    const int64_t touched = pages(model) + pages(fit_slots(batch)) + pages(arena);
    check(w, "arenas_bytes", touched);
    check(w, "reserved_bytes", touched);
    check(w, "live_bytes",
          arena - number_at(w, "alignment_bytes") - number_at(w, "padding_bytes") -
              number_at(w, "holes_bytes"));
}

/* Also on both sides of 256 KiB a slot, from where on loaders have three. */
SW_TEST("8 what is reserved and what is used")
{
    if (access("/proc/self/smaps", R_OK) != 0)
        SW_SKIP("the system does not say what a process is made of");
    CU_ASSERT(fit_slot(333) <= (int64_t)256 << 10 && fit_slot(334) > (int64_t)256 << 10);
    reserved_and_used(100);
    reserved_and_used(333);
    reserved_and_used(334);
}

/* Not a size that the heap maps: the heap says how many addresses it has, not which. */
#define PLANT_BYTES (((size_t)5 << 20) + 3 * (size_t)sysconf(_SC_PAGESIZE))

static const json_t *process_of(const char *name)
{
    const char *path = sw_temp_path(name);
    static sw_process process;
    scene *s = scene_open(path, (sw_profile_opts){0});
    scene_layers(s, net, NET);
    CU_ASSERT_EQUAL(sw_process_read(&process), SW_OK);
    sw_prof_process_record(s->profile, &process);
    scene_close(s);
    return at(report_of(path), "process");
}

/* Memory that the library did not take is counted separately, to the page; a mapped file
 * has its name. */
SW_TEST("10 what is outside is named")
{
    if (access("/proc/self/smaps", R_OK) != 0)
        SW_SKIP("the system does not say what a process is made of");
    const json_t *before = process_of("before.jsonl");
    const int64_t rest = number_at(before, "unexplained_bytes");
    json_decref(before); /* the test's own memory is outside too */
    /* Between two guards the system does not join it with what lies beside it. */
    const size_t guard = (size_t)sysconf(_SC_PAGESIZE), whole = PLANT_BYTES + 2 * guard;
    char *fence = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(fence != MAP_FAILED);
    char *plant = fence + guard;
    CU_ASSERT_EQUAL_FATAL(mprotect(plant, PLANT_BYTES, PROT_READ | PROT_WRITE), 0);
    memset(plant, 1, PLANT_BYTES);
    CU_ASSERT(file_write(sw_temp_path("planted.bin"), plant, (size_t)1 << 20));
    const int fd = open(sw_temp_path("planted.bin"), O_RDONLY);
    volatile const char *file = mmap(NULL, (size_t)1 << 20, PROT_READ, MAP_SHARED, fd, 0);
    int64_t sum = 0;
    for (size_t i = 0; i < (size_t)1 << 20; i += 512)
        sum += file[i];
    const json_t *after = process_of("after.jsonl"), *lines = at(after, "lines");
    CU_ASSERT_EQUAL(sum, 2048);
    const int64_t more = number_at(after, "unexplained_bytes") - rest;
    SW_CHECK(more == (int64_t)PLANT_BYTES, "%lld bytes", (long long)more);
    int64_t all = 0, named = 0;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i);
        all += number_at(line, "resident_bytes");
        if (strstr(json_string_value(at(line, "name")), "planted.bin") != NULL)
            named += number_at(line, "resident_bytes");
    }
    CU_ASSERT_EQUAL(all, number_at(after, "resident_bytes"));
    CU_ASSERT_EQUAL(named, (int64_t)1 << 20);
    close(fd);
    munmap((void *)(uintptr_t)file, (size_t)1 << 20);
    munmap(fence, whole);
}
#endif

/* Of the net each tensor is rounded up by its own; of the other scene the arena is one unit
 * higher than what lives, whatever plan there is. */
SW_TEST("9 alignment and holes have lines")
{
    int64_t rounded = 0, all = 0;
    for (int i = 0; i < NET; i++) {
        rounded += (int64_t)floats(net[i].n) - net[i].n * 4;
        all += net[i].n * 4;
    }
    rounded += (int64_t)layers_joined(net, NET) - all;
    const json_t *w = at(report_of(net_profile("aligned.jsonl", NET)), "waterfall");
    check(w, "alignment_bytes", rounded);
    check(w, "holes_bytes", 0);
    check(w, "padding_bytes", 0);
    check(w, "live_bytes", 2 * all);

    const holes_scene holes = {.unit = 16384};
    const int64_t unit = (int64_t)floats(holes.unit),
                  numbers = HOLES_TENSORS * (int64_t)ONE_NUMBER;
    const char *path = sw_temp_path("holes.jsonl");
    scene *s = scene_open(path, (sw_profile_opts){0});
    scene_holes(s, &holes);
    scene_close(s);
    w = at(report_of(path), "waterfall");
    const int64_t arena = number_at(w, "arena_bytes"), hole = number_at(w, "holes_bytes");
    SW_CHECK(arena >= 6 * unit && arena <= 6 * unit + numbers, "%lld bytes", (long long)arena);
    SW_CHECK(hole >= unit - numbers && hole <= unit + numbers, "%lld bytes", (long long)hole);
    CU_ASSERT_EQUAL(number_at(w, "live_bytes") + number_at(w, "alignment_bytes") + hole, arena);
}

/* ---- 14: in production ------------------------------------------------------------------- */

static size_t lines_with(const char *path, const char *what)
{
    size_t bytes, n = 0;
    char *text = (char *)file_read(path, &bytes);
    for (const char *x = text; x != NULL && (x = strstr(x, what)) != NULL; x++)
        n++;
    free(text);
    return n;
}

/* Of one step in a hundred there is a record, while the peak is that of all steps. */
SW_TEST("14 it may stay on")
{
    char peak[64];
    const char *path = sw_temp_path("every.jsonl");
    snprintf(peak, sizeof peak, "\"measured_peak_bytes\":%zu", layers_peak(net, NET));
    scene *s = scene_open(path, (sw_profile_opts){.every = 100});
    for (int i = 1; i <= 1000; i++)
        scene_layers(s, net, i == 333 ? NET : NET - 1); /* its record is left out */
    scene_close(s);
    /* The first, each hundredth and the last. */
    CU_ASSERT_EQUAL(lines_with(path, "\"type\":\"step\""), 11);
    CU_ASSERT_EQUAL(lines_with(path, peak), 1);
}

/* ---- 15: the page ------------------------------------------------------------------------ */

static int sextet(char c)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

/* The numbers of a column of the page, which holds them in base64, as narrow as they go. */
static size_t column(const char *page, const char *name, uint64_t *to, size_t room)
{
    char key[80];
    unsigned width = 0, factor = 0, bits = 0;
    size_t n = 0, of = 0;
    uint64_t held = 0, x = 0;
    snprintf(key, sizeof key, "id=\"%s\" data-type=\"u", name);
    const char *from = strstr(page, key);
    SW_CHECK(from != NULL &&
                 sscanf(from + strlen(key), "%u\" data-n=\"%zu\" data-factor=\"%u\"", &width,
                        &of, &factor) == 3,
             "the page has no column %s", name);
    if (from == NULL)
        return 0;
    unsigned got = 0;
    for (const char *c = strchr(from, '>') + 1; sextet(*c) >= 0; c++) {
        held = held << 6 | (uint64_t)sextet(*c);
        bits += 6;
        if (bits < 8)
            continue;
        bits -= 8;
        x |= (held >> bits & 0xffu) << got;
        got += 8;
        if (got == width && n < room)
            to[n++] = x * factor;
        if (got == width)
            x = got = 0;
    }
    SW_CHECK(n == of, "%s: %zu numbers, not %zu", name, n, of);
    return n;
}

static unsigned char *page_of(const char *profile, const char *page, size_t *n)
{
    CU_ASSERT_EQUAL(ask("report %s --html %s", profile, page), 0);
    unsigned char *text = file_read(page, n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    sw_after(free, text);
    return text;
}

/* Every byte in one file, nothing that is asked of a network, and a long run costs little more
 * than a short one. tests/html opens such a page in a browser. */
SW_TEST("15 the page opens offline")
{
    size_t small, large, n;
    const char *page = (const char *)page_of(net_profile("page.jsonl", NET),
                                             sw_temp_path("page.html"), &small);
    static const char *const asks[] = {"http:",   "https:",         "//cdn",     "<link",
                                       "<iframe", " src=",          "@import",   "url(",
                                       "fetch(",  "XMLHttpRequest", "WebSocket", "import("};
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        const char *found = strstr(page, asks[i]);
        SW_CHECK(found == NULL, "the page asks for something: %.80s", found);
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(page, "default-src 'none'"));
    uint64_t bytes[16], padding[16];
    n = column(page, "t0.p0.bytes", bytes, 16);
    CU_ASSERT(n == NET + 2 && column(page, "t0.p0.padding", padding, 16) == n);
    for (size_t i = 0; i < NET; i++)
        SW_CHECK(bytes[i] == (uint64_t)net[i].n * 4 &&
                     bytes[i] + padding[i] == floats(net[i].n),
                 "%s: %llu and %llu bytes", net[i].scope[0], (unsigned long long)bytes[i],
                 (unsigned long long)padding[i]);
    CU_ASSERT_EQUAL(bytes[NET] + padding[NET], layers_joined(net, NET));

    const int steps = sw_tests_full() ? 100000 : 1000;
    const char *path = sw_temp_path("huge.jsonl");
    scene *s = scene_open(path, (sw_profile_opts){.events = 1});
    for (int i = 0; i < steps; i++)
        scene_layers(s, net, NET);
    scene_close(s);
    (void)page_of(path, sw_temp_path("huge.html"), &large);
    SW_CHECK(asked.peak_bytes < (size_t)1 << 30, "%zu bytes", asked.peak_bytes);
    sw_note("%d steps with their events: a page of %zu KiB, of 2 steps %zu KiB", steps,
            large >> 10, small >> 10);
}
