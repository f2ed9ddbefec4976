/* Arrays of NumPy in files: what each becomes, and that no header does harm. */
#include "runtime/data/data_internal.h"
#include "tests/data/npy_make.h"
#include "tests/support/files.h"

SW_TESTS("npy")

#define N 12

static char path[1100];
static sw_npy_opts opts;

static void put(const char *name, bytes content)
{
    dir_put(name, content);
}

static void use(const char *x, const char *y)
{
    snprintf(path, sizeof path, "%s/%s,%s/%s", dir_name(), x, dir_name(), y);
}

static sw_status read_parts(sw_dataset *part[2])
{
    return sw_dataset_npy(&part[0], &part[1], path, &opts);
}

static sw_status read_whole(sw_dataset *part[2])
{
    return sw_dataset_npy(&part[0], NULL, path, &opts);
}

/* x.npy (N, 2) F32 of 0, 1, 2..., y.npy (N) I64 of 0, 1, 2, 0... */
static void new_scene(void)
{
    float x[2 * N];
    int64_t y[N];
    for (int i = 0; i < 2 * N; i++)
        x[i] = (float)i;
    for (int i = 0; i < N; i++)
        y[i] = i % 3;
    dir_new();
    opts = SW_OPTS(sw_npy_opts);
    put("x.npy", npy_make("<f4", false, "12, 2", x, sizeof x));
    put("y.npy", npy_make("<i8", false, "12,", y, sizeof y));
    use("x.npy", "y.npy");
}

static double element(const sw_dataset *d, int f, size_t sample, size_t i)
{
    const swi_field *field = &d->field[f];
    const unsigned char *at =
        field->data + sample * field->sample_bytes + i * sw_dtype_bytes(field->dtype);
    float f32;
    uint16_t u16;
    int32_t i32;
    memcpy(&u16, at, field->dtype == SW_U16 ? sizeof u16 : 0);
    if (field->dtype == SW_U8 || field->dtype == SW_U16)
        return field->dtype == SW_U8 ? *at : u16;
    memcpy(&i32, at, sizeof i32);
    memcpy(&f32, at, sizeof f32);
    return field->dtype == SW_I32 ? (double)i32 : (double)f32;
}

/* ---- types and shapes -------------------------------------------------------------------- */

static const struct {
    const char *descr;
    size_t bytes;
    sw_dtype input, classes;
} types[] = {{"<f4", 4, SW_F32, SW_F32}, {"<f8", 8, SW_F32, SW_F32}, {"|u1", 1, SW_U8, SW_U8},
             {"|i1", 1, SW_F32, SW_U8},  {"|b1", 1, SW_F32, SW_U8},  {"<u2", 2, SW_F32, SW_U16},
             {"<i2", 2, SW_F32, SW_U16}, {"<u4", 4, SW_F32, SW_U8},  {"<i4", 4, SW_F32, SW_U8},
             {"<u8", 8, SW_F32, SW_U8},  {"<i8", 8, SW_F32, SW_U8}};

/* Numbers 0, 1, 0, 1 of a type, as it writes them. */
static void numbers(size_t t, unsigned char *to, int n)
{
    for (int i = 0; i < n; i++) {
        const int64_t whole = i % 2;
        const float f32 = (float)whole;
        const double f64 = (double)whole;
        const void *from = t == 0 ? (const void *)&f32 : t == 1 ? (const void *)&f64 : &whole;
        memcpy(to + (size_t)i * types[t].bytes, from, types[t].bytes);
    }
}

SW_TEST("every type is read")
{
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int as_target = 0; as_target < 2; as_target++) {
            unsigned char data[N * 2 * 8];
            new_scene();
            numbers(t, data, N * 2);
            const size_t width = types[t].bytes;
            if (as_target)
                put("t.npy", npy_make(types[t].descr, false, "12,", data, N * width));
            else
                put("t.npy", npy_make(types[t].descr, false, "12, 2", data, N * 2 * width));
            use(as_target ? "x.npy" : "t.npy", as_target ? "t.npy" : "y.npy");
            CU_ASSERT_FATAL(data_read_both(read_whole, sets));
            const sw_dtype wanted = as_target ? types[t].classes : types[t].input;
            SW_CHECK(sets[0]->field[as_target].dtype == wanted, "%s, %d", types[t].descr,
                     as_target);
            CU_ASSERT_EQUAL(sets[0]->n_classes, as_target ? (wanted == SW_F32 ? 0 : 2) : 3);
            for (size_t i = 0; i < (as_target ? N : 2 * N); i++)
                CU_ASSERT_EQUAL(as_target ? element(sets[0], 1, i, 0)
                                          : element(sets[0], 0, i / 2, i % 2),
                                (double)(i % 2));
        }
}

SW_TEST("headers of all versions are read")
{
    static const char *const dictionaries[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (12, 2), }          \n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (12, 2)}",
        "{\"shape\":(12,2,),\"descr\":\"<f4\",\"fortran_order\":False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (12L, 2L), }\n",
        "  {  'fortran_order' : False , 'shape' : ( 12 , 2 ) , 'descr' : '<f4' }  "};
    const float x[2 * N] = {0};
    for (size_t i = 0; i < sizeof dictionaries / sizeof *dictionaries; i++)
        for (int major = 1; major <= 3; major++) {
            new_scene();
            put("x.npy", npy_raw(major, dictionaries[i], x, sizeof x));
            SW_CHECK(data_read_both(read_parts, sets), "%zu, version %d", i, major);
        }
}

/* (n, rows, columns, channels) in C and Fortran order, and the shapes that images have. */
SW_TEST("layouts become those of images")
{
    enum { ROWS = 5, COLS = 6 };
    static unsigned char c_order[N * ROWS * COLS * 3], f_order[sizeof c_order];
    for (size_t n = 0, at = 0; n < N; n++)
        for (size_t r = 0; r < ROWS; r++)
            for (size_t k = 0; k < COLS; k++)
                for (size_t c = 0; c < 3; c++, at++) {
                    c_order[at] = (unsigned char)(at * 7 + at / 251);
                    f_order[n + N * (r + ROWS * (k + COLS * c))] = c_order[at];
                }
    for (int fortran = 0; fortran < 2; fortran++) {
        const void *data = fortran ? f_order : c_order;
        int wrong = 0;
        new_scene();
        put("i.npy", npy_make("|u1", fortran, "12, 5, 6, 3", data, sizeof c_order));
        use("i.npy", "y.npy");
        CU_ASSERT_FATAL(data_read_both(read_parts, sets));
        const sw_shape *s = &sets[0]->field[0].shape;
        CU_ASSERT(s->rank == 3 && s->dim[0] == 3 && s->dim[1] == ROWS && s->dim[2] == COLS);
        CU_ASSERT_FATAL(data_read_both(read_whole, sets));
        for (size_t n = 0, at = 0; n < N; n++)
            for (size_t p = 0; p < ROWS * COLS; p++)
                for (size_t c = 0; c < 3; c++, at++)
                    wrong += element(sets[0], 0, n, c * ROWS * COLS + p) != c_order[at];
        SW_CHECK(wrong == 0, "fortran %d: %d pixels", fortran, wrong);
    }
    static const struct {
        const char *shape;
        sw_shape becomes;
    } shapes[] = {{"12, 30, 3", {3, {1, 30, 3}}},    {"12, 3, 5, 6", {3, {3, 5, 6}}},
                  {"12, 3, 10, 3", {3, {3, 10, 3}}}, {"12, 90", {1, {90}}},
                  {"12, 15, 6, 1", {3, {1, 15, 6}}}, {"12, 2, 3, 5, 3", {4, {2, 3, 5, 3}}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        new_scene();
        put("i.npy", npy_make("|u1", false, shapes[i].shape, c_order, N * 90));
        use("i.npy", "y.npy");
        CU_ASSERT_FATAL(data_read_both(read_whole, sets));
        const sw_shape *s = &sets[0]->field[0].shape, *t = &shapes[i].becomes;
        SW_CHECK(s->rank == t->rank &&
                     memcmp(s->dim, t->dim, (size_t)t->rank * sizeof t->dim[0]) == 0,
                 "(%s)", shapes[i].shape);
    }
}

SW_TEST("targets say what is learned")
{
    static const float y[N * 2] = {1.5f};
    static const int16_t ids[N * 2] = {1, 299, 3};
    static const int64_t wide[N] = {0, 299, 3};
    new_scene();
    put("v.npy", npy_make("<f4", false, "12, 2", y, sizeof y));
    use("x.npy", "v.npy");
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    CU_ASSERT(sets[0]->n_classes == 0 && sets[0]->field[1].shape.dim[0] == 2);
    put("w.npy", npy_make("<i8", false, "12, 1", wide, sizeof wide));
    use("x.npy", "w.npy");
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    CU_ASSERT(sets[0]->n_classes == 300 && sets[0]->field[1].shape.rank == 0);
    CU_ASSERT_EQUAL(sets[1]->field[1].dtype, SW_U16);
    put("i.npy", npy_make("<i2", false, "12, 2", ids, sizeof ids));
    use("i.npy", "i.npy");
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    CU_ASSERT(sets[0]->n_classes == 300 && sets[0]->field[0].dtype == SW_U16);
    CU_ASSERT(sets[0]->field[1].shape.rank == 1);
}

/* ---- parts ------------------------------------------------------------------------------- */

SW_TEST("parts are those of a table")
{
    sw_dataset *npy[2], *csv[2] = {NULL, NULL};
    char line[60];
    bytes table = {0};
    new_scene();
    for (int i = 0; i < N; i++) {
        snprintf(line, sizeof line, "%d,%d,%d\n", 2 * i, 2 * i + 1, i % 3);
        bytes_put(&table, line, strlen(line));
    }
    put("t.csv", table);
    opts.seed = 5;
    opts.test_share = 0.3;
    const sw_csv_opts other = SW_OPTS(sw_csv_opts, .seed = 5, .test_share = 0.3);
    CU_ASSERT_FATAL(data_read_both(read_parts, npy));
    OK(sw_dataset_csv(&csv[0], &csv[1], dir_file("t.csv"), &other));
    for (int p = 0; p < 2; p++) {
        CU_ASSERT_FATAL(csv[p] != NULL && csv[p]->n == npy[p]->n && npy[p]->n_classes == 3);
        for (int f = 0; f < 2; f++)
            CU_ASSERT(memcmp(csv[p]->field[f].data, npy[p]->field[f].data,
                             csv[p]->field[f].bytes) == 0);
        sw_dataset_destroy(csv[p]);
    }
    opts.test_path = path;
    data_refused(read_parts, SW_INVALID, "sw_dataset_npy", "test_share exclude");
    opts.test_share = 0.0;
    data_refused(read_whole, SW_INVALID, "sw_dataset_npy", "no data set for testing exclude");
    CU_ASSERT_FATAL(data_read_both(read_parts, npy));
    CU_ASSERT(npy[0]->n == N && npy[1]->n == N);
    opts.test_path = NULL;
    opts.test_share = 1.5;
    data_refused(read_parts, SW_INVALID, "sw_dataset_npy", "below 1 (got 1.5)");
}

SW_TEST("shapes take no samples")
{
    new_scene();
    opts.shapes_only = 1;
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    CU_ASSERT(sets[0]->n == 10 && sets[1]->n == 2 && sets[0]->n_classes == 3);
    CU_ASSERT(data_info(sets[0]).bytes == 0 && sets[0]->field[1].dtype == SW_U8);
}

/* Numbers go through a window: a reader holds what the data set has, and a constant. */
SW_TEST("nothing is held twice")
{
    enum { MANY = 200000 };
    static double x[MANY];
    static int64_t y[MANY];
    new_scene();
    put("x.npy", npy_make("<f8", false, "200000,", x, sizeof x));
    put("y.npy", npy_make("<i8", false, "200000,", y, sizeof y));
    data_within(read_whole, SIZE_MAX, 65536);
    CU_ASSERT_EQUAL(data_info(sets[0]).bytes, MANY * 5);
}

/* ---- what is refused --------------------------------------------------------------------- */

static void bad_header(const char *dictionary, const char *reason)
{
    const float x[2 * N] = {0};
    new_scene();
    put("bad.npy", npy_raw(1, dictionary, x, sizeof x));
    use("bad.npy", "y.npy");
    data_refused(read_parts, SW_FORMAT, "bad.npy", reason);
}

#define D "'descr': '<f4'"
#define F "'fortran_order': False"
#define S "'shape': (12, 2)"

SW_TEST("headers are read strictly")
{
    bad_header("", "a dictionary was expected");
    bad_header("{", "an entry 'key': value");
    bad_header("{}", "must be there");
    bad_header("{" D "," F "}", "must be there");
    bad_header("{" D "," F "," S "," S "}", "each once");
    bad_header("{" D "," F "," S ", 'more': 1}", "the keys must be");
    bad_header("{" D "," F " " S "}", "a comma or the closing brace");
    bad_header("{" D "," F "," S "} x", "nothing may follow");
    bad_header("{" D "," F "," S, "a comma or the closing brace");
    bad_header("{" D ", 'fortran_order': 0," S "}", "must be True or False");
    bad_header("{" D "," F ", 'shape': 12}", "must be a tuple");
    bad_header("{" D "," F ", 'shape': (24)}", "must have a comma");
    bad_header("{" D "," F ", 'shape': (12 2)}", "commas between");
    bad_header("{" D "," F ", 'shape': (-1, 2)}", "a whole number below 2^63");
    bad_header("{" D "," F ", 'shape': (99999999999999999999,)}", "below 2^63");
    bad_header("{" D "," F ", 'shape': (4611686018427387904, 4)}", "overflows");
    bad_header("{" D "," F ", 'shape': (4611686018427387904,)}", "overflows");
    bad_header("{" D "," F ", 'shape': (0, 2)}", "axis 0 must be at least 1");
    bad_header("{" D "," F ", 'shape': ()}", "is one number");
    bad_header("{" D "," F ", 'shape': (1,1,1,1,1,1,1,1,24)}", "at most 8 axes");
    bad_header("{" D "," F ", 'shape': (12, 3)}", "announces 144 bytes of numbers, 96");
    bad_header("{" D "," F ", 'shape': (12, 1)}", "announces 48 bytes of numbers, 96");
    bad_header("{'descr': '>f4'," F "," S "}", "is big-endian ('>f4'): save x.astype('<f4')");
    bad_header("{'descr': '<f2'," F "," S "}", "the type must be f4, f8");
    bad_header("{'descr': '<U8'," F "," S "}", "(got '<U8')");
    bad_header("{'descr': '<c8'," F "," S "}", "(got '<c8')");
    bad_header("{'descr': '<M8[ns]'," F "," S "}", "(got '<M8[ns]')");
    bad_header("{'descr': '|O'," F "," S "}", "has Python objects");
    bad_header("{'descr': [('a', '<f4')]," F "," S "}", "records of several fields");
    bad_header("{'descr': ''," F "," S "}", "(got '')");
    bad_header("{'descr': 4," F "," S "}", "descr must be a short text");
    bad_header("{'descr': '<f4" F "," S "}", "");
    bad_header("{'descr': __import__('os')," F "," S "}", "descr must be a short text");
}

SW_TEST("what is no array is refused")
{
    static const struct {
        const char *head;
        size_t n;
        const char *is;
    } cases[] = {
        {"", 0, "it is empty"},
        {"1,2,3\n", 6, "it is something else"},
        {"PK\3\4.........archive/data.pkl", 30, "it is a PyTorch file of torch.save()"},
        {"PK\3\4.........x.npy", 18, "it is an .npz archive"},
        {"\x80\2}q.", 5, "it is a Python pickle"},
        {"\x93NUMPY\4\0", 8, "cut in its header"},
        {"\x93NUMPY\4\0\1\0 ", 11, "the version must be 1.0, 2.0 or 3.0 (got 4.0)"},
        {"\x93NUMPY\2\0\0\0\0\1", 12, "at most 4,096 bytes (got 16777216)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes b = {0};
        new_scene();
        bytes_put(&b, cases[i].head, cases[i].n);
        put("bad.npy", b);
        use("bad.npy", "y.npy");
        data_refused(read_parts, SW_FORMAT, "bad.npy", cases[i].is);
    }
    new_scene();
    snprintf(path, sizeof path, "%s", dir_file("x.npy"));
    data_refused(read_parts, SW_INVALID, "INPUTS.npy,TARGETS.npy", "a comma between them");
    use("x.npy", "none.npy");
    data_refused(read_parts, SW_IO, "none.npy", "No such file");
}

SW_TEST("numbers are checked")
{
    float x[2 * N] = {0};
    int8_t y[N] = {0};
    int64_t wide[N] = {0};
    new_scene();
    x[9] = NAN;
    put("x.npy", npy_make("<f4", false, "12, 2", x, sizeof x));
    data_refused(read_parts, SW_FORMAT, "x.npy", "of sample 4 must be finite (got nan)");
    put("x.npy", npy_make("<f4", true, "12, 2", x, sizeof x));
    data_refused(read_parts, SW_FORMAT, "x.npy", "of sample 9 must be finite (got nan)");
    new_scene();
    y[7] = -1;
    put("y.npy", npy_make("|i1", false, "12,", y, sizeof y));
    data_refused(read_parts, SW_FORMAT, "y.npy", "of sample 7 must be 0 to 255 (got -1)");
    wide[11] = (int64_t)1 << 40;
    put("y.npy", npy_make("<i8", false, "12,", wide, sizeof wide));
    data_refused(read_parts, SW_FORMAT, "y.npy",
                 "sample 11 must be 0 to 2147483646 (got 10995");
    put("y.npy", npy_make("<i8", false, "6, 2", wide, sizeof wide));
    data_refused(read_parts, SW_FORMAT, "y.npy", "has 6 samples");
    put("x.npy", npy_make("<f4", false, "6, 4", wide, sizeof wide));
    data_refused(read_parts, SW_FORMAT, "y.npy", "targets must be classes (n) or (n, 1)");
    new_scene();
    opts.test_path = sw_textf("%s/x.npy,%s/x.npy", dir_name(), dir_name());
    data_refused(read_parts, SW_FORMAT, "x.npy", "its samples are f32 (2), those of");
    put("x.npy", npy_make("<f4", false, "1, 2", x, 8));
    put("y.npy", npy_make("<i8", false, "1,", wide, 8));
    opts.test_path = NULL;
    data_refused(read_parts, SW_FORMAT, "x.npy", "one sample cannot be split");
}

/* Every file that is shorter, and every byte changed: an answer of one line. */
SW_TEST("nothing in a file does harm")
{
    int refused = 0;
    new_scene();
    for (int which = 0; which < 2; which++) {
        const char *name = which == 0 ? "x.npy" : "y.npy";
        char at[1200];
        snprintf(at, sizeof at, "%s", dir_file(name));
        const heap_watch before = heap_now();
        sw_damage d = {at, .cuts = 1, .bits = sw_tests_full() ? 1 : 4, .values = "\0\xff\x39",
                       .n_values = sw_tests_full() ? 3 : 0};
        while (sw_damage_next(&d)) {
            sets[0] = sets[1] = NULL;
            const sw_status status = read_parts(sets);
            SW_CHECK(d.is_cut ? status == SW_FORMAT
                              : status == SW_OK || (status == SW_FORMAT &&
                                                    strchr(sw_last_error(), '\n') == NULL),
                     "%s, %s: %s", name, d.what, sw_last_error());
            refused += !d.is_cut && status != SW_OK;
            sw_dataset_destroy(sets[0]);
            sw_dataset_destroy(sets[1]);
        }
        CHECK_NO_LEAK(before);
    }
    CU_ASSERT(refused > 160); /* headers: numbers may be any */
    CU_ASSERT(data_read_both(read_parts, sets));
}

SW_TEST("every call can fail")
{
    new_scene();
    data_sweep(read_parts, 10, 10);
    data_refused_unreadable(read_parts, dir_file("x.npy"));
}
