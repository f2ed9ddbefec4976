/* The JSON writer. Nothing here calls the heap but a growing buffer that is full. */
#include "alloc/base/assert.h"
#include "profiler/record/json.h"
#include "profiler/record/utf8.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sw_json_fixed(sw_json *j, char *buffer, size_t capacity,
                   sw_status (*drain)(void *context, const char *bytes, size_t n),
                   void *context)
{
    *j = (sw_json){.bytes = buffer, .capacity = capacity, .drain = drain, .context = context};
}

void sw_json_growing(sw_json *j, sw_heap heap)
{
    *j = (sw_json){.grows = true, .heap = heap};
}

void sw_json_free(sw_json *j)
{
    if (j->grows)
        sw_heap_free(j->bytes, j->heap, j->capacity);
    *j = (sw_json){0};
}

/* ---- bytes ------------------------------------------------------------------------------- */

static sw_status reserve(sw_json *j, size_t wanted)
{
    SW_ASSERT(j->status == SW_OK && j->used <= j->capacity);
    if (j->grows) {
        SW_ASSERT(j->grows && j->used <= j->capacity && wanted > 0);
        size_t capacity = j->capacity < 512 ? 512 : j->capacity;
        while (capacity - j->used < wanted) {
            if (capacity > SIZE_MAX / 2)
                SW_FAIL(SW_NOMEM, "json: %zu bytes are too many", wanted);
            capacity *= 2;
        }
        SW_TRY(sw_heap_resize(&j->bytes, j->heap, j->capacity, capacity));
        j->capacity = capacity;
        return SW_OK;
    }
    if (j->drain == NULL)
        SW_FAIL(SW_NOMEM, "json: %zu bytes do not fit a buffer of %zu", j->used + wanted,
                j->capacity);
    const size_t n = j->used;
    j->used = 0;
    return j->drain(j->context, j->bytes, n);
}

static void emit_slowly(sw_json *j, const char *from, size_t n)
{
    while (n > 0 && j->status == SW_OK) {
        size_t part = j->capacity - j->used;
        SW_ASSERT(j->used <= j->capacity);
        if (part == 0) {
            j->status = reserve(j, n);
            continue;
        }
        if (part > n)
            part = n;
        memcpy(j->bytes + j->used, from, part);
        j->used += part;
        from += part;
        n -= part;
    }
}

static inline void emit(sw_json *j, const char *from, size_t n)
{
    SW_ASSERT(j->used <= j->capacity && (j->bytes != NULL || j->capacity == 0));
    if (n > j->capacity - j->used || j->status != SW_OK) {
        emit_slowly(j, from, n);
        return;
    }
    memcpy(j->bytes + j->used, from, n);
    j->used += n;
}

/* ---- structure --------------------------------------------------------------------------- */

static void misuse(sw_json *j, const char *what)
{
    if (j->status == SW_OK)
        j->status = sw_error_set(SW_INVALID, __FILE__, __LINE__, "json: %s", what);
}

/* The new line that was asked for. */
static void break_line(sw_json *j)
{
    uint32_t blanks = j->breaks - 1;
    j->breaks = 0;
    emit(j, "\n", 1);
    for (; blanks > 0; blanks--)
        emit(j, " ", 1);
}

static void comma(sw_json *j)
{
    SW_ASSERT(j->depth <= SW_JSON_DEPTH);
    const uint64_t bit = (uint64_t)1 << j->depth;
    const bool more = j->depth > 0 && (j->nonempty & bit) != 0;
    if (more)
        emit(j, ",", 1);
    if (j->breaks > 0)
        break_line(j);
    else if (more && j->spaced)
        emit(j, " ", 1);
    j->nonempty |= bit;
}

/* Before every value; a value in an object needs its key, others may not have one. */
static bool value(sw_json *j)
{
    if (j->status != SW_OK)
        return false;
    const bool object = j->depth > 0 && (j->arrays >> j->depth & 1) == 0;
    if (object != j->keyed) {
        misuse(j, "a value without its key");
        return false;
    }
    if (!j->keyed)
        comma(j);
    j->keyed = false;
    return true;
}

void sw_json_begin(sw_json *j, char bracket)
{
    SW_ASSERT(bracket == '{' || bracket == '[');
    if (j->depth == SW_JSON_DEPTH)
        misuse(j, "too deep");
    if (!value(j))
        return;
    emit(j, &bracket, 1);
    j->depth++;
    SW_ASSERT(j->depth <= SW_JSON_DEPTH);
    const uint64_t bit = (uint64_t)1 << j->depth;
    j->nonempty &= ~bit;
    j->arrays = bracket == '[' ? j->arrays | bit : j->arrays & ~bit;
}

void sw_json_end(sw_json *j)
{
    if (j->depth == 0 || j->keyed)
        misuse(j, "a bracket closes that is not open, or a key has no value");
    if (j->status != SW_OK)
        return;
    if (j->breaks > 0)
        break_line(j);
    emit(j, (j->arrays >> j->depth & 1) != 0 ? "]" : "}", 1);
    j->depth--;
    SW_ASSERT(!j->keyed);
}

void sw_json_break(sw_json *j, uint32_t indent)
{
    SW_ASSERT(indent < 1000 && !j->keyed);
    j->breaks = indent + 1;
}

void sw_json_line(sw_json *j)
{
    if (j->depth != 0)
        misuse(j, "a line ends inside a value");
    if (j->status == SW_OK)
        emit(j, "\n", 1);
}

/* ---- strings ----------------------------------------------------------------------------- */

/* Nearly all strings are plain ASCII and fit: one pass. Otherwise nothing is done. */
static bool quoted_plain(sw_json *j, const char *text)
{
    if (j->status != SW_OK || j->capacity - j->used < 2)
        return false;
    char *to = j->bytes + j->used;
    const char *last = j->bytes + j->capacity - 1;
    for (*to++ = '"';
         *text >= 0x20 && *text < 0x7f && *text != '"' && *text != '\\' && to < last; text++)
        *to++ = *text;
    if (*text != '\0') /* a loop that ended early left room for the quote */
        return false;
    *to++ = '"';
    j->used = (size_t)(to - j->bytes);
    SW_ASSERT(j->used <= j->capacity);
    return true;
}

static void quoted(sw_json *j, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    if (quoted_plain(j, text))
        return;
    const unsigned char *s = (const unsigned char *)text;
    emit(j, "\"", 1);
    while (*s != '\0') {
        const unsigned char *plain = s;
        size_t n = 0;
        while (*s >= 0x20 && *s != '"' && *s != '\\' && *s != 0x7f &&
               (n = sw_utf8_sequence((const char *)s)) > 0)
            s += n;
        emit(j, (const char *)plain, (size_t)(s - plain));
        if (*s == '\0')
            break;
        const unsigned char c = *s++;
        const char named[] = {'\\', c == '\n'   ? 'n'
                                    : c == '\t' ? 't'
                                    : c == '\r' ? 'r'
                                                : (char)c};
        const char coded[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        if (c >= 0x80)
            emit(j, "\xef\xbf\xbd", 3); /* U+FFFD for each byte that is no UTF-8 */
        else if (c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r')
            emit(j, named, sizeof named);
        else
            emit(j, coded, sizeof coded);
    }
    emit(j, "\"", 1);
}

void sw_json_key(sw_json *j, const char *key)
{
    if (j->keyed || j->depth == 0 || (j->arrays >> j->depth & 1) != 0)
        misuse(j, "a key out of place");
    if (j->status != SW_OK)
        return;
    comma(j);
    quoted(j, key);
    emit(j, ": ", j->spaced ? 2 : 1);
    j->keyed = true;
}

void sw_json_string(sw_json *j, const char *text)
{
    if (text == NULL)
        sw_json_null(j);
    else if (value(j))
        quoted(j, text);
}

/* ---- numbers ----------------------------------------------------------------------------- */

static void digits(sw_json *j, uint64_t x, bool minus)
{
    char text[24];
    size_t at = sizeof text;
    do {
        text[--at] = (char)('0' + x % 10);
        x /= 10;
    } while (x > 0);
    if (minus)
        text[--at] = '-';
    emit(j, text + at, sizeof text - at);
}

void sw_json_u64(sw_json *j, uint64_t x)
{
    if (value(j))
        digits(j, x, false);
}

/* The digits of x at `to`, two at a time; what follows them. */
static char *decimal(char *to, uint32_t x)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    static const uint32_t powers[] = {10,      100,      1000,      10000,     100000,
                                      1000000, 10000000, 100000000, 1000000000};
    size_t n = 1;
    while (n < 10 && x >= powers[n - 1])
        n++;
    char *end = to + n, *at = end;
    for (; x >= 100; x /= 100)
        memcpy(at -= 2, pairs + 2 * (size_t)(x % 100), 2);
    if (x >= 10)
        memcpy(at - 2, pairs + 2 * (size_t)x, 2);
    else
        at[-1] = (char)('0' + x);
    return end;
}

void sw_json_u32s(sw_json *j, const uint32_t *x, size_t n)
{
    enum { LONGEST = 11 }; /* a comma and ten digits */
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || j->status != SW_OK || j->spaced || j->capacity - j->used < LONGEST) {
            sw_json_u64(j, x[i]);
            continue;
        }
        char *to = j->bytes + j->used;
        *to = ',';
        j->used = (size_t)(decimal(to + 1, x[i]) - j->bytes);
    }
}

void sw_json_i64(sw_json *j, int64_t x)
{
    if (value(j))
        digits(j, x < 0 ? 0 - (uint64_t)x : (uint64_t)x, x < 0);
}

/* With as many digits as tell it from all other doubles, or floats where `single`, of which 17
 * or 9 tell all apart; and a point, whatever the radix character of the program's locale is. */
static void real(sw_json *j, double x, bool single)
{
    char text[40];
    if (!isfinite(x)) {
        sw_json_null(j);
        return;
    }
    if (!value(j))
        return;
    int n = 0;
    for (int precision = single ? 1 : 15; precision <= (single ? 9 : 17);
         precision += single ? 1 : 2) {
        n = snprintf(text, sizeof text, "%.*g", precision, x);
        const double read = strtod(text, NULL), back = single ? (double)(float)read : read;
        if (memcmp(&back, &x, sizeof x) == 0)
            break;
    }
    for (int i = 0; i < n; i++)
        if (strchr("0123456789+-e", text[i]) == NULL)
            text[i] = '.';
    emit(j, text, (size_t)n);
}

void sw_json_f64(sw_json *j, double x)
{
    real(j, x, false);
}

void sw_json_f32(sw_json *j, float x)
{
    real(j, (double)x, true);
}

void sw_json_bool(sw_json *j, bool x)
{
    if (value(j))
        emit(j, x ? "true" : "false", x ? 4 : 5);
}

void sw_json_null(sw_json *j)
{
    if (value(j))
        emit(j, "null", 4);
}

/* ---- key and bracket --------------------------------------------------------------------- */

bool sw_json_open_known(sw_json *j, const char *key, bool known)
{
    if (known)
        sw_json_open(j, key, '{');
    else
        sw_json_put_null(j, key);
    return known;
}

void sw_json_open(sw_json *j, const char *key, char bracket)
{
    sw_json_key(j, key);
    sw_json_begin(j, bracket);
}

/* ---- utf8 -------------------------------------------------------------------------------- */

size_t sw_utf8_sequence(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80)
        return 1;
    const size_t n = s[0] >= 0xc2 && s[0] <= 0xdf   ? 2
                     : (s[0] & 0xf0) == 0xe0        ? 3
                     : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                    : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

bool sw_utf8_whole(const char *s)
{
    for (size_t n; *s != '\0'; s += n)
        if ((n = sw_utf8_sequence(s)) == 0)
            return false;
    return true;
}

void sw_utf8_clean(char *to, size_t bytes, const char *from)
{
    size_t used = 0;
    while (*from != '\0') {
        const size_t sequence = sw_utf8_sequence(from), n = sequence > 0 ? sequence : 1;
        if (used + n + 1 > bytes)
            break;
        const unsigned char c = (unsigned char)from[0];
        if (sequence == 0 || c < 0x20 || c == 0x7f ||
            (n == 2 && c == 0xc2 && (unsigned char)from[1] < 0xa0)) /* C0, delete, C1 */
            memset(to + used, '?', n);
        else
            memcpy(to + used, from, n);
        used += n;
        from += n;
    }
    to[used] = '\0';
}
