/* The loader: what it delivers, in which order, from how many bytes, and that it can be stopped
 * and refused anywhere. Every promise about batches is checked with the thread and without. */
#include "alloc/arena/arena.h"
#include "alloc/base/mem.h"
#include "kernels/rng.h"
#include "tests/data/data_files.h"
#include "tests/support/heap_sweep.h"
#include <time.h>

SW_TESTS("loader")

static int next(sw_loader *l, const sw_array **inputs)
{
    int n = -1;
    OK(sw_loader_next(l, inputs, &n));
    return n;
}

static void begin(sw_loader *l, uint64_t epoch)
{
    OK(sw_loader_epoch(l, epoch));
}

/* The batch is samples order[first], ... of the data set (order NULL: as they stand). */
static void check_batch(const sw_dataset *dataset, const sw_array *inputs,
                        const uint32_t *order, int64_t first, int64_t rows)
{
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
    sw_dataset_describe(dataset, &info);
    CU_ASSERT(inputs[0].shape.rank == 4 && inputs[1].shape.rank == 1);
    CU_ASSERT(inputs[0].shape.dim[0] == rows && inputs[1].shape.dim[0] == rows);
    CU_ASSERT(inputs[0].shape.dim[1] == 1 && inputs[0].shape.dim[2] == 28 &&
              inputs[0].shape.dim[3] == 28);
    if (order != NULL) {
        CU_ASSERT((uintptr_t)inputs[0].data % 64 == 0 && (uintptr_t)inputs[1].data % 64 == 0);
    } else { /* where the data set has it */
        CU_ASSERT(inputs[0].data == (const char *)info.field[0].data + first * 784 &&
                  inputs[1].data == (const char *)info.field[1].data + first);
    }
    int wrong = 0;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t sample = order != NULL ? order[first + i] : first + i;
        wrong += memcmp((const char *)inputs[0].data + i * 784,
                        (const char *)info.field[0].data + sample * 784, 784) != 0;
        wrong +=
            ((const char *)inputs[1].data)[i] != ((const char *)info.field[1].data)[sample];
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

/* A whole epoch of 103 samples in batches of 10. */
static void check_epoch(sw_loader *l, const sw_dataset *dataset, const uint32_t *order,
                        bool drop_last)
{
    const sw_array *inputs;
    CU_ASSERT_EQUAL(sw_loader_batches(l), drop_last ? 10 : 11);
    for (int64_t b = 0; b < (drop_last ? 10 : 11); b++) {
        CU_ASSERT_EQUAL_FATAL(next(l, &inputs), 2);
        check_batch(dataset, inputs, order, b * 10, b < 10 ? 10 : 3);
    }
    CU_ASSERT_EQUAL(next(l, &inputs), 0);
    CU_ASSERT_EQUAL(next(l, &inputs), 0);
}

SW_TEST("batches come in order")
{
    const sw_dataset *dataset = data_digits(103, 1);
    for (int i = 0; i < 16; i++) {
        const sw_loader_opts opts = {.batch = 10,
                                     .slots = i / 4,
                                     .inline_fill = i & 1 ? 1 : -1,
                                     .drop_last = i >> 1 & 1};
        sw_loader *l = data_loader(dataset, opts);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            begin(l, epoch);
            check_epoch(l, dataset, NULL, opts.drop_last != 0);
        }
    }
}

SW_TEST("shuffling depends on seed and epoch alone")
{
    const sw_dataset *dataset = data_digits(103, 1);
    uint32_t order[103], other[103];
    sw_rng_shuffle(order, 103, 9, 0);
    sw_rng_shuffle(other, 103, 9, 1);
    CU_ASSERT_NOT_EQUAL(memcmp(order, other, sizeof order), 0);
    for (int i = 0; i < 16; i++) {
        const sw_loader_opts opts =
            SW_INIT(.batch = 10, .slots = i / 4, .seed = 9, .shuffle = 1,
                    .inline_fill = i & 1 ? 1 : -1, .drop_last = i >> 1 & 1);
        sw_loader *l = data_loader(dataset, opts);
        for (uint64_t epoch = 5; epoch-- > 0;) {
            sw_rng_shuffle(order, 103, 9, epoch);
            begin(l, epoch);
            check_epoch(l, dataset, order, opts.drop_last != 0);
        }
    }
}

SW_TEST("a batch larger than the data is one batch")
{
    const sw_dataset *dataset = data_digits(7, 1);
    for (int i = 0; i < 4; i++) {
        const sw_array *inputs;
        sw_loader *l = data_loader(
            dataset,
            (sw_loader_opts){.batch = 64, .inline_fill = i & 1 ? 1 : -1, .drop_last = i >> 1});
        CU_ASSERT_EQUAL(sw_loader_batches(l), i >> 1 ? 0 : 1);
        begin(l, 0);
        if (i >> 1 == 0) {
            CU_ASSERT_EQUAL_FATAL(next(l, &inputs), 2);
            check_batch(dataset, inputs, NULL, 0, 7);
        }
        CU_ASSERT_EQUAL(next(l, &inputs), 0);
    }
}

static void wait_a_little(void)
{
    const struct timespec two_ms = {0, 2000000};
    nanosleep(&two_ms, NULL);
}

/* While the caller holds a batch the filler may run ahead, and a new epoch may begin. */
SW_TEST("a batch stays until the next call")
{
    const sw_dataset *dataset = data_digits(40, 1);
    uint32_t order[2][40];
    for (uint64_t epoch = 0; epoch < 2; epoch++)
        sw_rng_shuffle(order[epoch], 40, 0, epoch);
    for (int slots = 0; slots <= 4; slots++) /* 0: batches in order */
        for (int i = 0; i < 4; i++) {
            const sw_array *inputs;
            const int restart = i & 1, in_line = i >> 1 != 0 ? -1 : 0;
            const uint32_t *now = slots > 0 ? order[0] : NULL,
                           *then = slots > 0 ? order[1] : NULL;
            sw_loader *l = data_loader(dataset, (sw_loader_opts){.batch = 4,
                                                                 .slots = slots,
                                                                 .shuffle = slots > 0,
                                                                 .inline_fill = in_line});
            begin(l, 0);
            for (int64_t b = 0; b < 5; b++) {
                CU_ASSERT_EQUAL_FATAL(next(l, &inputs), 2);
                wait_a_little();
                check_batch(dataset, inputs, now, b * 4, 4);
            }
            if (restart) {
                begin(l, 1);
                wait_a_little();
                check_batch(dataset, inputs, now, 16, 4);
                CU_ASSERT_EQUAL_FATAL(next(l, &inputs), 2);
                check_batch(dataset, inputs, then, 0, 4);
            }
        }
}

SW_TEST("an epoch can begin and end anywhere")
{
    const sw_dataset *dataset = data_digits(103, 1);
    uint32_t order[103];
    for (int i = 0; i < 2; i++) {
        sw_loader *l = data_loader(
            dataset, (sw_loader_opts){
                         .batch = 10, .shuffle = 1, .seed = 4, .inline_fill = i == 1 ? 1 : -1});
        for (uint64_t epoch = 0; epoch < 40; epoch++) {
            const sw_array *inputs;
            sw_rng_shuffle(order, 103, 4, epoch);
            begin(l, epoch);
            for (int64_t b = 0; b < (int64_t)(epoch % 12); b++) {
                CU_ASSERT_EQUAL(next(l, &inputs), b < 11 ? 2 : 0);
                if (b < 11)
                    check_batch(dataset, inputs, order, b * 10, b < 10 ? 10 : 3);
            }
        }
    }
}

static void check_position(const sw_loader *l, uint64_t epoch, int64_t batch)
{
    uint64_t e = epoch + 1;
    int64_t b = -1;
    CU_ASSERT_EQUAL(sw_loader_position(l, &e, &b), SW_OK);
    SW_CHECK(e == epoch && b == batch, "epoch %llu, batch %lld and not %llu, %lld",
             (unsigned long long)e, (long long)b, (unsigned long long)epoch, (long long)batch);
}

/* From batch `from` of the epoch, `n` batches or all that are left; 103 samples by 10. */
static void check_from(sw_loader *l, const sw_dataset *dataset, const sw_loader_opts *opts,
                       uint64_t epoch, int64_t from, int64_t n)
{
    const sw_array *inputs;
    uint32_t order[103];
    const int64_t batches = sw_loader_batches(l);
    sw_rng_shuffle(order, 103, opts->seed, epoch);
    check_position(l, epoch, from);
    for (int64_t b = from; b < from + n; b++) {
        const bool there = b < batches;
        CU_ASSERT_EQUAL_FATAL(next(l, &inputs), there ? 2 : 0);
        if (there)
            check_batch(dataset, inputs, opts->shuffle ? order : NULL, b * 10, b < 10 ? 10 : 3);
        check_position(l, epoch, there ? b + 1 : batches);
    }
}

static sw_loader_opts kind_of_loader(int i)
{
    return (sw_loader_opts)SW_INIT(.batch = 10, .slots = i >> 3, .seed = 6,
                                   .inline_fill = i & 1 ? 1 : -1, .shuffle = i >> 1 & 1,
                                   .drop_last = i >> 2 & 1);
}

SW_TEST("a seek goes on at any batch")
{
    const sw_dataset *dataset = data_digits(103, 1);
    for (int i = 0; i < 32; i++) {
        const sw_loader_opts opts = kind_of_loader(i);
        sw_loader *l = data_loader(dataset, opts);
        for (uint64_t epoch = 0; epoch < 2; epoch++)
            for (int64_t b = 0; b <= sw_loader_batches(l); b++) {
                CU_ASSERT_EQUAL_FATAL(sw_loader_seek(l, epoch, b), SW_OK);
                check_from(l, dataset, &opts, epoch, b, 12 - b);
            }
    }
}

/* A batch that the caller holds, and what was filled ahead of it, do not matter. */
SW_TEST("seeks follow each other in any order")
{
    const sw_dataset *dataset = data_digits(103, 1);
    for (int i = 0; i < 32; i++) {
        const sw_loader_opts opts = kind_of_loader(i);
        sw_loader *l = data_loader(dataset, opts);
        for (uint32_t k = 0; k < 60; k++) {
            uint32_t words[4];
            sw_rng_words(words, 11, (uint32_t)i, sw_rng_stream("seek"), k, 0);
            const uint64_t epoch = words[0] % 5;
            const int64_t b = words[1] % (uint32_t)(sw_loader_batches(l) + 1);
            if (words[3] % 4 == 0) {
                begin(l, epoch);
                check_from(l, dataset, &opts, epoch, 0, words[2] % 14);
            } else {
                CU_ASSERT_EQUAL_FATAL(sw_loader_seek(l, epoch, b), SW_OK);
                check_from(l, dataset, &opts, epoch, b, words[2] % 6);
            }
        }
    }
}

/* Batches that the thread has filled ahead were not given to the caller. */
SW_TEST("a position is what the caller has had")
{
    const sw_dataset *dataset = data_digits(103, 1);
    const sw_loader_opts opts = {.batch = 10, .slots = 8, .shuffle = 1, .inline_fill = -1};
    sw_loader *l = data_loader(dataset, opts);
    uint64_t epoch = 7;
    int64_t batch = 7;
    failed_as(sw_loader_position(l, &epoch, &batch), SW_INVALID, "call sw_loader_epoch");
    CU_ASSERT(epoch == 7 && batch == 7);
    begin(l, 3);
    for (int64_t b = 0; b < 5; b++) {
        wait_a_little();
        check_from(l, dataset, &opts, 3, b, 1);
    }
    wait_a_little();
    CU_ASSERT_EQUAL(sw_loader_position(l, &epoch, NULL), SW_OK);
    CU_ASSERT_EQUAL(sw_loader_position(l, NULL, &batch), SW_OK);
    CU_ASSERT(epoch == 3 && batch == 5);
}

SW_TEST("the batches of an epoch are shared out, each to one rank")
{
    static const struct {
        uint32_t of, share;
    } ways[] = {{1, 1}, {2, 1}, {3, 1}, {4, 2}, {5, 1}, {6, 3}, {16, 4}};
    const sw_dataset *dataset = data_digits(103, 5);
    uint32_t order[103];
    sw_rng_shuffle(order, 103, 0, 0);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (int way = 0; way < 4; way++) {
            int seen[11] = {0};
            const bool drop = way % 2 != 0;
            const int64_t all = drop ? 10 / ways[w].of * ways[w].of : 11;
            for (uint32_t first = 0; first < ways[w].of; first += ways[w].share) {
                sw_loader *l;
                const sw_array *inputs;
                const sw_loader_opts opts =
                    SW_OPTS(sw_loader_opts, .batch = 10, .drop_last = drop,
                            .shuffle = first % 2 == 0, .inline_fill = way < 2 ? 1 : -1,
                            .of = ways[w].of, .first = first, .share = ways[w].share);
                OK(sw_loader_create(&l, dataset, &opts));
                CU_ASSERT_EQUAL(sw_loader_batches(l), all);
                /* From the start, and from each multiple of `of` on. */
                for (int64_t from = 0; from <= all; from += ways[w].of) {
                    int64_t at = -1;
                    OK(sw_loader_seek(l, 0, from));
                    for (int64_t b = from; b < all; b++) {
                        const uint32_t place = (uint32_t)(b % ways[w].of);
                        if (place < first || place >= first + ways[w].share)
                            continue;
                        CU_ASSERT_EQUAL_FATAL(next(l, &inputs), 2);
                        check_batch(dataset, inputs, first % 2 == 0 ? order : NULL, b * 10,
                                    b < 10 ? 10 : 3);
                        seen[b] += from == 0;
                    }
                    CU_ASSERT_EQUAL(next(l, &inputs), 0);
                    OK(sw_loader_position(l, NULL, &at));
                    CU_ASSERT_EQUAL(at, all);
                }
                sw_loader_destroy(l);
            }
            for (int64_t b = 0; b < 11; b++)
                CU_ASSERT_EQUAL(seen[b], b < all);
        }
    sw_loader *l;
    const sw_loader_opts past =
        SW_OPTS(sw_loader_opts, .batch = 10, .of = 4, .first = 3, .share = 2);
    REFUSED(sw_loader_create(&l, dataset, &past), SW_INVALID, "(got first 3, share 2, of 4)");
    const sw_loader_opts none = SW_OPTS(sw_loader_opts, .batch = 10, .share = 1);
    REFUSED(sw_loader_create(&l, dataset, &none), SW_INVALID, "(got first 0, share 1, of 0)");
}

SW_TEST("a seek past the epoch changes nothing")
{
    const sw_dataset *dataset = data_digits(103, 1);
    for (int i = 0; i < 8; i++) {
        const sw_loader_opts opts = kind_of_loader(i);
        sw_loader *l = data_loader(dataset, opts);
        const char *says =
            opts.drop_last ? "batch must be 0 to 10, " : "batch must be 0 to 11,";
        begin(l, 2);
        check_from(l, dataset, &opts, 2, 0, 4);
        failed_as(sw_loader_seek(l, 5, sw_loader_batches(l) + 1), SW_INVALID, says);
        failed_as(sw_loader_seek(l, 5, -1), SW_INVALID, "(got -1)");
        check_from(l, dataset, &opts, 2, 4, 8);
    }
}

/* A seek to the end of a long epoch fills what comes after it and nothing before it:
 * memory that no batch was copied to is still zero. */
SW_TEST("a seek replays nothing")
{
    const sw_dataset *dataset = data_digits(1000, 1);
    const sw_array *inputs;
    uint32_t order[1000];
    sw_loader *l = data_loader(
        dataset, (sw_loader_opts){.batch = 10, .slots = 3, .shuffle = 1, .inline_fill = -1});
    sw_rng_shuffle(order, 1000, 0, 1);
    CU_ASSERT_EQUAL_FATAL(sw_loader_seek(l, 0, 99), SW_OK);
    CU_ASSERT_EQUAL_FATAL(next(l, &inputs), 2);
    const char *first = inputs[0].data; /* slots stand one after the other */
    CU_ASSERT_EQUAL_FATAL(sw_loader_seek(l, 1, 99), SW_OK);
    CU_ASSERT_EQUAL_FATAL(next(l, &inputs), 2);
    check_batch(dataset, inputs, order, 990, 10);
    const char *second = inputs[0].data;
    CU_ASSERT_FATAL(second > first);
    const char *third = second + (second - first);
    int other = 0;
    for (int i = 0; i < 7840; i++)
        other += third[i] != 0;
    CU_ASSERT_EQUAL(other, 0);
    CU_ASSERT_EQUAL(next(l, &inputs), 0);
}

SW_TEST("destroying at any moment is fine")
{
    const sw_dataset *dataset = data_digits(64, 1);
    const heap_watch before = heap_now();
    for (int taken = -2; taken < 20; taken++) {
        const sw_array *inputs;
        sw_loader *l = data_loader(dataset, (sw_loader_opts){.batch = 4, .shuffle = taken & 1});
        if (taken >= -1)
            begin(l, 0);
        for (int i = 0; i < taken; i++)
            next(l, &inputs);
        sw_now(l);
    }
    sw_loader_destroy(NULL);
    CHECK_NO_LEAK(before);
}

SW_TEST("bytes are those of all slots")
{
    const sw_dataset *dataset = data_digits(10, 1);
    for (int64_t batch = 1; batch < 200; batch += 33) {
        sw_budget *budget = NULL;
        CU_ASSERT_EQUAL_FATAL(sw_budget_new(&budget, (size_t)1 << 30), SW_OK);
        const size_t image = ((size_t)batch * 784 + 63) / 64 * 64,
                     label = ((size_t)batch + 63) / 64 * 64;
        sw_loader_opts opts = {.batch = batch, .budget = budget, .inline_fill = -1};
        sw_loader *none = data_loader(dataset, opts);
        CU_ASSERT(sw_loader_bytes(none) == 0 && sw_budget_used(budget) == 0);
        opts.shuffle = 1;
        sw_loader *two = data_loader(dataset, opts);
        CU_ASSERT_EQUAL(sw_loader_bytes(two), 2 * (image + label));
        CU_ASSERT_EQUAL(sw_budget_used(budget), 2 * (image + label));
        opts.slots = 5;
        sw_loader *five = data_loader(dataset, opts);
        CU_ASSERT_EQUAL(sw_loader_bytes(five), 5 * (image + label));
        CU_ASSERT_EQUAL(sw_budget_used(budget), 7 * (image + label));
        sw_now(none);
        sw_now(two);
        sw_now(five);
        CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
        sw_budget_free(budget);
    }
}

SW_TEST("a budget one byte short refuses")
{
    const sw_dataset *dataset = data_digits(10, 1);
    const heap_watch before = heap_now();
    const size_t slot = 8 * 784 + 64;
    for (int i = 0; i < 4; i++) {
        sw_budget *budget = NULL;
        sw_loader *l = NULL;
        const int more = i & 1, slots = i < 2 ? 2 : 1;
        const size_t least = (size_t)slots * slot;
        CU_ASSERT_EQUAL_FATAL(sw_budget_new(&budget, least - 1 + (size_t)more), SW_OK);
        const sw_loader_opts opts = SW_OPTS(sw_loader_opts, .batch = 8, .budget = budget,
                                            .shuffle = 1, .inline_fill = slots == 2 ? -1 : 0);
        const sw_status status = sw_loader_create(&l, dataset, &opts);
        if (more) {
            CU_ASSERT_EQUAL(status, SW_OK);
        } else {
            failed_as(status, SW_NOMEM,
                      slots == 2 ? "needs 12,672 bytes" : "needs 6,336 bytes");
            CU_ASSERT_PTR_NULL(l);
            CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
        }
        sw_loader_destroy(l);
        sw_budget_free(budget);
    }
    CHECK_NO_LEAK(before);
}

/* Neither the heap nor the system is asked for anything once the loader is made. */
SW_TEST("epochs allocate nothing")
{
    const sw_dataset *dataset = data_digits(103, 1);
    for (int i = 0; i < 2; i++) {
        sw_loader *l = data_loader(
            dataset,
            (sw_loader_opts){.batch = 10, .shuffle = 1, .inline_fill = i == 1 ? 1 : -1});
        const uint64_t before = sw_mem_calls();
        for (uint64_t epoch = 0; epoch < 5; epoch++) {
            const sw_array *inputs;
            begin(l, epoch);
            while (next(l, &inputs) != 0)
                ;
            CU_ASSERT_EQUAL(sw_loader_seek(l, epoch, 5), SW_OK);
        }
        CU_ASSERT_EQUAL(sw_mem_calls(), before);
        sw_now(l);
    }
}

SW_TEST("loaders share a data set")
{
    const sw_dataset *dataset = data_digits(103, 1);
    sw_loader *a = data_loader(dataset, (sw_loader_opts){.batch = 10, .shuffle = 1, .seed = 1});
    sw_loader *b = data_loader(dataset, (sw_loader_opts){.batch = 20, .shuffle = 1, .seed = 2});
    uint32_t of_a[103], of_b[103];
    sw_rng_shuffle(of_a, 103, 1, 3);
    sw_rng_shuffle(of_b, 103, 2, 4);
    begin(a, 3);
    begin(b, 4);
    for (int64_t i = 0; i < 5; i++) {
        const sw_array *inputs;
        CU_ASSERT_EQUAL_FATAL(next(a, &inputs), 2);
        check_batch(dataset, inputs, of_a, i * 10, 10);
        CU_ASSERT_EQUAL_FATAL(next(b, &inputs), 2);
        check_batch(dataset, inputs, of_b, i * 20, 20);
    }
}

SW_TEST("misuse is refused")
{
    const sw_dataset *dataset = data_digits(10, 1);
    const heap_watch before = heap_now();
    const sw_array *inputs = NULL;
    int n = 77;
    sw_loader *l = NULL;
    sw_loader_opts opts = SW_OPTS(sw_loader_opts, .batch = 0);
    failed_as(sw_loader_create(&l, dataset, &opts), SW_INVALID,
              "batch must be at least 1 (got 0)");
    opts.batch = -4;
    failed_as(sw_loader_create(&l, dataset, &opts), SW_INVALID, "(got -4)");
    opts.batch = 2;
    opts.slots = -1;
    failed_as(sw_loader_create(&l, dataset, &opts), SW_INVALID,
              "slots must be 1 to 1024 (got -1)");
    opts.slots = 0;
    opts.batch = INT64_MAX;
    failed_as(sw_loader_create(&l, dataset, &opts), SW_NOMEM, "overflow");
    CU_ASSERT_PTR_NULL(l);
    opts.batch = 2;
    CU_ASSERT_EQUAL_FATAL(sw_loader_create(&l, dataset, &opts), SW_OK);
    failed_as(sw_loader_next(l, &inputs, &n), SW_INVALID, "call sw_loader_epoch first");
    CU_ASSERT(inputs == NULL && n == 77);
    sw_loader_destroy(l);
    CHECK_NO_LEAK(before);
}

/* No header had so few options: none is dropped silently. */
SW_TEST("short options are refused")
{
    const sw_dataset *dataset = data_digits(10, 1);
    sw_loader *l = NULL;
    sw_loader_opts opts = {.size = offsetof(sw_loader_opts, slots), .batch = 2, .slots = -5};
    CU_ASSERT_EQUAL(sw_loader_create(&l, dataset, &opts), SW_INVALID);
    CU_ASSERT_PTR_NULL(l);
}

static uint64_t sweep(const sw_dataset *dataset, sw_fault_kind kind, sw_budget *budget,
                      sw_loader_opts opts)
{
    sw_sites sites = {kind, .exact = true};
    opts.size = sizeof opts;
    opts.budget = budget;
    while (sw_sites_next(&sites)) {
        sw_loader *l = NULL;
        const sw_status status = SW_AT_SITE(&sites, sw_loader_create(&l, dataset, &opts));
        CU_ASSERT_EQUAL(l == NULL, status != SW_OK);
        sw_loader_destroy(l);
        CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
    }
    return sites.failed;
}

SW_TEST("every call can fail")
{
    const sw_dataset *dataset = data_digits(10, 1);
    sw_budget *budget = NULL;
    const sw_loader_opts opts = {.batch = 4, .shuffle = 1, .inline_fill = -1};
    CU_ASSERT_EQUAL_FATAL(sw_budget_new(&budget, 1 << 20), SW_OK);
    const uint64_t memory = sweep(dataset, SW_FAULT_MEMORY, budget, opts);
    const uint64_t threads = sweep(dataset, SW_FAULT_THREAD, budget, opts);
    CU_ASSERT(memory >= 7 && threads == 1);
    sw_budget_free(budget);
}

/* Where the caller fills, one slot is there, taken and counted, whatever `slots` says; where a
 * thread fills, all of them. 4,096 samples of 64 bytes are 256 KiB. */
SW_TEST("without a thread there is one slot")
{
    static const struct {
        int64_t batch;
        int slots, inline_fill;
        size_t taken;
    } cases[] = {{4096, 0, 0, 1}, {4097, 0, 0, 2}, {4096, 7, 0, 1},    {4097, 7, 0, 7},
                 {4097, 1, 0, 1}, {4097, 7, 1, 1}, {4096, 0, -1, 2},   {4096, 7, -1, 7},
                 {1, 0, 0, 1},    {1, 1024, 0, 1}, {1, 1024, -1, 1024}};
    static unsigned char numbers[4097 * 64];
    const sw_samples samples = {.data = numbers, .type = SW_NUMBER_U8, .shape = SW_SHAPE(64)};
    sw_dataset *dataset = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_dataset_arrays(&dataset, 4097, &samples, 1, NULL), SW_OK);
    AFTER(sw_dataset_destroy, dataset);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_budget *budget = NULL;
        const sw_array *inputs;
        const size_t bytes_of_all = cases[i].taken * (size_t)cases[i].batch * 64;
        CU_ASSERT_EQUAL_FATAL(sw_budget_new(&budget, bytes_of_all), SW_OK);
        sw_loader *l =
            data_loader(dataset, (sw_loader_opts){.batch = cases[i].batch,
                                                  .slots = cases[i].slots,
                                                  .shuffle = 1,
                                                  .inline_fill = cases[i].inline_fill,
                                                  .budget = budget});
        SW_CHECK(sw_loader_bytes(l) == bytes_of_all && sw_budget_used(budget) == bytes_of_all,
                 "case %zu: %zu bytes, %zu taken of %zu", i, sw_loader_bytes(l),
                 sw_budget_used(budget), bytes_of_all);
        begin(l, 0);
        CU_ASSERT_EQUAL(next(l, &inputs), 1);
        CU_ASSERT_EQUAL(inputs[0].shape.dim[0], cases[i].batch);
        sw_now(l);
        sw_budget_free(budget);
    }
}

/* An image has 784 bytes and its label 1, each field rounded to 64: 333 are the most. */
SW_TEST("small batches need no thread")
{
    static const struct {
        int64_t batch;
        int inline_fill;
        uint64_t threads;
    } cases[] = {{333, 0, 0}, {334, 0, 1}, {1, 0, 0}, {334, 1, 0}, {1, -1, 1}};
    const sw_dataset *dataset = data_digits(400, 1);
    sw_budget *budget = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_budget_new(&budget, 1 << 20), SW_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_loader_opts opts = {.batch = cases[i].batch, .inline_fill = cases[i].inline_fill};
        CU_ASSERT_EQUAL(sweep(dataset, SW_FAULT_THREAD, budget, opts), 0); /* in order */
        opts.shuffle = 1;
        const uint64_t threads = sweep(dataset, SW_FAULT_THREAD, budget, opts);
        SW_CHECK(threads == cases[i].threads, "%lld, %d: %llu threads",
                 (long long)cases[i].batch, cases[i].inline_fill, (unsigned long long)threads);
    }
    sw_budget_free(budget);
}
