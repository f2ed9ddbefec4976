/* Snapshots planned again: traces of a plain allocator with known answers, damaged files, and
 * what long traces take. */
#include "tests/snapshot/files.h"
#include "tests/snapshot/plain_allocator.h"
#include "tests/snapshot/replanned.h"
#include "tests/support/files.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/process.h"
#include "tests/support/suite.h"
#include "profiler/inspect/replan/replan.h"
#include <sys/resource.h>
#include <time.h>

SW_TESTS("replan")

/* ---- a training -------------------------------------------------------------------------- */

static uint64_t activations(const plain_training *t)
{
    uint64_t bytes = 0;
    for (int i = 0; i < t->layers; i++)
        bytes += t->activation + 512 * (uint64_t)(i % 7);
    return bytes;
}

SW_TEST("a training has known answers")
{
    const plain_training t = {8, 6, 3, 3 * MIB, 2 * MIB, 30 * MIB};
    plain_allocator *p = plain_new(7);
    p->keep_sums = true;
    plain_train(p, &t);
    const replan *r = planned(plain_write(p, "training.pickle", 0));
    const uint64_t weights = 2 * (uint64_t)t.layers * t.weight,
                   step = weights + activations(&t) + t.weight;
    CU_ASSERT(r->proof.from == TRACE_NONE && r->at_reserved.known);
    CU_ASSERT_EQUAL(r->whole.bound, step + t.warm);
    CU_ASSERT(r->whole.height >= r->whole.bound &&
              r->whole.height < r->whole.bound * 101 / 100);
    CU_ASSERT_EQUAL(r->period.steps, 5); /* the first one has more */
    CU_ASSERT_EQUAL(r->period.requests, (uint32_t)(3 * t.layers));
    CU_ASSERT_EQUAL(r->step.bound, step);
    CU_ASSERT(r->step.height < step * 101 / 100);
    CU_ASSERT_EQUAL(r->step_kept, weights);
    CU_ASSERT_EQUAL(r->before_requested, step + t.warm);
    uint64_t most = 0;
    for (size_t i = 0; i < p->n_events; i++)
        most = p->sums[i].reserved > most ? p->sums[i].reserved : most;
    CU_ASSERT_EQUAL(r->reserved, most);
    CU_ASSERT_EQUAL(r->at_reserved.census.reserved, most);
    CU_ASSERT(r->n_holders > 0 && r->holders[0].bytes == weights);
    CU_ASSERT_EQUAL(r->holders[0].without.bound, step + t.warm - weights);
    CU_ASSERT(r->expandable >= r->whole.bound);
    uint64_t lost = 0;
    for (uint32_t i = 0; i < r->n_losers; i++)
        lost += r->losers[i].bytes;
    CU_ASSERT_EQUAL(lost, r->at_reserved.census.rounding + r->at_reserved.census.unsplit);
}

/* Offsets hold: nothing that lives at one time overlaps. */
SW_TEST("offsets do not overlap")
{
    const plain_training t = {12, 5, 4, 5 * MIB, MIB, 0};
    plain_allocator *p = plain_new(9);
    plain_train(p, &t);
    const replan *r = planned(plain_write(p, "offsets.pickle", 3));
    const trace_lives *l = &r->lives;
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < l->n; i++)
        for (uint32_t k = 0; k < i; k++) {
            const trace_life *a = &l->all[i], *b = &l->all[k];
            wrong += a->arena == b->arena && a->born < b->dead && b->born < a->dead &&
                     a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
        }
    CU_ASSERT_EQUAL(wrong, 0);
    for (uint32_t i = 0; i < l->n; i++) {
        const trace_life *x = &l->all[i];
        CU_ASSERT(x->offset % 512 == 0 && x->offset + x->bytes <= l->arenas[x->arena].height);
        CU_ASSERT((x->step_offset != UINT64_MAX) ==
                  (x->born < r->period.to && x->dead > r->period.from));
    }
}

/* Blocks of 30 and 10 MiB by turns on a device of 400 MiB; the small ones stay, so that 60 MiB
 * find no place though 260 MiB are free. */
SW_TEST("what did not fit is planned")
{
    uint64_t large[8];
    plain_allocator *p = plain_new(3);
    p->capacity = 330 * MIB;
    for (int i = 0; i < 8; i++) {
        uint64_t both = plain_malloc(p, 0, 40 * MIB, 1);
        plain_free(p, both, false);
        large[i] = plain_malloc(p, 0, 30 * MIB, 2);
        (void)plain_malloc(p, 0, 10 * MIB, 3);
    }
    for (int i = 0; i < 8; i++)
        plain_free(p, large[i], false);
    CU_ASSERT_EQUAL(plain_malloc(p, 0, 60 * MIB, 4), 0);
    const replan *r = planned(plain_write(p, "oom.pickle", 0));
    CU_ASSERT(r->oom.there && r->oom.moment.known && r->oom.fits);
    CU_ASSERT_EQUAL(r->oom.asked, 60 * MIB);
    CU_ASSERT_EQUAL(r->oom.requested, 80 * MIB);
    CU_ASSERT_EQUAL(r->oom.reserved, 320 * MIB);
    CU_ASSERT_EQUAL(r->oom.moment.census.split, 240 * MIB);
    CU_ASSERT_EQUAL(r->oom.with.height, 320 * MIB);
}

/* Two streams, one after the other in time: an arena for both needs half. */
SW_TEST("streams may be merged, private pools not")
{
    plain_allocator *p = plain_new(3);
    p->say_pools = true;
    for (uint64_t stream = 0; stream < 2; stream++)
        plain_free(p, plain_malloc(p, 64 * stream, 100 * MIB, 1), false);
    p->pool = 5;
    plain_free(p, plain_malloc(p, 0, 50 * MIB, 1), false);
    const replan *r = planned(plain_write(p, "streams.pickle", 0));
    CU_ASSERT(r->streams && r->lives.n_arenas == 3);
    CU_ASSERT_EQUAL(r->whole.height, 250 * MIB);
    CU_ASSERT_EQUAL(r->merged.height, 150 * MIB);
    CU_ASSERT_EQUAL(r->whole.most, 100 * MIB); /* one after the other */
    CU_ASSERT_EQUAL(replan_command("'%s' --replan --max-peak 100MiB", r->trace.path), 0);
    CU_ASSERT_EQUAL(r->at_reserved.census.other_pools + r->at_reserved.census.other_streams,
                    200 * MIB);
}

/* ---- damage ------------------------------------------------------------------------------ */

static void nothing(void *context, const char *bytes, size_t n)
{
    *(size_t *)context += n;
}

/* All of it, printed; SW_OK or a message. */
static sw_status plan_file(const char *path)
{
    replan r;
    size_t n = 0;
    const sw_writer to = {.put = nothing, .context = &n};
    const report_style style = {.to = &to};
    const sw_status status = replanned(&r, path);
    if (status == SW_OK)
        replan_print_text(&r, &style);
    replan_free(&r);
    return status;
}

static char *small_file(void)
{
    const plain_training t = {3, 4, 2, 3 * MIB, MIB, 0};
    plain_allocator *p = plain_new(7);
    p->capacity = 60 * MIB;
    plain_train(p, &t);
    (void)plain_malloc(p, 64, 100 * MIB, 1);
    return plain_write(p, "small.pickle", 2);
}

static sw_status plan_again(void *path)
{
    return plan_file(path);
}

SW_TEST("memory may be refused anywhere")
{
    char *path = sw_textf("%s", small_file());
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, plan_again, path) > 20);
    CU_ASSERT(sw_sweep(SW_FAULT_FILE, SW_IO, plan_again, path) > 2);
}

/* Cut at any byte, and any byte another: refused with a message or planned, and nothing stays.
 */
SW_TEST("damaged files do no harm")
{
    const char *path = small_file();
    const size_t step = sw_tests_full() ? 1 : 61;
    const uint64_t blocks = sw_heap_blocks();
    sw_damage d = {path, .cuts = step, .bytes = step};
    while (sw_damage_next(&d)) {
        const sw_status status = plan_file(path);
        SW_CHECK((status == SW_FORMAT ||
                  (!d.is_cut && (status == SW_OK || status == SW_UNSUPPORTED))) &&
                     sw_heap_blocks() == blocks,
                 "%s: %s", d.what, sw_status_name(status));
    }
}

/* Compressed it is the same; cut or with a byte that is another one it is refused, or still a
 * snapshot; memory and files may fail. */
SW_TEST("compressed files are read as they are")
{
    const char *path = small_file();
    char *packed = sw_textf("%s.gz", path);
    CU_ASSERT_EQUAL_FATAL(sw_shell("gzip -9 -c '%s' > '%s'", path, packed), 0);
#if SW_HAVE_ZLIB
    const replan *plain = planned(path);
    const replan *r = planned(packed);
    const char *a = planned_text(plain), *b = planned_text(r);
    CU_ASSERT_STRING_EQUAL(a, b);
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, plan_again, packed) > 20);
    CU_ASSERT(sw_sweep(SW_FAULT_FILE, SW_IO, plan_again, packed) > 4);
    const size_t step = sw_tests_full() ? 1 : 37;
    const uint64_t blocks = sw_heap_blocks();
    sw_damage d = {packed, .from = 3, .cuts = step, .bytes = step};
    while (sw_damage_next(&d)) {
        const sw_status status = plan_file(packed);
        SW_CHECK((status == SW_FORMAT || (!d.is_cut && status == SW_OK)) &&
                     sw_heap_blocks() == blocks,
                 "%s: %s", d.what, sw_status_name(status));
    }
    CU_ASSERT(replan_command("'%s'", packed) == 0 && replan_said("by role"));
#else
    CU_ASSERT_EQUAL(plan_file(packed), SW_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "zlib is off"));
#endif
}

/* ---- the command ------------------------------------------------------------------------- */

SW_TEST("the command says it")
{
    const char *file = small_file();
    const char *page = sw_temp_path("page.html");
    const char *plan = sw_temp_path("plan.json");
    CU_ASSERT_EQUAL(replan_command("'%s' --replan --html '%s' --out '%s'", file, page, plan),
                    0);
    CU_ASSERT(replan_said("Out of memory") && replan_said("Reserved by PyTorch") &&
              replan_said("a steady step"));
    CU_ASSERT_EQUAL(sw_shell("test $(grep -c '<svg' '%s') = 2", page), 0);
    CU_ASSERT_EQUAL(sw_shell("grep -q step_offset '%s'", plan), 0);
    CU_ASSERT(replan_command("'%s' --replan --json --device 0", file) == 0 &&
              replan_said("^{.*\"oom\":{.*}$"));
    CU_ASSERT(replan_command("'%s' --replan --max-peak 1MiB", file) == 1 &&
              replan_said("is above --max-peak 1,048,576"));
    const plain_training t = {3, 4, 2, 4 * MIB, MIB, 0};
    plain_allocator *p = plain_new(7);
    plain_train(p, &t);
    const char *more = plain_write(p, "more.pickle", 0);
    CU_ASSERT(replan_command("'%s' --replan --diff '%s' --fail-on-increase 5%%", more, file) ==
                  1 &&
              replan_said("more than --fail-on-increase"));
    CU_ASSERT_EQUAL(
        replan_command("'%s' --replan --diff '%s' --fail-on-increase 0%%", file, file), 0);
}

/* Several files are one table, the largest first; a file that is not a snapshot is named. */
SW_TEST("several files are one table")
{
    const plain_training t = {3, 4, 2, 3 * MIB, MIB, 0}, u = {3, 4, 2, 9 * MIB, MIB, 0};
    plain_allocator *p = plain_new(7);
    plain_train(p, &t);
    const char *less = plain_write(p, "less.pickle", 0);
    p = plain_new(7);
    plain_train(p, &u);
    const char *more = plain_write(p, "more.pickle", 0);
    CU_ASSERT(replan_command("'%s' '%s' --json", less, more) == 0 &&
              replan_said("^{.*more.pickle.*less.pickle.*}$") &&
              replan_said("\"reserved_bytes\":[1-9]") && replan_said("\"role\":\"activation"));
    CU_ASSERT(replan_command("'%s' '%s'", less, more) == 0 &&
              replan_said("reserved .* file, device"));
    CU_ASSERT_EQUAL(sw_shell("sed -n 2p '%s' | grep -q more.pickle", sw_temp_path("said.txt")),
                    0);
    CU_ASSERT(replan_command("'%s' '%s' --by layer", less, more) == 2 &&
              replan_said("several files are one table"));
    CU_ASSERT(replan_command("'%s' '%s' --replan", less, more) == 2 &&
              replan_said("got --replan, which takes one file"));
    CU_ASSERT(replan_command("'%s' /nowhere/x.pickle", less) != 0 &&
              replan_said("/nowhere/x.pickle"));
    CU_ASSERT(replan_command(" ") == 2 && replan_said("_record_memory_history()") &&
              replan_said("_dump_snapshot"));
}

SW_TEST("what means nothing is refused")
{
    static const struct {
        const char *words;
        int status;
        const char *says;
    } refused[] = {
        {"--replan --by layer", 2, "--replan does not go with"},
        {"--replan --format perfetto", 2, "text or json"},
        {"--replan --diff base.pickle", 2, "--fail-on-increase"},
        {"--replan --device 7", 1, "there is no device 7"},
        {"--replan --out /nowhere/plan.json", 1, "/nowhere/plan.json"},
        {"--replan --html /nowhere/page.html", 1, "/nowhere/page.html"},
        {"--device 0", 2, "--device is for --replan"},
    };
    const char *file = small_file();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const int status = replan_command("'%s' %s", file, refused[i].words);
        SW_CHECK(status == refused[i].status && replan_said(refused[i].says), "%s: %d",
                 refused[i].words, status);
    }
    CU_ASSERT(replan_command("'%s' --replan --out '%s'", file, file) == 2 &&
              replan_said("a file that is read"));
    CU_ASSERT_EQUAL(replan_command("'%s' --replan",
                                   put_file("profile.jsonl", "{\"type\":\"header\"}\n", 18)),
                    3);
}

/* ---- long traces ------------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

SW_TEST("long traces are planned")
{
    static const struct {
        plain_training t;
        const char *what;
    } of[] = {{{40, 250, 9, 4 * MIB, 3 * MIB, 0}, "40 layers"},
              {{2000, 14, 50, 5000, 70000, 0}, "2,000 layers"},
              {{40, 2600, 9, 4 * MIB, 3 * MIB, 0}, "40 layers, long"}};
    for (int i = 0; i < (sw_tests_full() ? 3 : 1); i++) {
        plain_allocator *p = plain_new(1);
        plain_train(p, &of[i].t);
        const char *path = plain_write(p, "long.pickle", 0);
        const double start = seconds();
        const replan *r = planned(path);
        sw_note("%s, %u events: %.2f s; a step of %u requests %.3f %% above its bound, the "
                "whole trace %.3f %%",
                of[i].what, r->trace.n_events, seconds() - start, r->period.requests,
                100.0 * (double)(r->step.height - r->step.bound) / (double)r->step.bound,
                100.0 * (double)(r->whole.height - r->whole.bound) / (double)r->whole.bound);
        CU_ASSERT(r->proof.from == TRACE_NONE);
        CU_ASSERT(r->period.steps >= (uint32_t)of[i].t.steps - 1);
        CU_ASSERT(r->step.height - r->step.bound <= r->step.bound / 100);
    }
}
