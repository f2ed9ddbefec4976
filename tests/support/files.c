/* See files.h. */
#include "tests/support/files.h"
#include "tests/support/suite.h"
#include <unistd.h>

char *sw_file_text(const char *path, size_t *n)
{
    size_t none;
    FILE *f = fopen(path, "rb");
    n = n != NULL ? n : &none;
    *n = 0;
    if (f == NULL)
        return NULL;
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    rewind(f);
    char *bytes = size >= 0 ? malloc((size_t)size + 1) : NULL;
    if (bytes != NULL) {
        *n = fread(bytes, 1, (size_t)size, f);
        bytes[*n] = '\0';
    }
    fclose(f);
    return bytes;
}

size_t sw_file_bytes(const char *path)
{
    size_t n;
    free(sw_file_text(path, &n));
    return n;
}

void sw_file_put(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    const bool written = fwrite(bytes, 1, n, f) == n;
    CU_ASSERT_FATAL(fclose(f) == 0 && written);
}

static void put_byte(const sw_damage *d, char byte)
{
    FILE *f = fopen(d->path, "r+b");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_FATAL(fseek(f, (long)d->at, SEEK_SET) == 0 && fputc(byte, f) != EOF);
    CU_ASSERT_EQUAL_FATAL(fclose(f), 0);
}

/* The next case of a phase; false where it has no more. */
static bool cut(sw_damage *d)
{
    if (d->cuts == 0 || d->n < d->from + d->next + 1)
        return false;
    d->at = d->n - 1 - d->next;
    d->next += d->cuts;
    d->n_cuts++;
    snprintf(d->what, sizeof d->what, "cut to %zu bytes", d->at);
    CU_ASSERT_EQUAL_FATAL(truncate(d->path, (off_t)d->at), 0);
    return true;
}

static bool change(sw_damage *d, size_t at, const char *what, size_t which, char byte)
{
    d->at = d->from + at;
    if (d->at >= d->n)
        return false;
    d->n_changes++;
    snprintf(d->what, sizeof d->what, "%s %zu of byte %zu", what, which, d->at);
    put_byte(d, byte);
    return true;
}

static bool flip(sw_damage *d)
{
    const size_t at = d->bits > 0 ? d->next / 8 : d->next;
    d->bit = d->next % 8;
    d->next += d->bits > 0 ? d->bits : d->bytes;
    return (d->bits > 0 || d->bytes > 0) && d->from + at < d->n &&
           change(d, at, "bit", d->bit, (char)(d->sound[d->from + at] ^ 1 << d->bit));
}

static bool set(sw_damage *d)
{
    const size_t at = d->n_values > 0 ? d->next / d->n_values : 0,
                 which = d->n_values > 0 ? d->next % d->n_values : 0;
    d->next++;
    return d->n_values > 0 && change(d, at, "value", which, d->values[which]);
}

bool sw_damage_next(sw_damage *d)
{
    static bool (*const phases[])(sw_damage *) = {cut, flip, set};
    if (d->sound == NULL) {
        d->sound = sw_file_text(d->path, &d->n);
        CU_ASSERT_PTR_NOT_NULL_FATAL(d->sound);
    } else if (!d->is_cut) {
        put_byte(d, d->sound[d->at]);
    }
    for (; d->phase < 3; d->phase++, d->next = 0) {
        d->is_cut = d->phase == 0;
        if (phases[d->phase](d))
            return true;
        if (d->is_cut)
            sw_file_put(d->path, d->sound, d->n);
    }
    free(d->sound);
    d->sound = NULL;
    sw_note("%zu cuts and %zu changes of %zu bytes", d->n_cuts, d->n_changes, d->n);
    return false;
}
