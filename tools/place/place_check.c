/* See place_csv.h. The ordered set is a bitmap over the buffers sorted by offset, with a
 * bitmap of its words that are not empty, and so on up to one word: the neighbours of a buffer
 * are found in as many steps as there are levels. */
#include "tools/place/place_csv.h"
#include "alloc/base/mem.h"
#include "alloc/base/order.h"
#include "alloc/base/size.h"

#define LEVELS 6 /* 64^6 is more than 2^32 */
#define NONE UINT32_MAX

typedef struct {
    uint64_t *word[LEVELS];
    int n_levels;
} live_set;

static size_t words_of(size_t n)
{
    return n / 64 + 1;
}

static size_t set_words(size_t n)
{
    size_t sum = 0;
    for (n = words_of(n); n > 1; n = words_of(n))
        sum += n;
    return sum + 1;
}

static void set_init(live_set *set, uint64_t *words, size_t n)
{
    set->n_levels = 0;
    do {
        n = words_of(n);
        set->word[set->n_levels++] = words;
        words += n;
    } while (n > 1);
}

static void set_remove(live_set *set, uint32_t x)
{
    for (int level = 0; level < set->n_levels; level++, x >>= 6) {
        set->word[level][x >> 6] &= ~(UINT64_C(1) << (x & 63));
        if (set->word[level][x >> 6] != 0)
            return;
    }
}

/* The nearest member below x, or above. */
static uint32_t set_near(const live_set *set, uint32_t x, int above)
{
    for (int level = 0; level < set->n_levels; level++, x >>= 6) {
        const uint64_t beside = above ? ~UINT64_C(1) << (x & 63) : ~(~UINT64_C(0) << (x & 63));
        uint64_t found = set->word[level][x >> 6] & beside;
        if (found == 0)
            continue;
        for (x >>= 6;; found = set->word[level][x]) {
            const int bit = above ? __builtin_ctzll(found) : 63 - __builtin_clzll(found);
            x = x << 6 | (uint32_t)bit;
            if (level-- == 0)
                return x;
        }
    }
    return NONE;
}

/* ---- the sweep --------------------------------------------------------------------------- */

typedef struct {
    const place_csv *csv;
    uint64_t *key;
    uint32_t *starts, *ends; /* buffers by the time they start and end */
    uint32_t *by_offset;     /* buffers by offset */
    uint32_t *rank;          /* of each buffer in by_offset; scratch before */
    live_set live;
} sweep;

static void sort_all(sweep *s)
{
    const place_csv *csv = s->csv;
    for (size_t i = 0; i < csv->n; i++)
        s->key[i] = csv->times[2 * i];
    sw_order_numbers(s->starts, csv->n);
    sw_order_by_keys(s->starts, s->rank, s->key, csv->n, NULL, NULL);
    for (size_t i = 0; i < csv->n; i++)
        s->key[i] = csv->times[2 * i + 1];
    sw_order_numbers(s->ends, csv->n);
    sw_order_by_keys(s->ends, s->rank, s->key, csv->n, NULL, NULL);
    for (size_t i = 0; i < csv->n; i++)
        s->key[i] = csv->items[i].offset;
    sw_order_numbers(s->by_offset, csv->n);
    sw_order_by_keys(s->by_offset, s->rank, s->key, csv->n, NULL, NULL);
    for (size_t i = 0; i < csv->n; i++)
        s->rank[s->by_offset[i]] = (uint32_t)i;
}

static sw_status check_apart(const sweep *s, uint32_t lower, uint32_t upper)
{
    const uint32_t a = s->by_offset[lower], b = s->by_offset[upper];
    const sw_placement_item *below = &s->csv->items[a], *above = &s->csv->items[b];
    if (below->offset + below->bytes <= above->offset)
        return SW_OK;
    SW_FAIL(SW_INVALID, "the buffers of lines %zu and %zu live together and overlap at %zu",
            (size_t)a + 2, (size_t)b + 2, above->offset);
}

static sw_status run(sweep *s, place_checked *out)
{
    const place_csv *csv = s->csv;
    uint64_t sum = 0;
    size_t ended = 0;
    for (size_t i = 0; i < csv->n; i++) {
        const uint32_t buffer = s->starts[i];
        const uint64_t now = csv->times[2 * (size_t)buffer];
        for (; csv->times[2 * (size_t)s->ends[ended] + 1] <= now; ended++) {
            set_remove(&s->live, s->rank[s->ends[ended]]);
            sum -= csv->items[s->ends[ended]].bytes;
        }
        const uint32_t rank = s->rank[buffer];
        const uint32_t below = set_near(&s->live, rank, 0), above = set_near(&s->live, rank, 1);
        if (below != NONE)
            SW_TRY(check_apart(s, below, rank));
        if (above != NONE)
            SW_TRY(check_apart(s, rank, above));
        uint32_t x = rank;
        for (int level = 0; level < s->live.n_levels; level++, x >>= 6)
            s->live.word[level][x >> 6] |= UINT64_C(1) << (x & 63);

        sum += csv->items[buffer].bytes;
        out->lower_bound = sum > out->lower_bound ? sum : out->lower_bound;
    }
    return SW_OK;
}

sw_status place_check(const place_csv *csv, place_checked *out)
{
    *out = (place_checked){0, 0};
    if (csv->n == 0)
        return SW_OK;
    for (size_t i = 0; i < csv->n; i++) {
        size_t end;
        if (!sw_size_add(csv->items[i].offset, csv->items[i].bytes, &end))
            SW_FAIL(SW_INVALID, "the buffer of line %llu ends past 64 bits",
                    (unsigned long long)(i + 2));
        const size_t align = csv->items[i].align;
        if (align > 1 && csv->items[i].offset % align != 0)
            SW_FAIL(SW_INVALID,
                    "the buffer of line %llu is at %zu, which is not a multiple of %zu",
                    (unsigned long long)(i + 2), csv->items[i].offset, align);
        out->height = end > out->height ? end : out->height;
    }

    const size_t n = csv->n, words = set_words(n);
    const size_t bytes = (n + words) * sizeof(uint64_t) + 4 * n * sizeof(uint32_t);
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, bytes));
    sweep s = {.csv = csv, .key = block};
    set_init(&s.live, s.key + n, n);
    s.starts = (uint32_t *)(void *)(s.key + n + words);
    s.ends = s.starts + n;
    s.by_offset = s.ends + n;
    s.rank = s.by_offset + n;
    sort_all(&s);
    const sw_status status = run(&s, out);
    sw_heap_free(block, SW_HEAP_FILES, bytes);
    return status;
}
