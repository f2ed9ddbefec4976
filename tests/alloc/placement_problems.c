#include "tests/alloc/placement_problems.h"

void problem_shuffle(sw_dice *dice, sw_placement_item *rows, size_t n)
{
    for (size_t i = n; i-- > 1;) {
        const size_t j = sw_dice_below(dice, i + 1);
        const sw_placement_item other = rows[i];
        rows[i] = rows[j];
        rows[j] = other;
    }
}

void problem_random(sw_dice *dice, sw_placement_item *rows, size_t n, uint32_t horizon,
                    uint32_t longest, size_t largest)
{
    for (size_t i = 0; i < n; i++) {
        rows[i].lower = (uint32_t)sw_dice_below(dice, horizon);
        rows[i].upper = rows[i].lower + 1 + (uint32_t)sw_dice_below(dice, longest);
        rows[i].bytes = SW_ALIGN * (1 + sw_dice_below(dice, largest));
    }
}

size_t problem_cut(sw_dice *dice, sw_placement_item *items, size_t n, uint32_t time,
                   size_t units)
{
    size_t count = 1;
    items[0] = (sw_placement_item){0, time, units, 0, 0};
    for (size_t tries = 0; count < n && tries < 20 * n; tries++) {
        sw_placement_item *p = &items[sw_dice_below(dice, count)];
        const bool along = sw_dice_below(dice, 2) == 0; /* two buffers of one lifetime */
        if (along ? p->bytes < 2 : p->upper - p->lower < 2)
            continue;
        sw_placement_item *cut = &items[count++];
        *cut = *p;
        if (along) {
            cut->bytes = 1 + sw_dice_below(dice, p->bytes - 1);
            p->bytes -= cut->bytes;
        } else { /* one ends where the other begins */
            cut->lower += 1 + (uint32_t)sw_dice_below(dice, p->upper - p->lower - 1);
            p->upper = cut->lower;
        }
    }
    problem_shuffle(dice, items, count);
    return count;
}

size_t problem_load(const sw_placement_item *items, size_t n)
{
    size_t peak = 0;
    for (size_t i = 0; i < n; i++) {
        size_t live = 0;
        for (size_t j = 0; j < n; j++)
            if (items[j].lower <= items[i].lower && items[i].lower < items[j].upper)
                live += items[j].bytes;
        peak = live > peak ? live : peak;
    }
    return peak;
}

size_t problem_least(sw_placement_item *items, size_t n, size_t n_placed, uint32_t placed,
                     size_t height, size_t best)
{
    if (n_placed == n)
        return height;
    for (size_t i = 0; i < n && height < best; i++) {
        if ((placed >> i & 1u) != 0)
            continue;
        size_t at = 0;
        for (size_t j = 0; j < n; j++)
            if ((placed >> j & 1u) != 0 && items[i].lower < items[j].upper &&
                items[j].lower < items[i].upper && items[j].offset + items[j].bytes > at)
                at = items[j].offset + items[j].bytes;
        while (items[i].align > 1 && at % items[i].align != 0)
            at++;
        items[i].offset = at;
        const size_t end = items[i].offset + items[i].bytes;
        const size_t top = end > height ? end : height;
        if (top < best) {
            const size_t found =
                problem_least(items, n, n_placed + 1, placed | 1u << i, top, best);
            best = found < best ? found : best;
        }
    }
    return best;
}

size_t problem_read(sw_placement_item *items, size_t most, const char *name)
{
    const char *path = sw_data_path(name);
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    char line[256];
    size_t n = 0;
    if (file == NULL)
        return sw_test_skip("the data folder has no such file"), (size_t)0;
    bool more = fgets(line, sizeof line, file) != NULL; /* the header */
    while (more && n < most && fgets(line, sizeof line, file) != NULL) {
        unsigned long lower, upper, bytes;
        const char *rest = strchr(line, ',');
        more = rest != NULL && sscanf(rest, ",%lu,%lu,%lu", &lower, &upper, &bytes) == 3;
        if (more)
            items[n++] = (sw_placement_item){(uint32_t)lower, (uint32_t)upper, bytes, 0, 0};
    }
    fclose(file);
    return n;
}
