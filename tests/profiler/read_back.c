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

json_t *read_back(const char *path, bool *cut)
{
    FILE *f = fopen(path, "r");
    char *line = NULL, *all = NULL;
    size_t room = 0, bytes = 0;
    FILE *to = open_memstream(&all, &bytes);
    *cut = false;
    SW_CHECK(f != NULL && to != NULL, "%s", path);
    fputc('[', to);
    for (ssize_t n; f != NULL && (n = getline(&line, &room, f)) > 0;) {
        *cut = line[n - 1] != '\n';
        if (*cut)
            break;
        json_t *record = json_loadb(line, (size_t)n);
        SW_CHECK(json_is_object(record), "%s: %s: %s", path, sw_last_error(), line);
        json_decref(record);
        fprintf(to, "%s%s", ftell(to) > 1 ? "," : "", line);
    }
    fputc(']', to);
    fclose(to);
    json_t *records = json_loadb(all, bytes);
    free(all);
    free(line);
    if (f != NULL)
        fclose(f);
    return records;
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
