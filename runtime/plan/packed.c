/* A trace as its differences from another one: passes leave most of a trace as it was, so that
 * what was traced takes little beside what runs.
 *
 * All arrays stand one after the other as words of four bytes, as runs: a word that says how
 * many words are those of the other trace (high half) and how many follow here (low half). */
#include "runtime/plan/packed.h"
#include "alloc/base/mem.h"
#include "runtime/plan/program_internal.h"
#include <string.h>

#define MOST 0xffffu

/* One array of a trace. */
typedef struct {
    void **at;
    uint32_t *n, *cap;
    size_t element;
} column;
#define COLUMNS 9

static void columns_of(swi_trace *t, column *to)
{
#define COLUMN(field)                                                                          \
    (column)                                                                                   \
    {                                                                                          \
        (void **)(void *)&t->field, &t->n_##field, &t->cap_##field, sizeof *t->field           \
    }
    const column all[COLUMNS] = {COLUMN(nodes),    COLUMN(operands), COLUMN(values),
                                 COLUMN(storages), COLUMN(strides),  COLUMN(attrs),
                                 COLUMN(strings),  COLUMN(metrics),  COLUMN(outputs)};
#undef COLUMN
    memcpy(to, all, sizeof all);
}

static size_t words_of(size_t bytes)
{
    return (bytes + 3) / 4;
}

/* Word i of so many bytes; 0 past their end. */
static uint32_t word_at(const unsigned char *bytes, size_t n, size_t i)
{
    uint32_t word = 0;
    if (4 * i < n)
        memcpy(&word, bytes + 4 * i, n - 4 * i < 4 ? n - 4 * i : 4);
    return word;
}

/* Where the first word from i on is, up to `end`, of which both have all bytes, that is not
 * equal (or equal, for `other`); most words of most traces are equal. */
static size_t end_of_equal(const unsigned char *a, const unsigned char *b, size_t i, size_t end)
{
    enum { STRIDE = 16 };
    while (i + STRIDE <= end && memcmp(a + 4 * i, b + 4 * i, (size_t)4 * STRIDE) == 0)
        i += STRIDE;
    while (i < end && memcmp(a + 4 * i, b + 4 * i, 4) == 0)
        i++;
    return i;
}

static size_t end_of_other(const unsigned char *a, const unsigned char *b, size_t i, size_t end)
{
    while (i < end && memcmp(a + 4 * i, b + 4 * i, 4) != 0)
        i++;
    return i;
}

/* Write the runs of one array, or count their words where `to` is NULL. */
static size_t pack_array(const column *mine, const column *other, uint32_t *to)
{
    const unsigned char *a = *mine->at, *b = *other->at;
    const size_t bytes = *mine->n * mine->element, known = *other->n * other->element;
    const size_t words = words_of(bytes), both = (bytes < known ? bytes : known) / 4;
    size_t n = 0;
    for (size_t i = 0; i < words;) {
        const size_t begin = i, most = begin + MOST < words ? begin + MOST : words;
        i = end_of_equal(a, b, i, both < most ? both : most);
        while (i >= both && i < most && word_at(a, bytes, i) == word_at(b, known, i))
            i++;
        const size_t from = i, last = from + MOST < words ? from + MOST : words;
        i = end_of_other(a, b, i, both < last ? both : last);
        while (i >= both && i < last && word_at(a, bytes, i) != word_at(b, known, i))
            i++;
        if (to != NULL) {
            to[n] = (uint32_t)((from - begin) << 16 | (i - from));
            for (size_t k = from; k < i; k++)
                to[n + 1 + k - from] = word_at(a, bytes, k);
        }
        n += 1 + i - from;
    }
    return n;
}

sw_status swi_pack(swi_packed *to, const swi_trace *trace, const swi_trace *other)
{
    swi_trace mine = *trace, its = *other; /* handles of the arrays, which are only read */
    column a[COLUMNS], b[COLUMNS];
    columns_of(&mine, a);
    columns_of(&its, b);
    size_t n = 0;
    void *block;
    for (int c = 0; c < COLUMNS; c++)
        n += pack_array(&a[c], &b[c], NULL);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, n * sizeof(uint32_t)));
    *to = (swi_packed){.words = block, .n = n};
    n = 0;
    for (int c = 0; c < COLUMNS; c++) {
        to->count[c] = *a[c].n;
        n += pack_array(&a[c], &b[c], to->words + n);
    }
    return SW_OK;
}

/* `n` bytes at `at` of an array that has `known` of them; zeros after. */
static void copy_known(unsigned char *to, const unsigned char *from, size_t known, size_t at,
                       size_t n)
{
    const size_t there = at >= known ? 0 : known - at < n ? known - at : n;
    if (there > 0)
        memcpy(to + at, from + at, there);
    if (there < n)
        memset(to + at + there, 0, n - there);
}

static const uint32_t *unpack_array(unsigned char *to, size_t bytes, const column *other,
                                    const uint32_t *from)
{
    const unsigned char *b = *other->at;
    const size_t known = *other->n * other->element;
    for (size_t at = 0; at < bytes;) {
        const size_t same = 4 * (size_t)(*from >> 16), others = 4 * (size_t)(*from & MOST);
        from++;
        const size_t n = same < bytes - at ? same : bytes - at;
        copy_known(to, b, known, at, n);
        at += n;
        const size_t more = others < bytes - at ? others : bytes - at;
        if (more > 0)
            memcpy(to + at, from, more);
        at += more;
        from += others / 4;
    }
    return from;
}

sw_status swi_unpack(swi_trace *to, const swi_packed *packed, const swi_trace *other)
{
    swi_trace its = *other;
    column a[COLUMNS], b[COLUMNS];
    const uint32_t *from = packed->words;
    columns_of(to, a);
    columns_of(&its, b);
    for (int c = 0; c < COLUMNS; c++) {
        const size_t bytes = packed->count[c] * a[c].element;
        SW_TRY(sw_heap_alloc(a[c].at, SW_HEAP_PROGRAMS, bytes));
        *a[c].n = *a[c].cap = packed->count[c];
        from = unpack_array(*a[c].at, bytes, &b[c], from);
    }
    return SW_OK;
}

void swi_packed_free(swi_packed *packed)
{
    sw_heap_free(packed->words, SW_HEAP_PROGRAMS, packed->n * sizeof(uint32_t));
    *packed = (swi_packed){0};
}
