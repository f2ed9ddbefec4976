/* The schedule of one lineage, read from a policy file. */
#include "runtime/population/pbt_internal.h"
#include <string.h>

typedef struct {
    const sw_space *space;
    const char *path, *text;
    size_t bytes;
    double *from, *to; /* one line's values; of to those of change k */
    uint64_t before;   /* the line before: who goes on */
    double time;       /* its change */
} policy;

sw_json_in swi_log_line(const char *text, size_t bytes, const char *path, uint64_t line)
{
    sw_json_in in = sw_json_in_text(text, bytes, path);
    in.line = line;
    in.strict = true;
    return in;
}

/* Line `k`, from 0: the first says who it begins with, each other one goes on from the one
 * before. */
static sw_status read_line(policy *p, const char *text, size_t bytes, uint64_t k)
{
    uint64_t target, donor;
    double time;
    sw_json_in in = swi_log_line(text, bytes, p->path, k + 1);
    SW_TRY(sw_json_expect(&in, '['));
    SW_TRY(sw_json_get_count(&in, &target));
    SW_TRY(sw_json_expect(&in, ','));
    SW_TRY(sw_json_get_count(&in, &donor));
    if (k == 0 ? target != donor : donor != p->before)
        return sw_json_bad(&in, k == 0
                                    ? "the first line must have one member as target and donor"
                                    : "the donor must be the target of the line before");
    double *donor_time = &time;
    sw_json_number x;
    SW_TRY(sw_json_expect(&in, ','));
    SW_TRY(sw_json_get_number(&in, &x));
    SW_TRY(sw_json_expect(&in, ','));
    SW_TRY(sw_json_get_number(&in, &x));
    *donor_time = x.real;

    if (time < 0 || (k > 0 && time < p->time))
        return sw_json_bad(&in, "the donor's time must not be before that of the line before");
    int c;
    SW_TRY(sw_json_expect(&in, ','));
    SW_TRY(swi_values_read(&in, p->space, p->from));
    SW_TRY(sw_json_expect(&in, ','));
    SW_TRY(swi_values_read(&in, p->space, p->to));
    SW_TRY(sw_json_expect(&in, ']'));
    SW_TRY(sw_json_peek(&in, &c));
    SW_TRY(c < 0 ? SW_OK : sw_json_bad(&in, "the line must end here"));
    p->before = target;
    p->time = time;
    return SW_OK;
}

/* All lines up to line `last`; *n is how many there were. */
static sw_status read_lines(policy *p, uint64_t last, uint64_t *n)
{
    *n = 0;
    for (size_t at = 0; at < p->bytes && *n <= last;) {
        const char *line = p->text + at, *end = memchr(line, '\n', p->bytes - at);
        if (end == NULL)
            SW_FAIL(SW_FORMAT, "%s: line %llu: is cut, it has no end", p->path,
                    (unsigned long long)*n + 1);
        SW_TRY(read_line(p, line, (size_t)(end - line), *n));
        at += (size_t)(end - line) + 1;
        ++*n;
    }
    if (*n == 0)
        SW_FAIL(SW_FORMAT, "%s: line 1: a policy must begin with its first values", p->path);
    return SW_OK;
}

/* With room for two rows of values. */
static sw_status read_policy(const char *path, const sw_space *space, uint64_t last,
                             uint64_t *n, int *member, double *time, double *values)
{
    void *text, *rows;
    const size_t row = space->n * sizeof(double);
    policy p = {.space = space, .path = path};
    SW_TRY(swi_log_read(path, &text, &p.bytes));
    p.text = text;
    sw_status status = sw_heap_alloc(&rows, SW_HEAP_FILES, 2 * row);
    if (status == SW_OK) {
        p.from = rows;
        p.to = p.from + space->n;
        status = read_lines(&p, last, n);
        if (status == SW_OK && *n > last) {
            if (member != NULL)
                *member = (int)p.before;
            if (time != NULL)
                *time = p.time;
            if (values != NULL)
                memcpy(values, p.to, row);
        }
        sw_heap_free(rows, SW_HEAP_FILES, 2 * row);
    }
    sw_heap_free(text, SW_HEAP_FILES, p.bytes);
    return status;
}

static sw_status check(const char *path, const sw_space *space, const void *out,
                       const char *call)
{
    if (path == NULL || out == NULL)
        SW_FAIL(SW_INVALID, "%s: path and results must not be NULL", call);
    return sw_handle_check(space, SW_HANDLE_SPACE, call);
}

sw_status sw_policy_changes(const char *path, const sw_space *space, int *n)
{
    uint64_t count;
    SW_TRY(check(path, space, n, "sw_policy_changes"));
    SW_TRY(read_policy(path, space, UINT64_MAX, &count, NULL, NULL, NULL));
    *n = (int)count; /* a file has less than 2^30 bytes */
    return SW_OK;
}

sw_status sw_policy_change(const char *path, const sw_space *space, int k, int *member,
                           double *time, double *values)
{
    uint64_t count;
    SW_TRY(check(path, space, path, __func__));
    if (k < 0)
        SW_FAIL(SW_INVALID, "%s: the change must be 0 or more (got %d)", __func__, k);
    SW_TRY(read_policy(path, space, (uint64_t)k, &count, member, time, values));
    if (count <= (uint64_t)k)
        SW_FAIL(SW_INVALID, "%s: %s has %llu changes (got %d)", __func__, path,
                (unsigned long long)count, k);
    return SW_OK;
}
