/* Members of records. */
#include "profiler/record/utf8.h"
#include "tools/report/report_members.h"

#if defined SW_HAVE_JANSSON && SW_HAVE_JANSSON
#include "tools/cli/cli.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *report_parse(const char *text, size_t n, json_error_t *why)
{
    json_t *record = json_loadb(text, n, 0, why);
    if (record == NULL && json_error_code(why) == json_error_numeric_overflow)
        record = json_loadb(text, n, JSON_DECODE_INT_AS_REAL, why);
    if (record != NULL && !json_is_object(record)) {
        snprintf(why->text, sizeof why->text, "not a record");
        return NULL;
    }
    return record;
}

sw_status report_damaged(const report_place *p, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: line %llu: %s", p->path, (unsigned long long)p->line, what);
}

sw_status report_wrong(const report_place *p, const char *key, const char *wanted)
{
    SW_FAIL(SW_FORMAT, "%s: line %llu: '%s' is missing or not %s", p->path,
            (unsigned long long)p->line, key, wanted);
}

bool report_as_u64(const json_t *x, uint64_t *out)
{
    if (json_is_integer(x) && json_integer_value(x) >= 0) {
        *out = (uint64_t)json_integer_value(x);
        return true;
    }
    const double real = json_is_real(x) ? json_real_value(x) : -1.0;
    if (!(real >= 0.0 && real <= 18446744073709549568.0) || floor(real) != real)
        return false;
    *out = (uint64_t)real;
    return true;
}

sw_status report_need_u64(const report_place *p, const json_t *o, const char *key,
                          uint64_t *out)
{
    return report_as_u64(json_object_get(o, key), out) ? SW_OK
                                                       : report_wrong(p, key, "a whole number");
}

sw_status report_get_u64(const report_place *p, const json_t *o, const char *key,
                         uint64_t otherwise, uint64_t *out)
{
    const json_t *x = json_object_get(o, key);
    *out = otherwise;
    return x == NULL || json_is_null(x) || report_as_u64(x, out)
               ? SW_OK
               : report_wrong(p, key, "a whole number");
}

sw_status report_get_in(const report_place *p, const json_t *o, const char *key, uint64_t most,
                        uint64_t otherwise, uint64_t *out)
{
    SW_TRY(report_get_u64(p, o, key, otherwise, out));
    return *out <= most || *out == otherwise ? SW_OK : report_wrong(p, key, "in range");
}

#define TRACE ((uint64_t)1 << 31) /* in a key: a trace's number, not a program's */

sw_status report_get_key(const report_place *p, uint64_t *key, bool *has)
{
    uint64_t exec, program, trace;
    SW_TRY(report_get_in(p, p->record, "exec", UINT32_MAX, 0, &exec));
    SW_TRY(report_get_in(p, p->record, "program", TRACE - 1, UINT64_MAX, &program));
    SW_TRY(report_get_in(p, p->record, "trace", TRACE - 1, UINT64_MAX, &trace));
    *has = program != UINT64_MAX || trace != UINT64_MAX;
    *key = exec << 32 | (program != UINT64_MAX ? program : trace | TRACE);
    return SW_OK;
}

sw_status report_get_batch(const report_place *p, int64_t *out)
{
    uint64_t batch;
    SW_TRY(report_get_u64(p, p->record, "batch", UINT64_MAX, &batch));
    *out = batch <= INT64_MAX ? (int64_t)batch : -1;
    return SW_OK;
}

sw_status report_get_seed(const report_place *p, uint64_t *out)
{
    static const char key[] = "\"seed\":";
    if (!json_is_real(json_object_get(p->record, "seed")))
        return report_get_u64(p, p->record, "seed", 0, out);
    const char *at = memmem(p->text, p->n, key, sizeof key - 1);
    *out = at != NULL ? strtoull(at + sizeof key - 1, NULL, 10) : 0;
    return SW_OK;
}

sw_status report_get_text(const report_place *p, const json_t *o, const char *key, char *to,
                          size_t bytes)
{
    const json_t *x = json_object_get(o, key);
    to[0] = '\0';
    if (x == NULL || json_is_null(x))
        return SW_OK;
    if (!json_is_string(x))
        return report_wrong(p, key, "a string");
    sw_utf8_clean(to, bytes, json_string_value(x));
    return SW_OK;
}

#endif
