/* Members of records. */
#include "profiler/record/utf8.h"
#include "profiler/inspect/profile_members.h"

sw_status profile_damaged(const profile_position *p, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: line %llu: %s", p->path, (unsigned long long)p->line, what);
}

sw_status profile_wrong(const profile_position *p, const char *key, const char *wanted)
{
    SW_FAIL(SW_FORMAT, "%s: line %llu: '%s' is missing or not %s", p->path,
            (unsigned long long)p->line, key, wanted);
}

sw_status profile_need_u64(const profile_position *p, value o, const char *key, uint64_t *out)
{
    return value_whole(value_at(o, key), out) ? SW_OK : profile_wrong(p, key, "a whole number");
}

sw_status profile_get_u64(const profile_position *p, value o, const char *key,
                          uint64_t otherwise, uint64_t *out)
{
    const value x = value_at(o, key);
    *out = otherwise;
    return x == 0 || value_is_null(x) || value_whole(x, out)
               ? SW_OK
               : profile_wrong(p, key, "a whole number");
}

sw_status profile_need_phases(const profile_position *p, sw_prof_phase *to)
{
    const value phases = value_at(p->record, "phases");
    if (!value_is_dict(phases))
        return profile_wrong(p, "phases", "an object");
    for (int i = 0; i < SW_PROF_PHASES; i++) {
        const value x = value_at(phases, sw_prof_phase_name(i));
        uint64_t peak, end;
        if (!value_is_dict(x))
            return profile_wrong(p, sw_prof_phase_name(i), "a phase");
        SW_TRY(profile_need_u64(p, x, "peak_bytes", &peak));
        SW_TRY(profile_need_u64(p, x, "end_bytes", &end));
        SW_TRY(profile_get_u64(p, x, "ns", 0, &to[i].ns));
        to[i].peak_bytes = peak;
        to[i].end_bytes = end;
    }
    return SW_OK;
}

sw_status profile_get_in(const profile_position *p, value o, const char *key, uint64_t most,
                         uint64_t otherwise, uint64_t *out)
{
    SW_TRY(profile_get_u64(p, o, key, otherwise, out));
    return *out <= most || *out == otherwise ? SW_OK : profile_wrong(p, key, "in range");
}

#define TRACE ((uint64_t)1 << 31) /* in a key: a trace's number, not a program's */

sw_status profile_get_key(const profile_position *p, uint64_t *key, bool *has)
{
    uint64_t exec, program, trace;
    SW_TRY(profile_get_in(p, p->record, "exec", UINT32_MAX, 0, &exec));
    SW_TRY(profile_get_in(p, p->record, "program", TRACE - 1, UINT64_MAX, &program));
    SW_TRY(profile_get_in(p, p->record, "trace", TRACE - 1, UINT64_MAX, &trace));
    *has = program != UINT64_MAX || trace != UINT64_MAX;
    *key = exec << 32 | (program != UINT64_MAX ? program : trace | TRACE);
    return SW_OK;
}

sw_status profile_get_batch(const profile_position *p, int64_t *out)
{
    uint64_t batch;
    SW_TRY(profile_get_u64(p, p->record, "batch", UINT64_MAX, &batch));
    *out = batch <= INT64_MAX ? (int64_t)batch : -1;
    return SW_OK;
}

sw_status profile_borrow_text(const profile_position *p, value o, const char *key,
                              const char **out)
{
    const value x = value_at(o, key);
    *out = value_is_text(x) ? value_text(x) : "";
    return x == 0 || value_is_null(x) || value_is_text(x) ? SW_OK
                                                          : profile_wrong(p, key, "a string");
}

sw_status profile_get_text(const profile_position *p, value o, const char *key, char *to,
                           size_t bytes)
{
    const char *text;
    SW_TRY(profile_borrow_text(p, o, key, &text));
    sw_utf8_clean(to, bytes, text);
    return SW_OK;
}
