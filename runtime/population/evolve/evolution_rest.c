/* Members at rest: the bytes of a range in a file of DIR/members, or in a block that the budget
 * pays for. A file is named after the member and the generation that began with this state, and
 * begins with a line that says what it is; those of two generations are kept. The best's state
 * is there twice: it may be that of both. */
#include "alloc/base/mem.h"
#include "runtime/population/evolve/evolution_files.h"
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

static const char *const whats[] = {"best", "member", "paused", "spare"};
enum { BEST, MEMBER, PAUSED, SPARE, WHATS };

static swi_state_file file_of(const sw_evolution *e, const swi_one *one, uint64_t generation)
{
    return (swi_state_file){one->id, generation, one == &e->best ? BEST : MEMBER};
}

/* Of one that is put aside. */
static swi_state_file pause_of(const swi_one *one)
{
    return (swi_state_file){one->id, 0, PAUSED};
}

static void path_of(const sw_evolution *e, swi_state_file file, char path[SWI_EVOLUTION_PATH])
{
    (void)snprintf(path, SWI_EVOLUTION_PATH, "%s/members/%s-%llu-%llu.state", e->opts.dir,
                   whats[file.what], (unsigned long long)file.id,
                   (unsigned long long)file.generation);
}

enum { HEAD = 200 };
static size_t head_of(char to[HEAD], swi_state_file file, size_t n, uint64_t sum)
{
    return (size_t)snprintf(to, HEAD,
                            SWI_STATE_HEAD "\"what\":\"%s\",\"id\":%llu,\"generation\":%llu,"
                                           "\"bytes\":%zu,\"sum\":\"0x%016llx\"}\n",
                            whats[file.what], (unsigned long long)file.id,
                            (unsigned long long)file.generation, n, (unsigned long long)sum);
}

static sw_status write_file(const sw_evolution *e, swi_state_file file, const void *bytes,
                            size_t n, uint64_t sum)
{
    char path[SWI_EVOLUTION_PATH], head[HEAD];
    sw_file *f;
    path_of(e, file, path);
    SW_TRY(sw_file_open(&f, path, SW_FILE_WRITE));
    sw_status status = sw_file_write(f, head, head_of(head, file, n, sum));
    if (status == SW_OK)
        status = sw_file_write(f, bytes, n);
    const sw_status closed = sw_file_close(f);
    return status == SW_OK ? closed : status;
}

/* Every byte of it must be the one that was written. */
static sw_status read_open(sw_file *f, swi_state_file file, void *to, size_t n, uint64_t sum)
{
    char head[HEAD], found[HEAD];
    const size_t begin = head_of(head, file, n, sum);
    uint64_t size;
    size_t got = 0, got_head = 0;
    SW_TRY(sw_file_size(f, &size));
    SW_TRY(sw_file_read(f, found, begin, &got_head));
    SW_TRY(sw_file_read(f, to, n, &got));
    if (size != begin + n)
        SW_FAIL(SW_FORMAT, "%s: has %llu bytes, and %zu were written", sw_file_path(f),
                (unsigned long long)size, begin + n);
    if (got_head != begin || memcmp(head, found, begin) != 0 || got != n ||
        swi_sum_of(to, n, 0) != sum)
        SW_FAIL(SW_FORMAT, "%s is damaged: its bytes are not those that were written",
                sw_file_path(f));
    return SW_OK;
}

static sw_status read_file(const sw_evolution *e, swi_state_file file, void *to, size_t n,
                           uint64_t sum)
{
    char path[SWI_EVOLUTION_PATH];
    sw_file *f;
    path_of(e, file, path);
    SW_TRY(sw_file_open(&f, path, SW_FILE_READ));
    const sw_status status = read_open(f, file, to, n, sum);
    sw_file_drop(f);
    return status;
}

/* ---- two generations of files ------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    const swi_state_file *x = a, *y = b;
    if (x->generation != y->generation)
        return x->generation < y->generation ? -1 : 1;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->what - y->what;
}

void swi_states_note(sw_evolution *e, const swi_one *members, const swi_one *best)
{
    swi_states *s = &e->states[0], older = e->states[1];
    e->states[1] = *s;
    *s = older;
    s->n = 0;
    for (uint32_t i = 0; i < e->opts.population; i++)
        s->all[s->n++] = (swi_state_file){members[i].id, members[i].rest.generation, MEMBER};
    for (int what = BEST; best != NULL && what <= SPARE; what += SPARE)
        s->all[s->n++] = (swi_state_file){best->id, best->rest.generation, what};
    qsort(s->all, s->n, sizeof *s->all, by_name);
}

/* WHAT-ID-GENERATION.state, and nothing else. */
static bool is_state(const char *name, swi_state_file *out)
{
    for (int what = 0; what < WHATS; what++) {
        const size_t n = strlen(whats[what]);
        char *end;
        if (strncmp(name, whats[what], n) != 0 || name[n] != '-' || name[n + 1] < '0' ||
            name[n + 1] > '9')
            continue;
        out->what = what;
        out->id = strtoull(name + n + 1, &end, 10);
        if (*end != '-' || end[1] < '0' || end[1] > '9')
            return false;
        out->generation = strtoull(end + 1, &end, 10);
        return strcmp(end, ".state") == 0;
    }
    return false;
}

static bool is_needed(const sw_evolution *e, const swi_state_file *file)
{
    for (int i = 0; i < 2; i++) {
        const swi_states *s = &e->states[i];
        if (s->n > 0 && bsearch(file, s->all, s->n, sizeof *s->all, by_name) != NULL)
            return true;
    }
    return file->what == PAUSED && e->phase != SWI_PHASE_NEW;
}

static bool sweep_one(void *context, const char *name)
{
    const sw_evolution *e = context;
    char path[SWI_EVOLUTION_PATH];
    swi_state_file file;
    if (is_state(name, &file) && !is_needed(e, &file)) {
        path_of(e, file, path);
        (void)!sw_file_remove(path);
    }
    return true;
}

void swi_states_sweep(sw_evolution *e)
{
    char path[SWI_EVOLUTION_PATH];
    swi_evolution_path(e, "members", path);
    (void)!sw_folder_for_each(path, sweep_one, e);
}

sw_status swi_states_open(const sw_evolution *e)
{
    char path[SWI_EVOLUTION_PATH];
    swi_evolution_path(e, "members", path);
    return sw_folder_make(path);
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
    const size_t n = one->need.member;
    if (e->opts.dir != NULL) {
        swi_state_file file = file_of(e, one, generation);
        one->rest.sum = swi_sum_of(bytes, n, 0);
        SW_TRY(write_file(e, file, bytes, n, one->rest.sum));
        file.what = SPARE;
        if (one == &e->best)
            SW_TRY(write_file(e, file, bytes, n, one->rest.sum));
    }
    one->rest.bytes = n;
    one->rest.generation = generation;
    one->rest.there = true;
    return SW_OK;
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
    const size_t n = one->need.member;
    const unsigned char *range = swi_member_base(one->group, one->member.index);
    if (e->opts.dir == NULL) {
        memcpy(one->rest.block, range, n);
    } else {
        one->pause_sum = swi_sum_of(range, n, 0);
        SW_TRY(write_file(e, pause_of(one), range, n, one->pause_sum));
    }
    sw_member_end(one->member);
    one->member = (sw_member){.of = NULL};
    return SW_OK;
}

/* ---- and back ---------------------------------------------------------------------------- */

sw_status swi_rest_read(const sw_evolution *e, const swi_one *one, unsigned char *to)
{
    swi_state_file file = file_of(e, one, one->rest.generation);
    if (e->opts.dir == NULL) {
        memcpy(to, one->rest.block, one->rest.bytes);
        return SW_OK;
    }
    const sw_status status = read_file(e, file, to, one->need.member, one->rest.sum);
    if (one != &e->best || status == SW_OK)
        return status;
    file.what = SPARE;
    return read_file(e, file, to, one->need.member, one->rest.sum);
}

sw_status swi_best_mend(const sw_evolution *e, unsigned char *scratch, char *why, size_t room)
{
    const size_t n = e->best.need.member;
    const uint64_t sum = e->best.rest.sum;
    swi_state_file file = file_of(e, &e->best, e->best.rest.generation), other = file;
    other.what = SPARE;
    for (int k = 0; k < 2; k++) {
        const sw_status status = read_file(e, file, scratch, n, sum);
        if (status != SW_OK) {
            (void)snprintf(why, room, "%s", sw_last_error());
            SW_TRY(read_file(e, other, scratch, n, sum));
            SW_TRY(write_file(e, file, scratch, n, sum));
        }
        other.what = file.what;
        file.what = SPARE;
    }
    return SW_OK;
}

/* A file of one that was put aside goes when it is read. */
static sw_status read_pause(const sw_evolution *e, const swi_one *one, unsigned char *to)
{
    char path[SWI_EVOLUTION_PATH];
    SW_TRY(read_file(e, pause_of(one), to, one->need.member, one->pause_sum));
    path_of(e, pause_of(one), path);
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
