/* A profile's file in parts, so that it is bounded: header and plans are kept as they were
 * formatted, and each part begins with them.
 *
 * A new part: the full one gets its second name, which lets go of the part before it; the next
 * one is written beside it as far as its plans go and takes its first name. So at any moment
 * there is a whole file at that name, and no more than two parts on the disk. */
#include "profiler/record/prof_internal.h"
#include <stdio.h>
#include <string.h>

enum { HEADER_END = 40, PART_END = 64 }; /* room for ,"part":N} and for a part record */

static const char *name_of(const sw_profile *p, int which)
{
    return p->names + (size_t)which * p->names_bytes;
}
enum { NAME, NAME_BEFORE, NAME_NEXT, NAMES };

static size_t head_bytes(const sw_profile *p)
{
    return p->kept_bytes + HEADER_END;
}

size_t sw_prof_least(const sw_profile *p)
{
    return head_bytes(p) + PART_END + SWI_PROF_LINE_BYTES + p->most_ops * SWI_PROF_CLOCK_BYTES;
}

size_t swi_prof_part_bytes(const sw_profile *p)
{
    return p->max_bytes == 0 ? SIZE_MAX : p->max_bytes - head_bytes(p) - PART_END;
}

/* ---- keeping ----------------------------------------------------------------------------- */

sw_status swi_prof_parts_begin(sw_profile *p, const sw_prof_header *header)
{
    p->keeps = header->measures || (header->path != NULL && header->max_bytes > 0);
    if (header->path == NULL || header->max_bytes == 0)
        return SW_OK;
    if (!sw_file_replaceable(header->path) || strcmp(header->path, "-") == 0)
        SW_FAIL(SW_INVALID, "%s must be a regular file to be written in parts", header->path);
    p->max_bytes = header->max_bytes;
    p->names_bytes = strlen(header->path) + sizeof ".new";
    SW_TRY(sw_heap_alloc(&p->names, SW_HEAP_PROFILE, NAMES * p->names_bytes));
    static const char *const endings[] = {"", ".1", ".new"};
    for (int i = 0; i < NAMES; i++)
        snprintf(p->names + (size_t)i * p->names_bytes, p->names_bytes, "%s%s", header->path,
                 endings[i]);
    return SW_OK;
}

void swi_prof_parts_free(sw_profile *p)
{
    sw_heap_free(p->names, SW_HEAP_PROFILE, NAMES * p->names_bytes);
    sw_heap_free(p->kept, SW_HEAP_PROFILE, p->cap_kept);
    p->names = p->kept = NULL;
}

void swi_prof_keep(sw_profile *p)
{
    swi_prof_flush(p);
    p->keeping = true;
    p->plan_from = p->kept_bytes;
}

static sw_status keep(sw_profile *p, const char *bytes, size_t n)
{
    if (n > UINT32_MAX - p->kept_bytes)
        SW_FAIL(SW_NOMEM, "the plans of a profile in parts are too many");
    SW_TRY(sw_heap_reserve(&p->kept, SW_HEAP_PROFILE, &p->cap_kept,
                           (uint32_t)(p->kept_bytes + n), 1));
    memcpy(p->kept + p->kept_bytes, bytes, n);
    p->kept_bytes += n;
    return SW_OK;
}

sw_status swi_prof_keep_more(sw_profile *p, const char *bytes, size_t n)
{
    return p->status != SW_OK ? p->status : swi_prof_stick(p, keep(p, bytes, n));
}

/* ---- parts ------------------------------------------------------------------------------- */

/* To a file that was just opened. */
static sw_status write_head(sw_profile *p)
{
    char end[HEADER_END];
    const int n = snprintf(end, sizeof end, ",\"part\":%llu}\n", (unsigned long long)p->part);
    SW_TRY(sw_file_write(p->file, p->kept, p->header_bytes));
    SW_TRY(sw_file_write(p->file, end, (size_t)n));
    SW_TRY(sw_file_write(p->file, p->kept + p->header_bytes, p->kept_bytes - p->header_bytes));
    p->file_bytes = p->kept_bytes + (size_t)n;
    return SW_OK;
}

/* The writer has opened a bracket that this header leaves open: it begins anew. */
void swi_prof_keep_header(sw_profile *p)
{
    swi_prof_flush(p);
    sw_json_end(&p->json);
    p->json.used = 0;
    p->keeping = false;
    p->header_bytes = p->kept_bytes;
    if (p->max_bytes > 0 && p->max_bytes < sw_prof_least(p) && p->status == SW_OK)
        (void)swi_prof_stick(p,
                             sw_error_set(SW_INVALID, __FILE__, __LINE__,
                                          "%s: parts must have at least %zu bytes for a header "
                                          "and records, and more with the plans (got %zu)",
                                          name_of(p, NAME), sw_prof_least(p), p->max_bytes));
}

void swi_prof_first_part(sw_profile *p)
{
    (void)swi_prof_stick(p, write_head(p));
}

/* Where there is no part before, `before` is another handle of the file itself: no memory is
 * taken for it where a part ends, in a step. So it is where a run was killed when the file had
 * both names. */
sw_status swi_prof_parts_take(sw_profile *p)
{
    const char *name = name_of(p, sw_file_there(name_of(p, NAME_BEFORE)) ? NAME_BEFORE : NAME);
    SW_TRY(sw_file_open(&p->before, name, SW_FILE_KEEP));
    if (!sw_file_is(p->file, name))
        SW_TRY(sw_file_own(p->before, name));
    return sw_file_empty(p->file);
}

/* The handle of the part before goes on in the next one, and the two change places: what stands
 * at either name is locked all the while. */
static sw_status next_part(sw_profile *p)
{
    SW_TRY(sw_file_link(name_of(p, NAME), name_of(p, NAME_BEFORE)));
    SW_TRY(sw_file_reopen(p->before, name_of(p, NAME_NEXT)));
    SW_TRY(sw_file_own(p->before, name_of(p, NAME_NEXT)));
    sw_file *const full = p->file;
    p->file = p->before;
    p->before = full;
    p->part++;
    SW_TRY(sw_file_take_mode(p->file, name_of(p, NAME_BEFORE)));
    SW_TRY(write_head(p));
    sw_prof_heap_again(&p->heap);
    return sw_file_rename(name_of(p, NAME_NEXT), name_of(p, NAME));
}

static void end_part(sw_profile *p)
{
    sw_json_begin(&p->json, '{');
    sw_json_put_string(&p->json, "type", "part");
    sw_json_put_u64(&p->json, "part", p->part);
    sw_json_end(&p->json);
    sw_json_line(&p->json);
    swi_prof_flush(p);
    (void)pthread_rwlock_wrlock(&p->files); /* a sync that goes on ends first */
    if (p->status == SW_OK && swi_prof_stick(p, next_part(p)) != SW_OK)
        (void)!sw_file_remove(name_of(p, NAME_NEXT)); /* where it was not made yet: well */
    (void)pthread_rwlock_unlock(&p->files);
}

void swi_prof_reserve(sw_profile *p, size_t bytes)
{
    if (p->max_bytes == 0 || p->status != SW_OK)
        return;
    const size_t used = p->file_bytes + p->json.used;
    const bool fits =
        bytes <= p->max_bytes - PART_END && used <= p->max_bytes - PART_END - bytes;
    if (!fits && used > p->kept_bytes + HEADER_END)
        end_part(p);
}

bool swi_prof_keep_plan(sw_profile *p)
{
    const size_t n = p->kept_bytes - p->plan_from;
    p->keeping = false;
    if (p->max_bytes == 0 || p->status != SW_OK)
        return p->status == SW_OK;
    if (p->max_bytes < sw_prof_least(p)) {
        const size_t least = sw_prof_least(p);
        p->kept_bytes = p->plan_from;
        if (!p->plan_optional)
            (void)swi_prof_stick(
                p,
                sw_error_set(
                    SW_INVALID, __FILE__, __LINE__,
                    "%s: parts must have at least %zu bytes for plans of %zu bytes (got %zu)",
                    name_of(p, NAME), least, n, p->max_bytes));
        return false;
    }
    if (n <= p->max_bytes - PART_END && p->file_bytes <= p->max_bytes - PART_END - n)
        return swi_prof_write(p, p->kept + p->plan_from, n) == SW_OK;
    end_part(p); /* the next one begins with it */
    return p->status == SW_OK;
}
