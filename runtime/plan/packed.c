/* A trace as its differences from another one: passes leave most of a trace as it was, so that
 * what was traced takes little beside what runs.
 *
 * All arrays stand one behind the other as words of four bytes, as runs: a word that says how
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

/* How many words from i on are equal, at most `most`; up to `whole` both arrays have whole
 * ones.
 */
static size_t equal_words(const unsigned char *a, const unsigned char *b, size_t i,
                          size_t whole, size_t most)
{
    const size_t end = whole < i ? i : whole - i < most ? whole : i + most;
    const size_t from = i;
    for (; i + 8 <= end; i += 8) { /* traces are long, and mostly equal */
        uint64_t x[4], y[4];
        memcpy(x, a + 4 * i, sizeof x);
        memcpy(y, b + 4 * i, sizeof y);
        if (((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3])) != 0)
            break;
    }
    while (i < end && memcmp(a + 4 * i, b + 4 * i, 4) == 0)
        i++;
    return i - from;
}

/* Write the runs of one array, or count their words where `to` is NULL. */
static size_t pack_array(const column *mine, const column *other, uint32_t *to)
{
    const unsigned char *a = *mine->at, *b = *other->at;
    const size_t bytes = *mine->n * mine->element, known = *other->n * other->element;
    const size_t words = words_of(bytes), whole = (bytes < known ? bytes : known) / 4;
    size_t n = 0;
    for (size_t i = 0; i < words;) {
        size_t same = equal_words(a, b, i, whole, MOST), others = 0;
        i += same;
        while (same < MOST && i >= whole && i < words &&
               word_at(a, bytes, i) == word_at(b, known, i))
            same++, i++;
        const size_t from = i;
        while (others < MOST && i < whole && memcmp(a + 4 * i, b + 4 * i, 4) != 0)
            others++, i++;
        while (others < MOST && i >= whole && i < words &&
               word_at(a, bytes, i) != word_at(b, known, i))
            others++, i++;
        if (to != NULL) {
            to[n] = (uint32_t)(same << 16 | others);
            for (size_t k = 0; k < others; k++)
                to[n + 1 + k] = word_at(a, bytes, from + k);
        }
        n += 1 + others;
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

static const uint32_t *unpack_array(unsigned char *to, size_t bytes, const column *other,
                                    const uint32_t *from)
{
    const unsigned char *b = *other->at;
    const size_t known = *other->n * other->element, words = words_of(bytes);
    for (size_t i = 0; i < words;) {
        const size_t same = *from >> 16, end = i + same + (*from & MOST);
        from++;
        for (const size_t until = i + same; i < end; i++) {
            const uint32_t word = i < until ? word_at(b, known, i) : *from++;
            memcpy(to + 4 * i, &word, bytes - 4 * i < 4 ? bytes - 4 * i : 4);
        }
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
