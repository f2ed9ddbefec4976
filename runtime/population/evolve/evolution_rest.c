/* Members at rest: the bytes of a range in a file of the run's folder, or in a block that the
 * budget pays for. A file is named after the member and the generation at whose begin it was
 * so; those of one generation are kept until the next one is whole. */
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Four sums side by side, of 32 bytes at a time: against damage. */
uint64_t swi_sum_of(const void *bytes, size_t n, uint64_t sum)
{
    static const uint64_t prime = 0x9e3779b185ebca87u;
    const unsigned char *p = bytes;
    uint64_t s[4] = {sum, sum + 1, sum + 2, sum + 3}, word;
    size_t at = 0;
    for (; at + 32 <= n; at += 32)
        for (int k = 0; k < 4; k++) {
            memcpy(&word, p + at + 8 * k, 8);
            s[k] = (s[k] ^ word) * prime;
            s[k] ^= s[k] >> 29;
        }
    for (; at < n; at++)
        s[at % 4] = (s[at % 4] ^ p[at]) * prime;
    for (int k = 1; k < 4; k++)
        s[0] = ((s[0] ^ s[k]) * prime) ^ (s[0] >> 31);
    return s[0] ^ n;
}

static void path_of(const sw_evolution *e, const swi_old_file *file,
                    char path[SWI_EVOLUTION_PATH])
{
    (void)snprintf(path, SWI_EVOLUTION_PATH, "%s/%s-%llu-%llu.state", e->opts.dir, file->what,
                   (unsigned long long)file->id, (unsigned long long)file->generation);
}

static swi_old_file file_of(const sw_evolution *e, const swi_one *one, uint64_t generation)
{
    const char *what = one == &e->best ? "best" : e->rebuilding ? "rebuilt" : "member";
    return (swi_old_file){one->id, generation, what};
}

/* Of one that is put aside. */
static swi_old_file pause_of(const swi_one *one)
{
    return (swi_old_file){one->id, 0, "paused"};
}

/* Without memory for it the file stays; it does no harm. */
static void note_old(sw_evolution *e, swi_old_file file)
{
    void *old = e->old;
    if (sw_heap_reserve(&old, SW_HEAP_RECORDS, &e->cap_old, e->n_old + 1, sizeof *e->old) !=
        SW_OK)
        return;
    e->old = old;
    e->old[e->n_old++] = file;
}

void swi_rest_sweep(sw_evolution *e)
{
    char path[SWI_EVOLUTION_PATH];
    for (uint32_t i = 0; i < e->n_old; i++) {
        path_of(e, &e->old[i], path);
        if (sw_file_remove(path) != SW_OK)
            continue; /* it does no harm */
    }
    e->n_old = 0;
}

static sw_status write_file(const char *path, const void *bytes, size_t n)
{
    sw_file *f;
    SW_TRY(sw_file_open(&f, path, SW_FILE_WRITE));
    const sw_status status = sw_file_write(f, bytes, n);
    if (status != SW_OK) {
        sw_file_drop(f);
        return status;
    }
    return sw_file_close(f);
}

static sw_status read_file(const char *path, void *to, size_t n, uint64_t sum)
{
    sw_file *f;
    size_t got = 0;
    SW_TRY(sw_file_open(&f, path, SW_FILE_READ));
    const sw_status status = sw_file_read(f, to, n, &got);
    sw_file_drop(f);
    SW_TRY(status);
    if (got != n)
        SW_FAIL(SW_FORMAT, "%s: has %zu bytes, and %zu were written", path, got, n);
    if (swi_sum_of(to, n, 0) != sum)
        SW_FAIL(SW_FORMAT, "%s: is damaged: its bytes are not those that were written", path);
    return SW_OK;
}

/* ---- what was left behind ---------------------------------------------------------------- */

/* WHAT-ID-GENERATION.state, and nothing else. */
static bool is_state(const char *name, swi_old_file *out)
{
    static const char *const whats[] = {"member", "best", "paused", "rebuilt"};
    for (int i = 0; i < 4; i++) {
        const size_t n = strlen(whats[i]);
        char *end;
        if (strncmp(name, whats[i], n) != 0 || name[n] != '-' || name[n + 1] < '0' ||
            name[n + 1] > '9')
            continue;
        *out = (swi_old_file){.what = whats[i]};
        out->id = strtoull(name + n + 1, &end, 10);
        if (*end != '-' || end[1] < '0' || end[1] > '9')
            return false;
        out->generation = strtoull(end + 1, &end, 10);
        return strcmp(end, ".state") == 0;
    }
    return false;
}

static bool is_file_of(const sw_evolution *e, const swi_one *one, const swi_old_file *file)
{
    const swi_old_file its = file_of(e, one, one->rest.generation);
    return one->rest.there && its.id == file->id && its.generation == file->generation &&
           strcmp(its.what, file->what) == 0;
}

static bool note_left(void *context, const char *name)
{
    sw_evolution *e = context;
    swi_old_file file;
    if (!is_state(name, &file))
        return true;
    bool used = is_file_of(e, &e->best, &file);
    for (uint32_t i = 0; i < e->opts.population; i++)
        used |= is_file_of(e, &e->members[i], &file);
    if (!used)
        note_old(e, file);
    return true;
}

sw_status swi_rest_sweep_folder(sw_evolution *e)
{
    SW_TRY(sw_folder_for_each(e->opts.dir, note_left, e));
    swi_rest_sweep(e);
    return SW_OK;
}

/* ---- to rest ----------------------------------------------------------------------------- */

sw_status swi_rest_begin(sw_evolution *e, swi_one *one, unsigned char *scratch,
                         unsigned char **out)
{
    const size_t bytes = one->need.member;
    if (e->opts.dir != NULL) {
        *out = scratch;
        return SW_OK;
    }
    if (one->rest.block != NULL && one->rest.bytes != bytes) {
        swi_charged_give(e, one->rest.block, one->rest.bytes, &e->rest_bytes);
        one->rest = (swi_rest){.there = false};
    }
    if (one->rest.block == NULL) {
        SW_TRY(swi_charged_take(e, &one->rest.block, bytes, &e->rest_bytes));
        one->rest.bytes = bytes;
    }
    *out = one->rest.block;
    return SW_OK;
}

sw_status swi_rest_end(sw_evolution *e, swi_one *one, const unsigned char *bytes,
                       uint64_t generation)
{
    char path[SWI_EVOLUTION_PATH];
    const size_t n = one->need.member;
    if (e->opts.dir != NULL) {
        const swi_old_file file = file_of(e, one, generation);
        path_of(e, &file, path);
        SW_TRY(write_file(path, bytes, n));
        if (one->rest.there && one->rest.generation != generation)
            note_old(e, file_of(e, one, one->rest.generation));
        one->rest.sum = swi_sum_of(bytes, n, 0);
    }
    one->rest.bytes = n;
    one->rest.generation = generation;
    one->rest.there = true;
    return SW_OK;
}

void swi_rest_drop(sw_evolution *e, swi_one *one)
{
    swi_charged_give(e, one->rest.block, one->rest.bytes, &e->rest_bytes);
    if (one->rest.there && e->opts.dir != NULL)
        note_old(e, file_of(e, one, one->rest.generation));
    one->rest = (swi_rest){.there = false};
}

void swi_rest_remove(sw_evolution *e, swi_one *one)
{
    char path[SWI_EVOLUTION_PATH];
    swi_charged_give(e, one->rest.block, one->rest.bytes, &e->rest_bytes);
    if (one->rest.there && e->opts.dir != NULL) {
        const swi_old_file file = file_of(e, one, one->rest.generation);
        path_of(e, &file, path);
        if (sw_file_remove(path) != SW_OK)
            one->rest.there = false; /* it does no harm */
    }
    one->rest = (swi_rest){.there = false};
}

sw_status swi_one_store(sw_evolution *e, swi_one *one, uint64_t generation)
{
    const unsigned char *range = swi_member_base(one->group, one->member.index);
    unsigned char *to = NULL;
    if (e->opts.dir == NULL) {
        SW_TRY(swi_rest_begin(e, one, NULL, &to));
        memcpy(to, range, one->need.member);
    }
    return swi_rest_end(e, one, range, generation);
}

sw_status swi_best_store(sw_evolution *e, const swi_one *one)
{
    const unsigned char *range = swi_member_base(one->group, one->member.index);
    unsigned char *to = NULL;
    if (e->opts.dir != NULL) /* the one before, which has another name */
        swi_rest_drop(e, &e->best);
    e->best.id = one->id;
    e->best.need = one->need;
    if (e->opts.dir == NULL) {
        SW_TRY(swi_rest_begin(e, &e->best, NULL, &to));
        memcpy(to, range, one->need.member);
    }
    return swi_rest_end(e, &e->best, range, e->generation);
}

/* Without files the block that it began with takes the bytes: it is not needed any more. */
sw_status swi_one_pause(sw_evolution *e, swi_one *one)
{
    char path[SWI_EVOLUTION_PATH];
    const unsigned char *range = swi_member_base(one->group, one->member.index);
    const swi_old_file file = pause_of(one);
    if (e->opts.dir == NULL) {
        memcpy(one->rest.block, range, one->need.member);
    } else {
        path_of(e, &file, path);
        SW_TRY(write_file(path, range, one->need.member));
        one->pause_sum = swi_sum_of(range, one->need.member, 0);
    }
    sw_member_end(one->member);
    one->member = (sw_member){.of = NULL};
    return SW_OK;
}

/* ---- and back ---------------------------------------------------------------------------- */

sw_status swi_rest_read(const sw_evolution *e, const swi_one *one, unsigned char *to)
{
    char path[SWI_EVOLUTION_PATH];
    if (e->opts.dir == NULL) {
        memcpy(to, one->rest.block, one->rest.bytes);
        return SW_OK;
    }
    const swi_old_file file = file_of(e, one, one->rest.generation);
    path_of(e, &file, path);
    return read_file(path, to, one->need.member, one->rest.sum);
}

/* A file of one that was put aside goes when it is read. */
static sw_status read_pause(const sw_evolution *e, const swi_one *one, unsigned char *to)
{
    char path[SWI_EVOLUTION_PATH];
    const swi_old_file file = pause_of(one);
    path_of(e, &file, path);
    SW_TRY(read_file(path, to, one->need.member, one->pause_sum));
    return sw_file_remove(path);
}

sw_status swi_one_load(sw_evolution *e, swi_one *one)
{
    SW_ASSERT(one->rest.there && one->member.of == NULL);
    SW_TRY(swi_member_claim(&one->member, one->group, swi_member_seed(e, one->id)));
    unsigned char *range = swi_member_base(one->group, one->member.index);
    const sw_status status = one->begun && e->opts.dir != NULL ? read_pause(e, one, range)
                                                               : swi_rest_read(e, one, range);
    if (status != SW_OK) {
        sw_member_end(one->member);
        one->member = (sw_member){.of = NULL};
        return status;
    }
    swi_charged_give(e, one->rest.block, one->rest.bytes, &e->rest_bytes);
    one->rest.block = NULL;
    one->rest.there = e->opts.dir != NULL;
    swi_evolution_note_peak(e);
    return sw_member_progress_set(one->member, one->steps, one->begun ? one->made : 0);
}

sw_status swi_one_bytes(sw_evolution *e, const swi_one *one, unsigned char *scratch,
                        const unsigned char **out)
{
    if (one->member.of != NULL && !one->kept) {
        *out = swi_member_base(one->group, one->member.index);
        return SW_OK;
    }
    if (e->opts.dir == NULL) {
        *out = one->rest.block;
        return SW_OK;
    }
    SW_TRY(swi_rest_read(e, one, scratch));
    *out = scratch;
    return SW_OK;
}
