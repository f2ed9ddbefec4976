/* The classes of a label column: a hash table of words, ranked when all are known. */
#include "runtime/data/csv_internal.h"
#include <string.h>

#define SLOTS (2 * SWI_CLASSES_MAX) /* half full at most */
#define TABLE_BYTES ((3 * SWI_CLASSES_MAX + SLOTS) * sizeof(uint32_t))

sw_status swi_classes_open(swi_classes *classes)
{
    void *block;
    *classes = (swi_classes){0};
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, TABLE_BYTES));
    classes->at = block;
    classes->rank = classes->at + SWI_CLASSES_MAX;
    classes->sorted = classes->rank + SWI_CLASSES_MAX;
    classes->slot = classes->sorted + SWI_CLASSES_MAX;
    return SW_OK;
}

void swi_classes_close(swi_classes *classes)
{
    sw_heap_free(classes->at, SW_HEAP_FILES, TABLE_BYTES);
    sw_heap_free(classes->text, SW_HEAP_FILES, classes->capacity);
    *classes = (swi_classes){0};
}

static const char *word_at(const swi_classes *classes, uint32_t number)
{
    return classes->text + classes->at[number];
}

/* The slot of a word, or the free one where it would stand. FNV-1a. */
static uint32_t slot_of(const swi_classes *classes, const char *word)
{
    uint32_t hash = 2166136261u;
    for (const char *p = word; *p != '\0'; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    uint32_t s = (hash ^ hash >> 15) % SLOTS;
    while (classes->slot[s] != 0 && strcmp(word_at(classes, classes->slot[s] - 1), word) != 0)
        s = (s + 1) % SLOTS;
    return s;
}

int64_t swi_classes_find(const swi_classes *classes, const char *word)
{
    return (int64_t)classes->slot[slot_of(classes, word)] - 1;
}

sw_status swi_classes_add(swi_classes *classes, const char *word, bool *fits)
{
    const uint32_t s = slot_of(classes, word);
    const size_t bytes = strlen(word) + 1;
    *fits = true;
    if (classes->slot[s] != 0)
        return SW_OK;
    if (classes->n == SWI_CLASSES_MAX) {
        *fits = false;
        return SW_OK;
    }
    if (bytes > classes->capacity - classes->used) {
        const size_t capacity = 2 * (classes->capacity + bytes);
        void *block = classes->text;
        SW_TRY(sw_heap_resize(&block, SW_HEAP_FILES, classes->capacity, capacity));
        classes->text = block;
        classes->capacity = capacity;
    }
    memcpy(classes->text + classes->used, word, bytes);
    classes->at[classes->n++] = (uint32_t)classes->used;
    classes->slot[s] = (uint32_t)classes->n;
    classes->used += bytes;
    return SW_OK;
}

/* Whole numbers as swi_decimal_whole writes them: the sign, then the length, then digits. */
static bool below(const char *a, const char *b, bool numbers)
{
    if (!numbers)
        return strcmp(a, b) < 0;
    if ((*a == '-') != (*b == '-'))
        return *a == '-';
    const size_t n = strlen(a), m = strlen(b);
    const bool less = n != m ? n < m : strcmp(a, b) < 0;
    return *a == '-' ? !less && strcmp(a, b) != 0 : less;
}

/* Let the word at `root` of a heap of n sink to where none below it is larger. */
static void sink(const swi_classes *classes, uint32_t *heap, int64_t root, int64_t n,
                 bool numbers)
{
    const uint32_t moved = heap[root];
    for (int64_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n &&
            below(word_at(classes, heap[child]), word_at(classes, heap[child + 1]), numbers))
            child++;
        if (!below(word_at(classes, moved), word_at(classes, heap[child]), numbers))
            break;
        heap[root] = heap[child];
    }
    heap[root] = moved;
}

void swi_classes_sort(swi_classes *classes, bool numbers)
{
    uint32_t *heap = classes->sorted;
    for (uint32_t i = 0; i < classes->n; i++)
        heap[i] = i;
    for (int64_t root = classes->n / 2; root-- > 0;)
        sink(classes, heap, root, classes->n, numbers);
    for (int64_t n = classes->n; n-- > 1;) {
        const uint32_t largest = heap[0];
        heap[0] = heap[n];
        heap[n] = largest;
        sink(classes, heap, 0, n, numbers);
    }
    for (uint32_t i = 0; i < classes->n; i++)
        classes->rank[heap[i]] = i;
}

void swi_classes_list(const swi_classes *classes, char *to)
{
    for (int64_t i = 0; i < classes->n; i++) {
        const char *word = word_at(classes, classes->sorted[i]);
        const size_t bytes = strlen(word) + 1;
        memcpy(to, word, bytes);
        to += bytes;
    }
}
