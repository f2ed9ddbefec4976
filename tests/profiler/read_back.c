/* See read_back.h. */
#include "tests/profiler/read_back.h"
#include "profiler/record/prof.h"
#include "tests/support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t count_lines(const char *path)
{
    FILE *f = fopen(path, "r");
    size_t n = 0;
    for (int c; f != NULL && (c = getc(f)) != EOF;)
        n += c == '\n';
    if (f != NULL)
        fclose(f);
    return n;
}

#if SW_HAVE_JANSSON
json_t *read_back(const char *path, bool *cut)
{
    FILE *f = fopen(path, "r");
    json_t *all = json_array();
    char *line = NULL;
    size_t room = 0;
    *cut = false;
    SW_CHECK(f != NULL, "%s", path);
    for (ssize_t n; f != NULL && (n = getline(&line, &room, f)) > 0;) {
        if (line[n - 1] != '\n') {
            *cut = true;
            break;
        }
        json_error_t why = {0};
        json_t *record = json_loadb(line, (size_t)n, JSON_REJECT_DUPLICATES, &why);
        SW_CHECK(json_is_object(record), "%s: %s: %s", path, why.text, line);
        (void)json_array_append_new(all, record);
    }
    free(line);
    if (f != NULL)
        fclose(f);
    return all;
}

size_t records_of(const json_t *records, const char *type, const json_t **out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(records); i++) {
        const json_t *record = json_array_get(records, i);
        const char *is = json_string_value(json_object_get(record, "type"));
        if (is != NULL && strcmp(is, type) == 0 && n < room)
            out[n++] = record;
    }
    return n;
}

int64_t number_of(const json_t *record, const char *key)
{
    const json_t *x = json_object_get(record, key);
    SW_CHECK(json_is_integer(x), "'%s' is no integer", key);
    return json_integer_value(x);
}

int64_t phase_number(const json_t *record, int phase, const char *key)
{
    const json_t *phases = json_object_get(record, "phases");
    return number_of(json_object_get(phases, sw_prof_phase_name(phase)), key);
}
#endif
