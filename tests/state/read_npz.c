/* The format, as APPNOTE of zip and NumPy's document of .npy say it. */
#include "tests/state/read_npz.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t at, bytes;
    uint32_t crc;
    char name[84];
} seen;

typedef struct {
    FILE *file;
    uint64_t at;
    uint32_t crc;
    seen *all;
    size_t n, room;
    bool ended;
} reader;

static unsigned char next(reader *r)
{
    const int byte = fgetc(r->file);
    r->ended |= byte == EOF;
    r->at++;
    return (unsigned char)byte;
}

static uint64_t number(reader *r, int bytes)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++)
        x |= (uint64_t)next(r) << 8 * i;
    return x;
}

/* A byte at a time. */
static void add(reader *r, const unsigned char *bytes, size_t n)
{
    static uint32_t table[256];
    for (uint32_t i = 0; table[255] == 0 && i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = (c & 1) != 0 ? c >> 1 ^ 0xedb88320u : c >> 1;
        table[i] = c;
    }
    uint32_t crc = r->crc;
    for (size_t i = 0; i < n; i++)
        crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 255];
    r->crc = crc;
}

/* What stands in both headers, from the version on; NULL where it is good. */
static const char *read_common(reader *r, seen *s, uint64_t *name_bytes, uint64_t *extra)
{
    const uint64_t version = number(r, 2);
    if ((version != 20 && version != 45) || number(r, 2) != 1 << 11 || number(r, 2) != 0)
        return "version, flags, or packed";
    if (number(r, 4) != (uint64_t)(1 << 5 | 1) << 16)
        return "a time";
    s->crc = (uint32_t)number(r, 4);
    s->bytes = number(r, 4);
    if (number(r, 4) != s->bytes)
        return "two sizes";
    *name_bytes = number(r, 2);
    *extra = number(r, 2);
    return *name_bytes < 5 || *name_bytes >= sizeof s->name ? "the name's length" : NULL;
}

static const char *read_name(reader *r, char *name, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        name[i] = (char)next(r);
    name[n] = '\0';
    return strlen(name) == n && strcmp(name + n - 4, ".npy") == 0 ? NULL : "no .npy";
}

static const char *read_local_extra(reader *r, seen *s, uint64_t extra)
{
    bool aligned = false;
    while (extra > 0) {
        const uint64_t id = number(r, 2), n = number(r, 2);
        if (extra < 4 + n)
            return "extra fields end elsewhere";
        extra -= 4 + n;
        if (id == 1) {
            if (n != 16 || s->bytes != UINT32_MAX)
                return "64 bits that are not needed";
            s->bytes = number(r, 8);
            if (number(r, 8) != s->bytes)
                return "two long sizes";
        } else if (id == 0xd935 && n >= 2 && number(r, 2) == 64) {
            for (uint64_t i = 2; i < n; i++)
                if (next(r) != 0)
                    return "the filling";
            aligned = true;
        } else {
            return "an extra field of another kind";
        }
    }
    return aligned ? NULL : "not aligned";
}

/* {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } and spaces */
static const char *read_numpy(reader *r, npz_array *a, uint64_t *left)
{
    static const char magic[] = "\x93NUMPY\x01";
    char text[600];
    if (r->at % 64 != 0)
        return "NumPy's header is not at a multiple of 64";
    unsigned char front[10];
    for (int i = 0; i < 10; i++)
        front[i] = next(r);
    add(r, front, sizeof front);
    const size_t n = front[8] | (size_t)front[9] << 8;
    if (memcmp(front, magic, 8) != 0 || n >= sizeof text || (n + 10) % 64 != 0 ||
        n + 10 > *left)
        return "NumPy's magic, or its length";
    for (size_t i = 0; i < n; i++)
        text[i] = (char)next(r);
    add(r, (const unsigned char *)text, n);
    text[n] = '\0';
    *left -= n + 10;
    int end = 0;
    if (sscanf(text, "{'descr': '%7[^']', 'fortran_order': False, 'shape': %199[^)]%n",
               a->descr, a->shape, &end) != 2 ||
        strncmp(text + end, "), }", 4) != 0)
        return "NumPy's header";
    strcat(a->shape, ")");
    const char *behind = text + end + 4;
    return strspn(behind, " ") + 1 == strlen(behind) && text[n - 1] == '\n' ? NULL
                                                                            : "its filling";
}

static const char *read_local(reader *r, void (*take)(void *, const npz_array *), void *context)
{
    static unsigned char kept[4096];
    npz_array a = {.data = kept};
    uint64_t name, extra;
    if (r->n == r->room)
        r->all = realloc(r->all, (r->room = r->room * 2 + 8) * sizeof *r->all);
    seen *s = &r->all[r->n++];
    *s = (seen){.at = r->at - 4};
    const char *wrong = read_common(r, s, &name, &extra);
    wrong = wrong != NULL ? wrong : read_name(r, s->name, name);
    wrong = wrong != NULL ? wrong : read_local_extra(r, s, extra);
    if (wrong != NULL)
        return wrong;
    r->crc = ~0u;
    uint64_t left = s->bytes;
    wrong = read_numpy(r, &a, &left);
    if (wrong != NULL)
        return wrong;
    snprintf(a.name, sizeof a.name, "%.*s", (int)(name - 4), s->name);
    a.at = r->at;
    a.bytes = left;
    for (uint64_t at = 0; at < left && !r->ended;) {
        static unsigned char piece[65536];
        const size_t n = left - at < sizeof piece ? (size_t)(left - at) : sizeof piece;
        r->ended = fread(piece, 1, n, r->file) != n;
        add(r, piece, n);
        if (at == 0)
            memcpy(kept, piece, n < sizeof kept ? n : sizeof kept);
        at += n;
        r->at += n;
    }
    if (r->ended || ~r->crc != s->crc)
        return "the check of the data";
    take(context, &a);
    return NULL;
}

static const char *read_central(reader *r, const seen *must)
{
    seen s;
    uint64_t name, extra;
    if (number(r, 2) != (3 << 8 | 45))
        return "who made it";
    const char *wrong = read_common(r, &s, &name, &extra);
    if (wrong != NULL)
        return wrong;
    if (number(r, 6) != 0 || number(r, 4) != 0100644u << 16)
        return "comment, disk or mode";
    s.at = number(r, 4);
    wrong = read_name(r, s.name, name);
    if (wrong != NULL)
        return wrong;
    const unsigned needed = (s.bytes == UINT32_MAX ? 16u : 0u) + (s.at == UINT32_MAX ? 8u : 0u);
    if (extra != (needed > 0 ? needed + 4 : 0))
        return "64 bits of the directory";
    if (needed > 0 && (number(r, 2) != 1 || number(r, 2) != needed))
        return "their field";
    if (s.bytes == UINT32_MAX && ((s.bytes = number(r, 8)) != number(r, 8)))
        return "two sizes in the directory";
    s.at = s.at == UINT32_MAX ? number(r, 8) : s.at;
    return s.at == must->at && s.bytes == must->bytes && s.crc == must->crc &&
                   strcmp(s.name, must->name) == 0
               ? NULL
               : "the directory says something else";
}

static const char *read_end_64(reader *r, uint64_t n, uint64_t directory, uint64_t bytes)
{
    const uint64_t here = r->at - 4;
    if (number(r, 8) != 44 || number(r, 2) != (3 << 8 | 45) || number(r, 2) != 45 ||
        number(r, 8) != 0 || number(r, 8) != n || number(r, 8) != n || number(r, 8) != bytes ||
        number(r, 8) != directory)
        return "the long end";
    return number(r, 4) == 0x07064b50 && number(r, 4) == 0 && number(r, 8) == here &&
                   number(r, 4) == 1
               ? NULL
               : "where the long end is";
}

static uint64_t low(uint64_t x, uint64_t ones)
{
    return x < ones ? x : ones;
}

static const char *read_end(reader *r, uint64_t directory, char *comment, size_t room)
{
    const uint64_t bytes = r->at - 4 - directory, n = r->n;
    const bool is_64 = n >= 65535 || bytes >= UINT32_MAX || directory >= UINT32_MAX;
    if (is_64) {
        const char *wrong = read_end_64(r, n, directory, bytes);
        if (wrong != NULL)
            return wrong;
        if (number(r, 4) != 0x06054b50)
            return "no end behind the long end";
    }
    if (number(r, 4) != 0 || number(r, 2) != low(n, 65535) || number(r, 2) != low(n, 65535) ||
        number(r, 4) != low(bytes, UINT32_MAX) || number(r, 4) != low(directory, UINT32_MAX))
        return "the end";
    const uint64_t length = number(r, 2);
    for (uint64_t i = 0; i < length; i++) {
        const char c = (char)next(r);
        if (i + 1 < room)
            comment[i] = c, comment[i + 1] = '\0';
    }
    return r->ended || fgetc(r->file) != EOF ? "it does not end there" : NULL;
}

static const char *read_all(reader *r, void (*take)(void *, const npz_array *), void *context,
                            char *comment, size_t room)
{
    uint64_t mark;
    const char *wrong = NULL;
    while ((mark = number(r, 4)) == 0x04034b50 && wrong == NULL)
        wrong = read_local(r, take, context);
    const uint64_t directory = r->at - 4;
    for (size_t i = 0; i < r->n && wrong == NULL; i++, mark = number(r, 4))
        wrong = mark == 0x02014b50 ? read_central(r, &r->all[i]) : "no directory";
    if (wrong != NULL)
        return wrong;
    if (mark != 0x06054b50 && mark != 0x06064b50)
        return "no end";
    if ((mark == 0x06064b50) !=
        (r->n >= 65535 || r->at - 4 - directory >= UINT32_MAX || directory >= UINT32_MAX))
        return "the kind of end";
    return read_end(r, directory, comment, room);
}

const char *npz_read(FILE *file, void (*take)(void *, const npz_array *), void *context,
                     char *comment, size_t room)
{
    reader r = {.file = file};
    if (room > 0)
        comment[0] = '\0';
    const char *wrong = read_all(&r, take, context, comment, room);
    free(r.all);
    return wrong;
}
