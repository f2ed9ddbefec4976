/* .npy files and archives of them, byte by byte. */
#include "tests/data/npy_make.h"

bytes npy_raw(int major, const char *dictionary, const void *data, size_t n)
{
    bytes b = {0};
    bytes_put(&b, "\x93NUMPY", 6);
    bytes_byte(&b, major);
    bytes_byte(&b, 0);
    bytes_le(&b, strlen(dictionary), major == 1 ? 2 : 4);
    bytes_put(&b, dictionary, strlen(dictionary));
    bytes_put(&b, data, n);
    return b;
}

bytes npy_make(const char *descr, bool fortran, const char *shape, const void *data, size_t n)
{
    char text[300];
    int length =
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }",
                 descr, fortran ? "True" : "False", shape);
    while ((length + 11) % 64 != 0)
        text[length++] = ' ';
    text[length++] = '\n';
    text[length] = '\0';
    return npy_raw(1, text, data, n);
}

/* ---- archives ---------------------------------------------------------------------------- */

/* Deflate's stored blocks: a byte, the length, its complement, the bytes. */
static bytes deflate_plainly(const bytes *from)
{
    bytes b = {0};
    size_t at = 0;
    do {
        const size_t n = from->n - at < 1000 ? from->n - at : 1000;
        bytes_byte(&b, at + n == from->n);
        bytes_le(&b, n, 2);
        bytes_le(&b, ~n, 2);
        bytes_put(&b, from->at + at, n);
        at += n;
    } while (at < from->n);
    return b;
}

static void put_entry(bytes *to, const zip_entry *f, const bytes *packed, zip_kind kind,
                      bool list, uint64_t header)
{
    const bool wide = kind == ZIP_WIDE;
    bytes_le(to, list ? 0x02014b50 : 0x04034b50, 4);
    if (list)
        bytes_le(to, 45, 2);
    bytes_le(to, wide ? 45 : 20, 2);
    bytes_le(to, 0, 2);
    bytes_le(to, kind == ZIP_DEFLATED ? 8 : 0, 2);
    bytes_le(to, 0x00210000, 4);
    bytes_le(to, crc32_of(f->content.at, f->content.n), 4);
    bytes_le(to, wide ? 0xffffffff : packed->n, 4);
    bytes_le(to, wide ? 0xffffffff : f->content.n, 4);
    bytes_le(to, strlen(f->name), 2);
    bytes_le(to, wide ? (list ? 34 : 20) : 0, 2);
    if (list) {
        bytes_le(to, 0, 8);
        bytes_le(to, 0, 2);
        bytes_le(to, wide ? 0xffffffff : header, 4);
    }
    bytes_put(to, f->name, strlen(f->name));
    if (wide) {
        if (list) { /* a field of somebody else's comes first */
            bytes_le(to, 0x7777, 2);
            bytes_le(to, 2, 2);
            bytes_le(to, 0, 2);
        }
        bytes_le(to, 1, 2);
        bytes_le(to, list ? 24 : 16, 2);
        bytes_le(to, f->content.n, 8);
        bytes_le(to, packed->n, 8);
        if (list)
            bytes_le(to, header, 8);
    }
}

bytes zip_make(const zip_entry *files, int n, zip_kind kind)
{
    static const char comment[] = "made by hand PK\5\6";
    bytes b = {0}, list = {0};
    for (int i = 0; i < n; i++) {
        const bytes copy =
            kind == ZIP_DEFLATED ? deflate_plainly(&files[i].content) : files[i].content;
        put_entry(&list, &files[i], &copy, kind, true, b.n);
        put_entry(&b, &files[i], &copy, kind, false, 0);
        bytes_put(&b, copy.at, copy.n);
    }
    const size_t at = b.n, end = at + list.n;
    const bool wide = kind == ZIP_WIDE;
    bytes_put(&b, list.at, list.n);
    if (wide) {
        bytes_le(&b, 0x06064b50, 4);
        bytes_le(&b, 44, 8);
        bytes_le(&b, 45, 2);
        bytes_le(&b, 45, 2);
        bytes_le(&b, 0, 8);
        bytes_le(&b, (uint64_t)n, 8);
        bytes_le(&b, (uint64_t)n, 8);
        bytes_le(&b, list.n, 8);
        bytes_le(&b, at, 8);
        bytes_le(&b, 0x07064b50, 4);
        bytes_le(&b, 0, 4);
        bytes_le(&b, end, 8);
        bytes_le(&b, 1, 4);
    }
    bytes_le(&b, 0x06054b50, 4);
    bytes_le(&b, 0, 4);
    bytes_le(&b, wide ? 0xffff : (uint64_t)n, 2);
    bytes_le(&b, wide ? 0xffff : (uint64_t)n, 2);
    bytes_le(&b, wide ? 0xffffffff : list.n, 4);
    bytes_le(&b, wide ? 0xffffffff : at, 4);
    bytes_le(&b, kind == ZIP_COMMENT ? sizeof comment - 1 : 0, 2);
    if (kind == ZIP_COMMENT)
        bytes_put(&b, comment, sizeof comment - 1);
    return b;
}
