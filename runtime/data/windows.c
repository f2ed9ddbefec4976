/* Windows of a row of tokens. */
#include "runtime/data/windows.h"
#include "alloc/base/size.h"

swi_windows swi_windows_of(uint64_t tokens, uint64_t context, bool move)
{
    swi_windows s = {.tokens = tokens, .n = (tokens - 1) / context, .places = 1};
    if (move) {
        s.n = tokens / context > 1 ? tokens / context - 1 : 1;
        const uint64_t free = tokens - s.n * context;
        s.places = (uint32_t)(free < context ? free : context);
    }
    return s;
}

uint64_t swi_windows_first(uint64_t tokens)
{
    return tokens / 10 * 9 + tokens % 10 * 9 / 10;
}

sw_status swi_windows_check(const char *path, uint64_t tokens, uint64_t context, bool split,
                            const char *what, const char *unit)
{
    const uint64_t last = split ? tokens - swi_windows_first(tokens) : tokens;
    if (tokens == 0)
        SW_FAIL(SW_FORMAT, "%s: empty; a %s was expected", path, what);
    if (last <= context)
        SW_FAIL(SW_FORMAT,
                "%s: %llu %ss are too short: %s%s has %llu, and a context of %llu needs one "
                "%s more than itself; take a smaller context or a longer %s",
                path, (unsigned long long)tokens, unit,
                split ? "the last tenth, for validation," : "the ", split ? "" : what,
                (unsigned long long)last, (unsigned long long)context, unit, what);
    return SW_OK;
}

sw_status swi_windows_fields(sw_dataset *dataset, sw_dtype dtype, int64_t context,
                             uint64_t tokens, const void *data)
{
    size_t all, each;
    const size_t one = sw_dtype_bytes(dtype);
    if (!sw_size_mul((size_t)tokens, one, &all) || !sw_size_mul((size_t)context, one, &each))
        SW_FAIL(SW_NOMEM, "%s: %llu tokens overflow", dataset->name,
                (unsigned long long)tokens);
    swi_field read = {.dtype = dtype,
                      .shape = {1, {context}},
                      .sample_bytes = each,
                      .stride = (ptrdiff_t)each,
                      .data = (unsigned char *)(uintptr_t)data};
    swi_field following = read;
    if (data == NULL && !dataset->shapes_only) {
        SW_TRY(sw_heap_alloc(&read.block, SW_HEAP_DATASETS, all));
        read.bytes = all;
        read.data = read.block;
    }
    if (read.data != NULL)
        following.data = read.data + one;
    dataset->field[0] = read;
    dataset->field[1] = following;
    dataset->n_fields = 2;
    return SW_OK;
}
