/* Data sets of the caller's own arrays: what is used where it lies, what is copied, and that
 * batches, orders and sums are those of files. */
#include "runtime/data/data_internal.h"
#include "tests/data/data_files.h"
#include "tests/support/heap_sweep.h"
#include <float.h>

SW_TESTS("arrays")

#define ROWS 37

static sw_dataset *make(int64_t n, const sw_samples *fields, int n_fields,
                        const sw_arrays_opts *opts)
{
    sw_dataset *d = NULL;
    return data_made(sw_dataset_arrays(&d, n, fields, n_fields, opts), &d);
}

static uint64_t hash_of(const sw_dataset *set)
{
    uint64_t hash = 0;
    OK(sw_dataset_hash(set, &hash));
    return hash;
}

/* ---- what becomes of each type ----------------------------------------------------------- */

static unsigned char memory[ROWS * 3 * 8 + 8];

/* The numbers of `type` that are 0 to 99, at an address that is not aligned. */
static const void *fill_memory(sw_number type)
{
    unsigned char *at = memory + 1;
    for (int i = 0; i < ROWS * 3; i++) {
        const int x = type == SW_NUMBER_BOOL ? i * i % 3 % 2 : i * 7 % 100;
        const float f32 = (float)x;
        const double f64 = x;
        const int64_t i64 = x; /* little-endian machines: any width begins so */
        const void *from = type == SW_NUMBER_F32   ? (const void *)&f32
                           : type == SW_NUMBER_F64 ? (const void *)&f64
                                                   : (const void *)&i64;
        static const size_t width[] = {4, 8, 1, 1, 1, 2, 2, 4, 4, 8, 8};
        memcpy(at, from, width[type]);
        at += width[type];
    }
    return memory + 1;
}

static double element(const swi_field *field, size_t sample, size_t i)
{
    const unsigned char *at =
        swi_sample_at(field, sample, 0) + i * sw_dtype_bytes(field->dtype);
    float f32;
    uint16_t u16;
    int32_t i32;
    switch (field->dtype) {
    case SW_U8:
        return *at;
    case SW_U16:
        memcpy(&u16, at, sizeof u16);
        return u16;
    case SW_I32:
        memcpy(&i32, at, sizeof i32);
        return i32;
    default:
        memcpy(&f32, at, sizeof f32);
        return (double)f32;
    }
}

SW_TEST("every type has its numbers")
{
    static const sw_dtype becomes[] = {SW_F32, SW_F32, SW_U8,  SW_U8,  SW_U8, SW_U16,
                                       SW_U16, SW_I32, SW_I32, SW_I32, SW_I32};
    static const bool stays[] = {true, false, true, true,  true, true,
                                 true, true,  true, false, false};
    for (int type = SW_NUMBER_F32; type <= SW_NUMBER_I64; type++)
        for (int scaled = 0; scaled < 2; scaled++) {
            const sw_samples x = {.data = fill_memory((sw_number)type),
                                  .type = (sw_number)type,
                                  .shape = SW_SHAPE(3),
                                  .scale = scaled ? 0.5f : 0.0f,
                                  .shift = scaled ? -3.0f : 0.0f};
            const sw_dataset *d = make(ROWS, &x, 1, NULL);
            const sw_dataset_info info = data_info(d);
            const bool here = stays[type] && !scaled;
            int wrong = 0;
            CU_ASSERT(info.n == ROWS && info.n_fields == 1 && info.n_classes == 0);
            CU_ASSERT_EQUAL(info.field[0].dtype, scaled ? SW_F32 : becomes[type]);
            SW_CHECK((info.field[0].data == x.data) == here && (info.bytes == 0) == here,
                     "type %d, scaled %d: %zu bytes", type, scaled, info.bytes);
            for (int i = 0; i < ROWS * 3; i++) {
                const double plain = type == SW_NUMBER_BOOL ? i * i % 3 % 2 : i * 7 % 100;
                wrong += element(&d->field[0], (size_t)i / 3, (size_t)i % 3) !=
                         (scaled ? plain * 0.5 - 3.0 : plain);
            }
            SW_CHECK(wrong == 0, "type %d, scaled %d: %d wrong", type, scaled, wrong);
        }
}

/* True is anything but 0, and becomes 1. */
SW_TEST("true is one")
{
    static const unsigned char odd[] = {0, 1, 2, 255};
    const sw_samples x = {.data = odd, .type = SW_NUMBER_BOOL};
    const sw_dataset *d = make(4, &x, 1, NULL);
    CU_ASSERT_PTR_NOT_EQUAL(data_info(d).field[0].data, odd);
    for (size_t i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(element(&d->field[0], i, 0), i > 0 ? 1.0 : 0.0);
}

/* ---- layouts ----------------------------------------------------------------------------- */

typedef struct {
    short before;
    float x[4];
    int32_t class;
    double after;
} record;

static record records[ROWS];

static void fill_records(void)
{
    for (int i = 0; i < ROWS; i++) {
        records[i].class = i * 5 % 7;
        for (int k = 0; k < 4; k++)
            records[i].x[k] = (float)(i * 4 + k) * 0.25f;
    }
}

/* An array of structs is used where it lies; what lies side by side has the same sum. */
SW_TEST("structs are used where they lie")
{
    static float x[ROWS][4];
    static int32_t y[ROWS];
    fill_records();
    for (int i = 0; i < ROWS; i++) {
        memcpy(x[i], records[i].x, sizeof x[i]);
        y[i] = records[i].class;
    }
    const sw_samples apart[] = {
        {.data = records[0].x,
         .type = SW_NUMBER_F32,
         .shape = SW_SHAPE(4),
         .strides = {sizeof(record), sizeof(float)}},
        {.data = &records[0].class, .type = SW_NUMBER_I32, .strides = {sizeof(record)}}};
    const sw_samples beside[] = {{.data = x, .type = SW_NUMBER_F32, .shape = SW_SHAPE(4)},
                                 {.data = y, .type = SW_NUMBER_I32}};
    const sw_dataset *a = make(ROWS, apart, 2, NULL), *b = make(ROWS, beside, 2, NULL);
    CU_ASSERT(data_info(a).bytes == 0 && data_info(b).bytes == 0);
    CU_ASSERT_PTR_EQUAL(data_info(a).field[0].data, records[0].x);
    CU_ASSERT_EQUAL(data_info(a).n_classes, 7);
    CU_ASSERT_EQUAL(hash_of(a), hash_of(b));
    records[5].x[2] += 1.0f; /* the same memory: seen at once */
    CU_ASSERT_NOT_EQUAL(hash_of(a), hash_of(b));
}

/* Strides inside of a sample, and backwards: copied in the order of the axes. */
SW_TEST("other orders are copied")
{
    static uint8_t image[5][4][6][3]; /* n, rows, columns, channels */
    unsigned char *flat = &image[0][0][0][0];
    int wrong = 0;
    for (size_t i = 0; i < sizeof image; i++)
        flat[i] = (unsigned char)(i * 31 + i / 7);
    const sw_samples planes = SW_INIT(.data = image, .type = SW_NUMBER_U8,
                                      .shape = SW_SHAPE(3, 4, 6), .strides = {72, 1, 18, 3});
    const sw_samples turned = {.data = &image[4][3][5][2],
                               .type = SW_NUMBER_U8,
                               .shape = SW_SHAPE(4, 6, 3),
                               .strides = {-72, -18, -3, -1}};
    const sw_samples reversed = SW_INIT(.data = image[4], .type = SW_NUMBER_U8,
                                        .shape = SW_SHAPE(4, 6, 3), .strides = {-72, 18, 3, 1});
    const sw_dataset *d = make(5, &planes, 1, NULL), *e = make(5, &turned, 1, NULL),
                     *f = make(5, &reversed, 1, NULL);
    CU_ASSERT(data_info(d).bytes == sizeof image && data_info(e).bytes == sizeof image);
    CU_ASSERT_EQUAL(data_info(f).bytes, 0); /* samples may follow each other as they like */
    for (size_t n = 0; n < 5; n++)
        for (size_t r = 0; r < 4; r++)
            for (size_t k = 0; k < 6; k++)
                for (size_t c = 0; c < 3; c++) {
                    const size_t plane = (c * 4 + r) * 6 + k, pixel = (r * 6 + k) * 3 + c;
                    wrong += element(&d->field[0], n, plane) != image[n][r][k][c];
                    wrong += element(&e->field[0], 4 - n, 71 - pixel) != image[n][r][k][c];
                    wrong += element(&f->field[0], 4 - n, pixel) != image[n][r][k][c];
                }
    SW_CHECK(wrong == 0, "%d pixels", wrong);
}

/* ---- classes and ids --------------------------------------------------------------------- */

SW_TEST("classes are counted and narrowed")
{
    static float x[4];
    int64_t y[4] = {0, 2, 1, 0};
    static const struct {
        int64_t largest, n_classes;
        sw_dtype dtype;
    } cases[] = {{2, 0, SW_U8},      {255, 0, SW_U8},    {256, 0, SW_U16},
                 {65535, 0, SW_U16}, {65536, 0, SW_I32}, {2, 256, SW_U8},
                 {2, 257, SW_U16},   {2, 65537, SW_I32}, {INT32_MAX - 1, 0, SW_I32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        y[1] = cases[i].largest;
        const sw_samples fields[] = {{.data = x, .type = SW_NUMBER_F32},
                                     {.data = y, .type = SW_NUMBER_I64}};
        const sw_arrays_opts opts = SW_OPTS(sw_arrays_opts, .n_classes = cases[i].n_classes);
        const sw_dataset *d = make(4, fields, 2, &opts);
        const int64_t n = cases[i].n_classes > 0 ? cases[i].n_classes : cases[i].largest + 1;
        SW_CHECK(data_info(d).n_classes == n && data_info(d).field[1].dtype == cases[i].dtype,
                 "%lld: %lld classes", (long long)cases[i].largest,
                 (long long)data_info(d).n_classes);
        CU_ASSERT_EQUAL(element(&d->field[1], 1, 0), (double)cases[i].largest);
    }
}

SW_TEST("names of classes are copied")
{
    static const unsigned char y[3] = {1, 0, 1}, x[3] = {0};
    char cat[] = "cat", dog[] = "dog";
    const char *names[] = {cat, dog};
    const sw_samples fields[] = {{.data = x, .type = SW_NUMBER_U8},
                                 {.data = y, .type = SW_NUMBER_U8}};
    const sw_arrays_opts opts =
        SW_OPTS(sw_arrays_opts, .name = "pets", .n_classes = 2, .class_names = names);
    const sw_dataset *d = make(3, fields, 2, &opts);
    cat[0] = dog[0] = '?';
    CU_ASSERT_STRING_EQUAL(data_info(d).class_names[0], "cat");
    CU_ASSERT_STRING_EQUAL(data_info(d).class_names[1], "dog");
    CU_ASSERT_STRING_EQUAL(data_info(d).name, "pets");
}

/* ---- the same as from files -------------------------------------------------------------- */

static void same_batches(const sw_dataset *a, const sw_dataset *b, bool shuffle, bool keyed)
{
    const sw_dataset *of[2] = {a, b};
    const sw_loader_opts o =
        SW_OPTS(sw_loader_opts, .batch = 7, .seed = 9, .shuffle = shuffle, .keyed = keyed);
    const sw_array *in[2];
    sw_loader *l[2];
    int n[2] = {1, 1}, batches = 0;
    for (int i = 0; i < 2; i++) {
        l[i] = data_loader(of[i], o);
        OK(sw_loader_epoch(l[i], 3));
    }
    if (shuffle)
        CU_ASSERT_EQUAL(sw_loader_bytes(l[0]), sw_loader_bytes(l[1]));
    for (; n[0] > 0; batches++) {
        for (int i = 0; i < 2; i++)
            OK(sw_loader_next(l[i], &in[i], &n[i]));
        CU_ASSERT_EQUAL_FATAL(n[0], n[1]);
        for (int f = 0; f < n[0]; f++) {
            const int64_t rows = in[0][f].shape.dim[0];
            CU_ASSERT(rows == in[1][f].shape.dim[0] && in[0][f].dtype == in[1][f].dtype);
            CU_ASSERT(memcmp(in[0][f].data, in[1][f].data,
                             (size_t)rows * a->field[f].sample_bytes) == 0);
        }
    }
    CU_ASSERT_EQUAL(batches, (int)((a->n + 6) / 7) + 1);
}

/* Hash, batches, parts and moments. */
static void as_the_file(const sw_dataset *file, const sw_dataset *own)
{
    sw_dataset *a[2], *b[2];
    float m[2], s[2];
    CU_ASSERT_EQUAL(hash_of(file), hash_of(own));
    for (int how = 0; how < 3; how++)
        same_batches(file, own, how > 0, how > 1);
    OK(sw_dataset_split(&a[0], &a[1], file, 20, 3));
    OK(sw_dataset_split(&b[0], &b[1], own, 20, 3));
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(hash_of(a[i]), hash_of(b[i]));
        CU_ASSERT(data_info(b[i]).bytes > 0); /* copies */
        sw_dataset_destroy(a[i]);
        sw_dataset_destroy(b[i]);
    }
    OK(sw_dataset_moments(file, 0, 1, &m[0], &s[0]));
    OK(sw_dataset_moments(own, 0, 1, &m[1], &s[1]));
    CU_ASSERT(m[0] == m[1] && s[0] == s[1]);
}

SW_TEST("orders, hashes and parts are those of files")
{
    const sw_dataset *file = data_digits(100, 4);
    const sw_dataset_info info = data_info(file);
    const sw_samples fields[] = {
        {.data = info.field[0].data, .type = SW_NUMBER_U8, .shape = SW_SHAPE(1, 28, 28)},
        {.data = info.field[1].data, .type = SW_NUMBER_U8}};
    const sw_dataset *own = make(100, fields, 2, NULL);
    as_the_file(file, own);
}

/* Samples that lie apart go through loaders, feeds and splits like others. */
SW_TEST("samples that lie apart give the same batches")
{
    static unsigned char room[100][900];
    const sw_dataset *file = data_digits(100, 4);
    const sw_dataset_info info = data_info(file);
    for (int i = 0; i < 100; i++) {
        memcpy(room[i] + 3, (const char *)info.field[0].data + i * 784, 784);
        room[i][880] = ((const unsigned char *)info.field[1].data)[i];
    }
    const sw_samples fields[] = {
        {.data = room[0] + 3,
         .type = SW_NUMBER_U8,
         .shape = SW_SHAPE(1, 28, 28),
         .strides = {900, 784, 28, 1}},
        {.data = room[0] + 880, .type = SW_NUMBER_U8, .strides = {900}}};
    const sw_dataset *own = make(100, fields, 2, NULL);
    CU_ASSERT_EQUAL(data_info(own).bytes, 0);
    as_the_file(file, own);
}

/* Windows of tokens are those that a text of the same bytes has, whatever a token's width. */
SW_TEST("tokens are windows")
{
    enum { N = 1000, CONTEXT = 13 };
    static unsigned char text[N];
    static uint16_t u16[N];
    static int32_t i32[N];
    static int64_t i64[N];
    bytes content = {0};
    for (int i = 0; i < N; i++) {
        text[i] = (unsigned char)(i * i % 251);
        i64[i] = i32[i] = u16[i] = text[i];
    }
    bytes_put(&content, text, N);
    dir_new();
    dir_put("text", content);
    sw_dataset *file = NULL;
    const sw_text_opts read = SW_OPTS(sw_text_opts, .context = CONTEXT);
    data_made(sw_dataset_text(&file, NULL, dir_file("text"), &read), &file);
    const sw_arrays_opts opts = SW_OPTS(sw_arrays_opts, .n_classes = 256, .context = CONTEXT);
    const sw_samples same = {.data = text, .type = SW_NUMBER_U8};
    sw_dataset *own = make(N, &same, 1, &opts);
    CU_ASSERT(data_info(own).bytes == 0 && hash_of(own) == hash_of(file));
    for (int how = 0; how < 3; how++)
        same_batches(file, own, how > 0, how > 1);
    const struct {
        sw_samples row;
        sw_dtype dtype;
        size_t bytes;
    } cases[] = {{{.data = u16, .type = SW_NUMBER_U16}, SW_U16, 0},
                 {{.data = i32, .type = SW_NUMBER_I32}, SW_I32, 0},
                 {{.data = i64, .type = SW_NUMBER_I64}, SW_U8, N},
                 {{.data = i64, .type = SW_NUMBER_U8, .strides = {8}}, SW_U8, N}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sw_dataset *d = make(N, &cases[i].row, 1, &opts);
        const sw_loader_opts o = SW_OPTS(sw_loader_opts, .batch = 5, .seed = 2, .shuffle = 1);
        const sw_array *a, *b;
        sw_loader *l[] = {data_loader(file, o), data_loader(d, o)};
        int n = 0, wrong = 0;
        CU_ASSERT(data_info(d).n == data_info(file).n && d->places == file->places);
        CU_ASSERT(data_info(d).field[0].dtype == cases[i].dtype);
        CU_ASSERT_EQUAL(data_info(d).bytes, cases[i].bytes);
        for (uint64_t epoch = 0; epoch < 6; epoch++) { /* begins elsewhere in each */
            OK(sw_loader_epoch(l[0], epoch));
            OK(sw_loader_epoch(l[1], epoch));
            for (;;) {
                OK(sw_loader_next(l[0], &a, &n));
                OK(sw_loader_next(l[1], &b, &n));
                if (n == 0)
                    break;
                for (int f = 0; f < n; f++)
                    for (int64_t k = 0; k < a[f].shape.dim[0] * CONTEXT; k++) {
                        const void *at = b[f].data;
                        const int x = cases[i].dtype == SW_U16 ? ((const uint16_t *)at)[k]
                                      : cases[i].dtype == SW_I32
                                          ? ((const int32_t *)at)[k]
                                          : ((const unsigned char *)at)[k];
                        wrong += x != ((const unsigned char *)a[f].data)[k];
                    }
            }
        }
        SW_CHECK(wrong == 0, "case %zu: %d tokens", i, wrong);
    }
}

/* A loader goes on when the data set is destroyed, and the memory is the caller's again with
 * the loader. */
SW_TEST("loaders outlive the data set")
{
    fill_records();
    const sw_samples x = {
        .data = &records[0].class, .type = SW_NUMBER_I32, .strides = {sizeof(record)}};
    const heap_watch then = heap_now();
    sw_dataset *d = NULL;
    sw_loader *l = NULL;
    const sw_array *in = NULL;
    int n = 0;
    OK(sw_dataset_arrays(&d, ROWS, &x, 1, NULL));
    OK(sw_loader_create(&l, d, &SW_OPTS(sw_loader_opts, .batch = ROWS, .inline_fill = 1)));
    sw_dataset_destroy(d);
    OK(sw_loader_epoch(l, 0));
    OK(sw_loader_next(l, &in, &n));
    CU_ASSERT_FATAL(n == 1 && in != NULL);
    for (int i = 0; i < ROWS; i++)
        CU_ASSERT_EQUAL(((const int32_t *)in[0].data)[i], records[i].class);
    sw_loader_destroy(l);
    CHECK_NO_LEAK(then);
}

/* ---- what is refused --------------------------------------------------------------------- */

static void refused(int64_t n, const sw_samples *fields, int n_fields,
                    const sw_arrays_opts *opts, sw_status status, const char *part)
{
    sw_dataset *out = (sw_dataset *)(uintptr_t)records, *untouched = out;
    const heap_watch then = heap_now();
    CU_ASSERT(failed_as(sw_dataset_arrays(&out, n, fields, n_fields, opts), status, part));
    CU_ASSERT_PTR_EQUAL(out, untouched);
    CHECK_NO_LEAK(then);
}

SW_TEST("arguments are checked")
{
    static float x[12];
    static const unsigned char y[4] = {0, 1, 2, 0};
    const sw_samples good = {.data = x, .type = SW_NUMBER_F32, .shape = SW_SHAPE(3)};
    sw_samples bad = good;
    const sw_samples classes = {.data = y, .type = SW_NUMBER_U8};
    sw_arrays_opts o = SW_OPTS(sw_arrays_opts);
    refused(4, NULL, 1, NULL, SW_INVALID, "1 to 4 fields (got 0)");
    refused(4, &good, 0, NULL, SW_INVALID, "1 to 4 fields (got 0)");
    refused(4, &good, 5, NULL, SW_INVALID, "1 to 4 fields (got 5)");
    refused(0, &good, 1, NULL, SW_INVALID, "n must be 1 to 4294967295 (got 0)");
    refused(-1, &good, 1, NULL, SW_INVALID, "(got -1)");
    refused((int64_t)1 << 32, &good, 1, NULL, SW_INVALID, "(got 4294967296)");
    bad.data = NULL;
    refused(4, &bad, 1, NULL, SW_INVALID, "field 0 has no data");
    bad = good, bad.type = (sw_number)99;
    refused(4, &bad, 1, NULL, SW_INVALID, "must be an sw_number (got 99)");
    bad = good, bad.shape.rank = SW_MAX_RANK;
    refused(4, &bad, 1, NULL, SW_INVALID, "must have 0 to 7 axes (got 8)");
    bad.shape.rank = -1;
    refused(4, &bad, 1, NULL, SW_INVALID, "axes (got -1)");
    bad = good, bad.shape = SW_SHAPE(3, 0);
    refused(4, &bad, 1, NULL, SW_INVALID, "axis 1 of field 0 must be at least 1 (got 0)");
    bad.shape = SW_SHAPE(INT64_MAX, 4);
    refused(4, &bad, 1, NULL, SW_NOMEM, "overflow");
    bad.shape = SW_SHAPE(INT64_MAX / 16);
    refused(UINT32_MAX, &bad, 1, NULL, SW_NOMEM, "overflow");
    bad = good, bad.strides[0] = INT64_MAX / 2;
    refused(4, &bad, 1, NULL, SW_INVALID, "strides of field 0 overflow");
    bad.strides[0] = INT64_MIN;
    refused(4, &bad, 1, NULL, SW_INVALID, "strides of field 0 overflow");
    refused(2, &bad, 1, NULL, SW_INVALID, "strides of field 0 overflow");
    bad = good, bad.scale = INFINITY;
    refused(4, &bad, 1, NULL, SW_INVALID, "must be finite");
    bad.scale = 0.0f, bad.shift = 1.0f;
    refused(4, &bad, 1, NULL, SW_INVALID, "no effect without a scale");
    const sw_samples both[] = {good, classes};
    o.n_classes = -1;
    refused(4, both, 2, &o, SW_INVALID, "n_classes must be 0 to 2147483647 (got -1)");
    o.n_classes = 3;
    refused(4, &good, 1, &o, SW_INVALID, "n_classes has no effect");
    o.n_classes = 0, o.class_names = (const char *const[]){"a", NULL, "c"};
    refused(4, both, 2, &o, SW_INVALID, "n_classes must say how many");
    o.n_classes = 3;
    refused(4, both, 2, &o, SW_INVALID, "class_names[1] must not be NULL");
    o = SW_OPTS(sw_arrays_opts, .context = -2);
    refused(4, &classes, 1, &o, SW_INVALID, "(got -2)");
    o.context = 4;
    refused(4, &classes, 1, &o, SW_INVALID, "at least 5 tokens (got 4)");
    refused(4, both, 2, &o, SW_INVALID, "there must be one field");
    refused(4, &good, 1, &o, SW_INVALID, "there must be one field");
    o.size = 3;
    refused(4, &classes, 1, &o, SW_INVALID, "size");
}

/* An error names its sample, wherever it lies and whatever becomes of it. */
SW_TEST("numbers are checked")
{
    static float x[ROWS][4];
    static double d[ROWS];
    static int64_t y[ROWS];
    static int8_t small[ROWS];
    static uint64_t large[ROWS];
    static uint16_t ids[ROWS][2], next[ROWS][2];
    sw_arrays_opts o = SW_OPTS(sw_arrays_opts, .n_classes = 10);
    sw_samples f[] = {{.data = x, .type = SW_NUMBER_F32, .shape = SW_SHAPE(4)},
                      {.data = y, .type = SW_NUMBER_I64}};
    x[17][2] = NAN;
    refused(ROWS, f, 2, NULL, SW_INVALID,
            "number 2 in field 0 of sample 17 must be finite (got nan)");
    x[17][2] = -INFINITY;
    refused(ROWS, f, 2, NULL, SW_INVALID, "must be finite (got -inf)");
    f[0].strides[0] = 16, f[0].strides[1] = 4;
    refused(ROWS, f, 2, NULL, SW_INVALID, "number 2 in field 0 of sample 17");
    f[0].scale = 2.0f;
    refused(ROWS, f, 2, NULL, SW_INVALID, "number 2 in field 0 of sample 17");
    x[17][2] = FLT_MAX;
    refused(ROWS, f, 2, NULL, SW_INVALID, "must be finite as f32 (got 3.40282e+38)");
    f[0].scale = 0.0f;
    y[36] = 10;
    refused(ROWS, f, 2, &o, SW_INVALID, "field 1 of sample 36 must be 0 to 9 (got 10)");
    y[36] = -1;
    refused(ROWS, f, 2, NULL, SW_INVALID, "field 1 of sample 36 must be 0 to 2147483646");
    y[36] = INT32_MAX;
    refused(ROWS, f, 2, NULL, SW_INVALID, "(got 2147483647)");
    f[1] = (sw_samples){.data = small, .type = SW_NUMBER_I8};
    small[3] = -4;
    refused(ROWS, f, 2, NULL, SW_INVALID, "field 1 of sample 3 must be 0 to 255 (got -4)");
    f[1] = (sw_samples){.data = large, .type = SW_NUMBER_U64};
    large[9] = UINT64_MAX;
    refused(ROWS, f, 2, NULL, SW_INVALID, "sample 9 must be 0 to 2147483646 (got 184467440737");
    f[1] = (sw_samples){.data = d, .type = SW_NUMBER_F64};
    d[1] = 1e39;
    refused(ROWS, f, 2, NULL, SW_INVALID, "sample 1 must be finite as f32 (got 1e+39)");
    ids[8][1] = 10;
    f[0] = (sw_samples){.data = ids, .type = SW_NUMBER_U16, .shape = SW_SHAPE(2)};
    f[1] = (sw_samples){.data = next, .type = SW_NUMBER_U16, .shape = SW_SHAPE(2)};
    refused(ROWS, f, 2, &o, SW_INVALID, "number 1 in field 0 of sample 8 must be 0 to 9");
    CU_ASSERT_EQUAL(data_info(make(ROWS, f, 2, NULL)).n_classes, 11);
    o.context = 3;
    f[0].shape = SW_SCALAR;
    refused(ROWS, f, 1, &o, SW_INVALID, "field 0 of sample 17 must be 0 to 9 (got 10)");
}

static sw_status make_and_drop(void *unused)
{
    static int64_t y[6] = {0, 1, 0, 1, 1, 0};
    static double x[6][2];
    const sw_samples fields[] = {{.data = x, .type = SW_NUMBER_F64, .shape = SW_SHAPE(2)},
                                 {.data = y, .type = SW_NUMBER_I64}};
    const char *const names[] = {"a", "b"};
    const sw_arrays_opts o = SW_OPTS(sw_arrays_opts, .n_classes = 2, .class_names = names);
    sw_dataset *d = NULL;
    SW_TRY(sw_dataset_arrays(&d, 6, fields, 2, &o));
    sw_dataset_destroy(d);
    return SW_OK;
}

SW_TEST("failures leave nothing")
{
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, make_and_drop, NULL) >= 5);
}
