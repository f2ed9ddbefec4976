/* Logs of exploits: pbt_global.txt has them all, pbt_policy_<member>.txt those that the present
 * state of the member comes from, after a line with the first values. A line is one write, and
 * a policy is replaced by a rename: a process that is killed leaves whole lines. */
#include "runtime/population/pbt_internal.h"
#include <stdio.h>
#include <string.h>

#define DIR_BYTES 900

void swi_pbt_log_path(const sw_pbt *p, char *to, int64_t member, const char *behind)
{
    if (member < 0)
        (void)snprintf(to, SWI_LOG_PATH, "%s/pbt_global.txt%s", p->log, behind);
    else
        (void)snprintf(to, SWI_LOG_PATH, "%s/pbt_policy_%lld.txt%s", p->log, (long long)member,
                       behind);
}

static void write_line(sw_json *j, const sw_pbt *p, const uint32_t who[2],
                       const double times[2], const double *from, const double *to)
{
    sw_json_begin(j, '[');
    sw_json_u64(j, who[0]);
    sw_json_u64(j, who[1]);
    sw_json_f64(j, times[0]);
    sw_json_f64(j, times[1]);
    swi_values_write(j, p->space, from);
    swi_values_write(j, p->space, to);
    sw_json_end(j);
    sw_json_line(j);
}

/* FNV-1a: a byte that changes always changes it. */
uint32_t swi_log_sum(uint32_t sum, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ (unsigned char)bytes[i]) * 16777619u;
    return sum;
}

/* The bytes of a whole file, on the heap; *bytes of them. */
static sw_status read_open(sw_file *f, void **out, size_t *bytes)
{
    uint64_t size;
    size_t got = 0;
    void *block;
    SW_TRY(sw_file_size(f, &size));
    if (size > SWI_LOG_MOST)
        SW_FAIL(SW_FORMAT, "%s: a log must have at most %d bytes (got %llu)", sw_file_path(f),
                SWI_LOG_MOST, (unsigned long long)size);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, (size_t)size));
    sw_status status = sw_file_read(f, block, (size_t)size, &got);
    if (status == SW_OK && got < size)
        status =
            sw_error_set(SW_FORMAT, __FILE__, __LINE__, "%s: became shorter", sw_file_path(f));
    if (status != SW_OK) {
        sw_heap_free(block, SW_HEAP_FILES, (size_t)size);
        return status;
    }
    *out = block;
    *bytes = (size_t)size;
    return SW_OK;
}

sw_status swi_log_read(const char *path, void **out, size_t *bytes)
{
    sw_file *f;
    SW_TRY(sw_file_open(&f, path, SW_FILE_READ));
    const sw_status status = read_open(f, out, bytes);
    sw_file_drop(f);
    return status;
}

/* A new file of two parts, not yet in the place of the old one. */
static sw_status write_beside(const char *path, const void *a, size_t n, const void *b,
                              size_t m)
{
    sw_file *f;
    SW_TRY(sw_file_open(&f, path, SW_FILE_WRITE));
    sw_status status = sw_file_write(f, a, n);
    if (status == SW_OK)
        status = sw_file_write(f, b, m);
    if (status != SW_OK) {
        sw_file_drop(f);
        return status;
    }
    return sw_file_close(f);
}

sw_status swi_policy_write(const sw_pbt *p, uint32_t member, const void *bytes, size_t n)
{
    char beside[SWI_LOG_PATH], path[SWI_LOG_PATH];
    swi_pbt_log_path(p, beside, member, ".tmp");
    swi_pbt_log_path(p, path, member, "");
    SW_TRY(write_beside(beside, bytes, n, "", 0));
    return sw_file_rename(beside, path);
}

/* ---- beginning --------------------------------------------------------------------------- */

void swi_policy_first(const sw_pbt *p, sw_json *j, uint32_t member, double time,
                      const double *values)
{
    write_line(j, p, (uint32_t[]){member, member}, (double[]){time, time}, values, values);
}

static sw_status begin_policy(const sw_pbt *p, uint32_t member)
{
    sw_json j;
    sw_json_growing(&j, SW_HEAP_FILES);
    swi_policy_first(p, &j, member, p->one[member].time, swi_pbt_values(p, member));
    sw_status status = j.status;
    if (status == SW_OK)
        status = swi_policy_write(p, member, j.bytes, j.used);
    sw_json_free(&j);
    return status;
}

sw_status swi_pbt_log_begin(sw_pbt *p)
{
    if (p->log == NULL || p->s.logged)
        return SW_OK;
    SW_TRY(sw_file_cut(p->log_file, 0));
    for (uint32_t i = 0; i < p->n; i++)
        SW_TRY(begin_policy(p, i));
    for (uint32_t i = 0; i < p->n; i++)
        p->one[i].first_time = p->one[i].time;
    memcpy(p->first, p->values, (size_t)p->n * p->h * sizeof *p->first);
    p->s.log_bytes = 0;
    p->s.log_sum = SWI_LOG_SUM;
    p->s.logged = 1;
    return SW_OK;
}

void swi_pbt_log_end(sw_pbt *p)
{
    sw_file_drop(p->log_file);
    if (p->log != NULL)
        sw_heap_free(p->log, SW_HEAP_FILES, strlen(p->log) + 1);
    p->log = NULL;
    p->log_file = NULL;
}

sw_status sw_pbt_log(sw_pbt *p, const char *dir)
{
    static const char call[] = "sw_pbt_log";
    char path[SWI_LOG_PATH];
    void *block;
    SW_TRY(swi_pbt_check(p, call));
    if (dir == NULL) {
        swi_pbt_log_end(p);
        p->s.logged = 0;
        return SW_OK;
    }
    if (p->log != NULL)
        SW_FAIL(SW_INVALID, "%s: there are logs already, in %s", call, p->log);
    const size_t n = strnlen(dir, DIR_BYTES);
    if (n == 0 || n == DIR_BYTES)
        SW_FAIL(SW_INVALID, "%s: the folder's name must have 1 to %d bytes", call,
                DIR_BYTES - 1);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, n + 1));
    p->log = memcpy(block, dir, n);
    swi_pbt_log_path(p, path, -1, "");
    const bool there = sw_file_there(path);
    sw_status status = sw_file_open(&p->log_file, path, SW_FILE_KEEP);
    if (status == SW_OK && p->s.logged)
        status = swi_pbt_log_restore(p);
    if (status != SW_OK && p->log_file != NULL && !there)
        (void)!sw_file_remove(path); /* an empty one says nothing */
    if (status != SW_OK)
        swi_pbt_log_end(p);
    return status;
}

/* ---- an exploit -------------------------------------------------------------------------- */

/* The global log first: what was written there and not noted is cut when it is tried again. */
static sw_status append(sw_pbt *p, uint32_t target, const char *donors, const sw_json *line)
{
    char beside[SWI_LOG_PATH], path[SWI_LOG_PATH];
    void *lineage;
    size_t n;
    swi_pbt_log_path(p, beside, target, ".tmp");
    swi_pbt_log_path(p, path, target, "");
    SW_TRY(swi_log_read(donors, &lineage, &n));
    const sw_status status = write_beside(beside, lineage, n, line->bytes, line->used);
    sw_heap_free(lineage, SW_HEAP_FILES, n);
    SW_TRY(status);
    SW_TRY(sw_file_cut(p->log_file, p->s.log_bytes));
    SW_TRY(sw_file_write(p->log_file, line->bytes, line->used));
    return sw_file_rename(beside, path);
}

sw_status swi_pbt_log_exploit(sw_pbt *p, uint32_t target, uint32_t donor)
{
    char path[SWI_LOG_PATH];
    sw_json j;
    if (p->log == NULL) {
        p->s.logged = 0; /* logs that begin later begin with what is then */
        return SW_OK;
    }
    const swi_pbt_one *m = &p->one[target], *d = &p->one[donor];
    const double times[2] = {m->time, p->opts.synch ? d->time : d->kept_time};
    swi_pbt_log_path(p, path, donor, "");
    sw_json_growing(&j, SW_HEAP_FILES);
    write_line(&j, p, (uint32_t[]){target, donor}, times, swi_pbt_values(p, donor), p->fresh);
    sw_status status = j.status;
    if (status == SW_OK)
        status = append(p, target, path, &j);
    if (status == SW_OK) {
        p->s.log_bytes += j.used;
        p->s.log_sum = swi_log_sum(p->s.log_sum, j.bytes, j.used);
    }
    sw_json_free(&j);
    return status;
}
