/* See problems.h. */
#include "tools/bench/problems.h"
#include "alloc/base/mem.h"

uint64_t problem_dice(uint64_t *state, uint64_t below)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

sw_status problem_take(place_csv *csv, size_t n)
{
    void *block;
    csv->capacity = n;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, n * sizeof *csv->items));
    csv->items = block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, 2 * n * sizeof *csv->times));
    csv->times = block;
    csv->n = n;
    return SW_OK;
}

sw_status problem_random(place_csv *csv, size_t n)
{
    uint64_t state = 1;
    const uint64_t layers = n / 4 + 1, end = 2 * layers;
    SW_TRY(problem_take(csv, n));
    for (size_t i = 0; i < n; i++) {
        const uint64_t layer = i / 4, back = end - 1 - layer;
        const uint64_t lower = i % 4 == 3 ? back : layer;
        const uint64_t length = i % 4 == 0   ? end - 2 * layer
                                : i % 4 == 1 ? 1 + problem_dice(&state, 16)
                                             : 1 + problem_dice(&state, 3);
        const uint64_t upper = lower + length < end ? lower + length : end;
        csv->times[2 * i] = lower;
        csv->times[2 * i + 1] = upper;
        csv->items[i].lower = (uint32_t)lower;
        csv->items[i].upper = (uint32_t)upper;
        csv->items[i].bytes =
            (1 + problem_dice(&state, 8)) * ((size_t)SW_ALIGN << problem_dice(&state, 10));
    }
    return SW_OK;
}

void problem_reverse(place_csv *to, const place_csv *from)
{
    uint64_t last = 0;
    uint32_t last_rank = 0;
    for (size_t i = 0; i < from->n; i++) {
        last = from->times[2 * i + 1] > last ? from->times[2 * i + 1] : last;
        last_rank = from->items[i].upper > last_rank ? from->items[i].upper : last_rank;
    }
    for (size_t i = 0; i < from->n; i++) {
        to->items[i].lower = last_rank - from->items[i].upper;
        to->items[i].upper = last_rank - from->items[i].lower;
        to->times[2 * i] = last - from->times[2 * i + 1];
        to->times[2 * i + 1] = last - from->times[2 * i];
    }
}

void problem_shuffle(place_csv *csv, uint64_t seed)
{
    for (size_t i = csv->n; i > 1; i--) {
        const size_t j = problem_dice(&seed, i);
        const sw_placement_item item = csv->items[i - 1];
        csv->items[i - 1] = csv->items[j];
        csv->items[j] = item;
        for (size_t k = 0; k < 2; k++) {
            const uint64_t time = csv->times[2 * (i - 1) + k];
            csv->times[2 * (i - 1) + k] = csv->times[2 * j + k];
            csv->times[2 * j + k] = time;
        }
    }
}
