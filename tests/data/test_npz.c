/* Archives of arrays: which arrays are taken, all ways to write an archive, and that no byte of
 * one does harm. */
#include "runtime/data/data_internal.h"
#include "runtime/data/reader.h"
#include "tests/data/npy_make.h"
#include "tests/support/files.h"

SW_TESTS("npz")

#define N 12

static char path[1100];
static sw_npy_opts opts;

static sw_status read_parts(sw_dataset *part[2])
{
    return sw_dataset_npz(&part[0], &part[1], path, &opts);
}

static sw_status read_whole(sw_dataset *part[2])
{
    return sw_dataset_npz(&part[0], NULL, path, &opts);
}

/* Inputs (n, 2), the first of which is `first`. */
static bytes inputs(int n, int first)
{
    float x[2 * N];
    char shape[20];
    for (int i = 0; i < 2 * n; i++)
        x[i] = (float)(i + first);
    snprintf(shape, sizeof shape, "%d, 2", n);
    return npy_make("<f4", false, shape, x, (size_t)n * 8);
}

static bytes targets(int n)
{
    unsigned char y[N];
    char shape[20];
    for (int i = 0; i < n; i++)
        y[i] = (unsigned char)(i % 3);
    snprintf(shape, sizeof shape, "%d,", n);
    return npy_make("|u1", false, shape, y, (size_t)n);
}

static void put_archive(const char *name, bytes archive)
{
    dir_put(name, archive);
    snprintf(path, sizeof path, "%s/%s", dir_name(), name);
    opts = SW_OPTS(sw_npy_opts);
}

static void new_scene(zip_kind kind)
{
    dir_new();
    put_archive("a.npz", zip_make((zip_entry[]){{"x.npy", inputs(N, 0)}, {"y.npy", targets(N)}},
                                  2, kind));
}

static float first_number(const sw_dataset *d)
{
    float x;
    memcpy(&x, d->field[0].data, sizeof x);
    return x;
}

SW_TEST("every way to write one is read")
{
    sw_dataset *plain[2], *part[2];
    static const zip_kind kinds[] = {ZIP_WIDE, ZIP_COMMENT, ZIP_DEFLATED};
    new_scene(ZIP_STORED);
    CU_ASSERT_FATAL(data_read_both(read_parts, plain));
    CU_ASSERT(plain[0]->n == 10 && plain[1]->n == 2 && plain[0]->n_classes == 3);
    for (size_t k = 0; k < 3; k++) {
        new_scene(kinds[k]);
        if (kinds[k] == ZIP_DEFLATED && !SW_HAVE_ZLIB) {
            data_refused(read_parts, SW_UNSUPPORTED, "a.npz: x.npy", "zlib is off");
            continue;
        }
        CU_ASSERT_FATAL(data_read_both(read_parts, part));
        for (int p = 0; p < 2; p++)
            for (int f = 0; f < 2; f++)
                CU_ASSERT(memcmp(plain[p]->field[f].data, part[p]->field[f].data,
                                 plain[p]->field[f].bytes) == 0);
    }
}

SW_TEST("arrays are found by their names")
{
    static const char *const names[][4] = {
        {"x_train", "y_train", "x_test", "y_test"},
        {"train_images", "train_labels", "test_images", "test_labels"}};
    for (size_t i = 0; i < 2; i++) {
        char file[4][40];
        for (int k = 0; k < 4; k++)
            snprintf(file[k], sizeof file[k], "%s.npy", names[i][k]);
        dir_new();
        put_archive("a.npz", zip_make((zip_entry[]){{file[3], targets(5)},
                                                    {file[0], inputs(N, 0)},
                                                    {"other.npy", inputs(3, 0)},
                                                    {file[2], inputs(5, 100)},
                                                    {file[1], targets(N)}},
                                      5, ZIP_STORED));
        CU_ASSERT_FATAL(data_read_both(read_parts, sets));
        CU_ASSERT(sets[0]->n == N && sets[1]->n == 5);
        CU_ASSERT(first_number(sets[0]) == 0.0f && first_number(sets[1]) == 100.0f);
        CU_ASSERT_FATAL(data_read_both(read_whole, sets));
        CU_ASSERT_EQUAL(sets[0]->n, N);
        opts.test_share = 0.5; /* asked for: a share of the training arrays */
        CU_ASSERT_FATAL(data_read_both(read_parts, sets));
        CU_ASSERT(sets[0]->n == 6 && sets[1]->n == 6);
        opts.test_share = 0.0;
        snprintf(path, sizeof path, "%s/a.npz:%s,%s", dir_name(), names[i][2], names[i][3]);
        CU_ASSERT_FATAL(data_read_both(read_whole, sets));
        CU_ASSERT(sets[0]->n == 5 && first_number(sets[0]) == 100.0f);
        opts.test_path = sw_textf("%s/a.npz", dir_name()); /* its test arrays */
        CU_ASSERT_FATAL(data_read_both(read_parts, sets));
        CU_ASSERT(sets[0]->n == 5 && sets[1]->n == 5);
        snprintf(path, sizeof path, "%s/a.npz:x,y", dir_name());
        opts.test_path = NULL;
        data_refused(read_parts, SW_INVALID, "a.npz", "has no arrays 'x,y'; there are: ");
        data_refused(read_parts, SW_INVALID, "a.npz", "other, ");
    }
    put_archive("b.npz",
                zip_make((zip_entry[]){{"arr_0.npy", inputs(N, 7)}, {"arr_1.npy", targets(N)}},
                         2, ZIP_STORED));
    CU_ASSERT_FATAL(data_read_both(read_whole, sets));
    CU_ASSERT_EQUAL(first_number(sets[0]), 7.0f);
    put_archive("c.npz",
                zip_make((zip_entry[]){{"one.npy", inputs(N, 7)}, {"two.npy", targets(N)}}, 2,
                         ZIP_STORED));
    data_refused(read_parts, SW_INVALID, "c.npz",
                 "npz:FILE:INPUTS,TARGETS; there are: one, two");
}

SW_TEST("what is no archive is refused")
{
    static const char *const names[] = {"m/data.pkl", "archive/data.pkl"};
    dir_new();
    for (size_t i = 0; i < 2; i++) {
        bytes pickle = {0};
        bytes_put(&pickle, "\x80\2}q.", 5);
        put_archive("m.pt", zip_make((zip_entry[]){{names[i], pickle}}, 1, ZIP_STORED));
        data_refused(read_parts, SW_FORMAT, "m.pt", "it is a PyTorch file of torch.save()");
    }
    put_archive("x.npy", inputs(N, 0));
    data_refused(read_parts, SW_FORMAT, "x.npy", "it is a .npy file");
    bytes text = {0};
    bytes_put(&text, "1,2\n3,4\n5,6\n7,8\n9,10\n11,12\n", 28);
    put_archive("t.csv", text);
    data_refused(read_parts, SW_FORMAT, "t.csv", "it is something else");
    put_archive("e.npz", (bytes){.at = NULL});
    data_refused(read_parts, SW_FORMAT, "e.npz", "it is empty");
    (void)remove(path);
    data_refused(read_parts, SW_IO, "e.npz", "No such file");
    new_scene(ZIP_STORED);
    data_refused_unreadable(read_parts, path);
}

/* Offsets in the archive of new_scene(ZIP_STORED): x's own header is at 0, the list after both
 * arrays. */
static void refused_with(zip_kind kind, size_t at, const char *to, size_t n, sw_status status,
                         const char *reason)
{
    new_scene(kind);
    bytes b = file_get(path);
    CU_ASSERT_FATAL(at + n <= b.n);
    memcpy(b.at + at, to, n);
    sw_file_put(path, b.at, b.n);
    data_refused(read_parts, status, "a.npz", reason);
}

SW_TEST("lists are held against the file")
{
    new_scene(ZIP_STORED);
    bytes b = file_get(path);
    size_t list = b.n - 22 - 2 * (46 + 5);
    refused_with(ZIP_STORED, list + 8, "\1", 1, SW_FORMAT, "is encrypted");
    refused_with(ZIP_STORED, list + 10, "\14", 1, SW_UNSUPPORTED, "compressed by method 12");
    refused_with(ZIP_STORED, list + 16, "....", 4, SW_FORMAT, "its checksum is not that");
    refused_with(ZIP_STORED, list + 20, "....", 4, SW_FORMAT, "sizes that cannot be");
    refused_with(ZIP_STORED, list + 42, "\1", 1, SW_FORMAT, "no file where its list says");
    refused_with(ZIP_STORED, list + 42, "....", 4, SW_FORMAT, "sizes that cannot be");
    refused_with(ZIP_STORED, list + 28, "..", 2, SW_FORMAT, "past the end of its list");
    refused_with(ZIP_STORED, list + 24, "\377\377\377\377", 4, SW_FORMAT, "sizes of 64 bits");
    refused_with(ZIP_STORED, list, "....", 4, SW_FORMAT, "an entry of its list is none");
    refused_with(ZIP_STORED, 26, "\377\377", 2, SW_FORMAT, "ends past its end");
    refused_with(ZIP_STORED, list + 102 + 12, "....", 4, SW_FORMAT, "not before its end");
    refused_with(ZIP_STORED, list + 102, ".", 1, SW_FORMAT, "no list at its end");
    new_scene(ZIP_WIDE);
    b = file_get(path);
    list = b.n - 22 - 20 - 56;
    refused_with(ZIP_WIDE, list, ".", 1, SW_FORMAT, "no record of 64 bits");
    refused_with(ZIP_WIDE, list + 48, "\377\377\377\377\377\377\377\377", 8, SW_FORMAT,
                 "not before its end");
    refused_with(ZIP_WIDE, list + 56, ".", 1, SW_FORMAT, "no record of 64 bits");
    refused_with(ZIP_WIDE, list + 56 + 8, "\377\377\377\377\377\377\377\377", 8, SW_FORMAT,
                 "a place past its end");
}

SW_TEST("what unpacks to too much is refused")
{
    if (!SW_HAVE_ZLIB)
        SW_SKIP("built without zlib");
    new_scene(ZIP_DEFLATED);
    opts.unpack_bytes = 223;
    data_refused(read_parts, SW_NOMEM, "a.npz: x.npy",
                 "unpacks to 224 bytes; the limit is 223");
    opts.unpack_bytes = 224;
    CU_ASSERT(data_read_both(read_parts, sets));
    new_scene(ZIP_STORED);
    opts.unpack_bytes = 1; /* files are as large as they look */
    CU_ASSERT(data_read_both(read_parts, sets));
}

static bool is_an_answer(sw_status status)
{
    return status == SW_OK || ((status == SW_FORMAT || status == SW_INVALID ||
                                status == SW_UNSUPPORTED || status == SW_NOMEM) &&
                               strchr(sw_last_error(), '\n') == NULL);
}

/* Every archive that is shorter, and every byte changed. */
SW_TEST("no byte does harm")
{
    for (int kind = ZIP_STORED; kind <= ZIP_WIDE; kind++) {
        int refused = 0;
        new_scene((zip_kind)kind);
        const heap_watch before = heap_now();
        sw_damage d = {path, .cuts = sw_tests_full() ? 1 : 5, .bytes = 1, .values = "\xff",
                       .n_values = 1};
        while (sw_damage_next(&d)) {
            sets[0] = sets[1] = NULL;
            const sw_status status = read_parts(sets);
            SW_CHECK(d.is_cut ? status == SW_FORMAT : is_an_answer(status), "%s: %s", d.what,
                     sw_last_error());
            refused += !d.is_cut && status != SW_OK;
            sw_dataset_destroy(sets[0]);
            sw_dataset_destroy(sets[1]);
        }
        CHECK_NO_LEAK(before);
        CU_ASSERT(refused > 600); /* arrays have checksums; names of the list count, not own */
    }
}

SW_TEST("every call can fail")
{
    new_scene(SW_HAVE_ZLIB ? ZIP_DEFLATED : ZIP_STORED);
    data_sweep(read_parts, 12, 10);
}

/* ---- what is given without a reader ------------------------------------------------------ */

static void is(const char *name, const char *what)
{
    char text[2000];
    const char *said = swi_identify(dir_file(name), text, sizeof text);
    if (what == NULL)
        SW_CHECK(said == NULL, "%s: '%s'", name, said);
    else
        SW_CHECK(said != NULL && strstr(said, what) != NULL, "%s: '%s', must contain '%s'",
                 name, said != NULL ? said : "nothing", what);
}

SW_TEST("files say what they are")
{
    static const struct {
        const char *name, *head;
        size_t n;
        const char *is;
    } files[] = {{"a.npy", "\x93NUMPY\1\0", 8, "give npy:INPUTS,TARGETS"},
                 {"a.pt", "PK\3\4......a/data.pkl", 20, "is a PyTorch file of torch.save()"},
                 {"old.pt", "\x80\2.", 3, "is a Python pickle"},
                 {"a.parquet", "PAR1", 4, "is a Parquet file"},
                 {"a.h5", "\x89HDF\r\n", 6, "is an HDF5 file"},
                 {"a.png", "\x89PNG\r\n", 6, "is a PNG image"},
                 {"a.gguf", "GGUF", 4, "is a GGUF file"},
                 {"a.safetensors", "\x50\0\0\0\0\0\0\0{\"a\"", 12, "is a safetensors file"},
                 {"a.csv", "1,2\n", 4, NULL},
                 {"a.csv.gz", "\x1f\x8b\10", 3, NULL},
                 {"a.txt", "a", 1, NULL},
                 {"a.bin", "\1\0", 2, "is a file: give tokens:"},
                 {"a.any", "\1\0", 2, NULL}};
    dir_new();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        bytes b = {0};
        bytes_put(&b, files[i].head, files[i].n);
        dir_put(files[i].name, b);
        is(files[i].name, files[i].is);
    }
    is("none", NULL);
    is(".", NULL);
    bytes b = {0};
    bytes_put(&b, "\1\0", 2);
    dir_put("train.bin", b);
    is(".", "is a folder of tokens: give tokens:");
}
