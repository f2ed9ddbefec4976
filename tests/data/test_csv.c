/* CSV files: what is read from them, and what is refused, with line and column. */
#include "tests/data/data_files.h"
#include "tests/support/files.h"
#include "runtime/data/data_internal.h"
#include "tests/support/suite.h"
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

SW_TESTS("csv")

static char path[512];
static sw_csv_opts opts; /* of the running test */

static void put_text(const char *text)
{
    static int n;
    snprintf(path, sizeof path, "%s", sw_temp_path(sw_textf("table%d.csv", n++)));
    sw_file_put(path, text, strlen(text));
    opts = SW_OPTS(sw_csv_opts);
}

static void put_test(const char *text)
{
    opts.test_path = sw_temp_path("other.csv");
    sw_file_put(opts.test_path, text, strlen(text));
}

static sw_status read_whole(sw_dataset *part[2])
{
    return sw_dataset_csv(&part[0], NULL, path, &opts);
}

static sw_status read_split(sw_dataset *part[2])
{
    return sw_dataset_csv(&part[0], &part[1], path, &opts);
}

static const float *features_of(const sw_dataset *dataset)
{
    return data_info(dataset).field[0].data;
}

static const unsigned char *labels_of(const sw_dataset *dataset)
{
    return data_info(dataset).field[1].data;
}

/* The file as it is now has these numbers. */
static void check(const char *what, int n, int columns, const float *x, const char *labels)
{
    const sw_dataset_info info = data_first(read_whole);
    SW_CHECK(info.n == n && info.field[0].shape.rank == 1 &&
                 info.field[0].shape.dim[0] == columns,
             "%s: %lld samples of %lld", what, (long long)info.n,
             (long long)info.field[0].shape.dim[0]);
    CU_ASSERT_FATAL(info.n == n && info.field[0].shape.dim[0] == columns);
    CU_ASSERT(info.field[0].dtype == SW_F32 && info.field[1].dtype == SW_U8);
    CU_ASSERT_STRING_EQUAL(info.name, path);
    SW_CHECK(memcmp(info.field[0].data, x, sizeof *x * (size_t)(n * columns)) == 0, "%s: %g...",
             what, (double)*(const float *)info.field[0].data);
    for (int i = 0; i < n; i++)
        SW_CHECK(labels_of(sets[0])[i] == labels[i] - '0', "%s: label %d of sample %d", what,
                 labels_of(sets[0])[i], i);
}

static const float small[6] = {1.5f, -2.0f, 0.25f, 3e4f, 5.0f, 6.0f};

SW_TEST("one table in many spellings")
{
    static const char *const texts[] = SW_INIT(
        "1.5,-2,0\n.25,3e4,1\n5,6,0\n", "a,b,c\n1.5,-2,0\n.25,3e4,1\n5,6,0",
        "a;b;c\r\n1.5;-2;0\r\n.25;3e4;1\r\n5;6;0\r\n",
        "a\tb\tc\r1.5\t-2\t0\r.25\t3e4\t1\r5\t6\t0\r",
        "\xef\xbb\xbf"
        "a,b,c\n1.5,-2,0\n.25,3e4,1\n5,6,0\n",
        "\n\n  \n\"a,1\",\"b\"\"\",\"c\nd\"\n\"1.5\", \"-2\" ,0\n\n.25 , 3e4,\"1\"\n "
        "\n5,6,0\n\n",
        " \t \n1.5, -2, 0\n  .25,\t3e4,1  \n+5.,6.0e0,0.0",
        ",b,c\n1.5,-2,0\n.25,3e4,1\n5,6,0\n",
        "\"a\t\t\t\",b; c,d\n1.5,-2,0\n.25,3e4,1\n5,6,0\n",
        "a;b, c;d\n1.5;-2;0\n.25;3e4;1\n5;6;0\n", "1.5;-2;\"0\"\n.25;3e4;1\n5;6;0\n\r\n\r\n");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put_text(texts[i]);
        check(texts[i], 3, 2, small, "010");
    }
}

SW_TEST("the label column is chosen")
{
    static const char *const labels[] = {"kind", "1", "-3", "1e0"};
    for (int i = 0; i < 4; i++) {
        put_text("kind,x,y\n0,1.5,-2\n1,.25,3e4\n0,5,6\n");
        opts.label = labels[i];
        check(labels[i], 3, 2, small, "010");
    }
    put_text("1.5,0,-2\n.25,1,3e4\n5,0,6\n");
    opts.label = "-2";
    check("in the middle", 3, 2, small, "010");
    put_text("1,2,3\n1.5,-2,0\n.25,3e4,1\n5,6,0\n");
    opts.header = 1;
    opts.label = "3";
    check("a header of numbers", 3, 2, small, "010");
    put_text("kind,x,y\n0,1.5,-2\n");
    opts.label = "size";
    data_refused(read_whole, SW_INVALID, path, "no column is named 'size'");
    opts.label = "4";
    data_refused(read_whole, SW_INVALID, path,
                 "the label column must be 1 to 3, or -1 to -3 from the end (got 4)");
    opts.label = "0";
    data_refused(read_whole, SW_INVALID, path, "(got 0)");
    opts.label = "-4";
    data_refused(read_whole, SW_INVALID, path, "(got -4)");
    put_text("x,x,y\n0,1.5,-2\n");
    opts.label = "x";
    data_refused(read_whole, SW_INVALID, path, "several columns");
    put_text("0,1.5,-2\n");
    opts.label = "x";
    data_refused(read_whole, SW_INVALID, path, "no column is named 'x'");
    opts.header = -1;
    data_refused(read_whole, SW_INVALID, path, "where there is no header line");
}

static void check_classes(const char *const *names, int n, const char *labels)
{
    const sw_dataset_info info = data_first(read_whole);
    CU_ASSERT_EQUAL_FATAL(info.n_classes, n);
    for (int i = 0; i < n; i++)
        SW_CHECK(strcmp(info.class_names[i], names[i]) == 0, "class %d: '%s'", i,
                 info.class_names[i]);
    for (int i = 0; i < info.n; i++)
        CU_ASSERT_EQUAL(labels_of(sets[0])[i], labels[i] - '0');
}

SW_TEST("classes are the sorted labels")
{
    static const char *const words[] = {"Ox", "a cow, brown", "cat"};
    static const char *const numbers[] = {"-10", "-9", "2", "10"};
    put_text("1,cat\n2,Ox\n3,\"a cow, brown\"\n4, cat \n");
    check_classes(words, 3, "2012");
    put_text("1,10\n2,2.0\n3,-9\n4,-1e1\n5,1.000000e+01\n");
    check_classes(numbers, 4, "32103");
}

/* 300 classes do not fit a byte. */
SW_TEST("many classes take four bytes")
{
    char *text = malloc(300 * 16), *to = text;
    sw_after(free, text);
    for (int i = 0; i < 300; i++)
        to += sprintf(to, "%d,%d\n", i, 299 - i);
    put_text(text);
    const sw_dataset_info info = data_first(read_whole);
    CU_ASSERT_FATAL(info.n_classes == 300 && info.field[1].dtype == SW_I32);
    for (int i = 0; i < 300; i++)
        CU_ASSERT_EQUAL(((const int32_t *)info.field[1].data)[i], 299 - i);
    CU_ASSERT_STRING_EQUAL(info.class_names[299], "299");
}

SW_TEST("damage is refused by its place")
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"", "empty"},
        {"\n \n\r\n", "empty"},
        {"a,b,c\n", "no sample"},
        {"5\n6\n", "(got one column)"},
        {"1,2,0\n1,,0\n", "line 2, column 2: '' is empty: fill it in"},
        {"x,y,k\n1,2,0\n\n1,  ,0\n", "line 4, column 2 ('y'): '' is empty: fill it in"},
        {"1,2,0\n1,2,\n", "line 2, column 3: '' is empty: fill it in"},
        {"1,2,0\n1,2\n", "line 2: must have 3 fields as the first line has (got 2)"},
        {"1,2,0\n1,2,3,4\n", "line 2: must have 3 fields as the first line has (got 4)"},
        {"1,2,0\n1,x,0\n", "line 2, column 2: 'x' must be a number with"},
        {"1,x,0\n1,2,0\n", "line 1, column 2: 'x' must be a number with"},
        {"1,5;2,5;0\n3,5;2;0\n",
         "line 2, column 1 ('1,5'): '3,5' must be a number with a decimal point"},
        {"1;2,5;0\n", "line 1, column 2: '2,5' must be a number with a decimal point"},
        {"1,nan,0\n", "line 1, column 2: 'nan' must be a finite number"},
        {"1,2,0\n-Inf,2,0\n", "line 2, column 1: '-Inf' must be a finite number"},
        {"1,2,0\n1,1e39,0\n", "line 2, column 2: '1e39' is too large"},
        {"1,2,0\n1,2,0.5\n", "line 2, column 3: '0.5' must be a class"},
        {"1,2,0\n1,2,1e18\n", "line 2, column 3: '1e18' must be a class"},
        {"1,2,nan\n", "line 1, column 3: 'nan' must be a class"},
        {"1,2,0\n1,2,0\n1,2,7x\n", "line 3, column 3: '7x' is a word, and the label in line 1"},
        {"1,2,cat\n1,2,7\n", "line 2, column 3: '7' is a number, and the label in line 1"},
        {"1,2,0\n\"1,2,0\n1,2,0\n", "line 2: its quotation mark is never closed"},
        {"1,2,0\n\"1\"2,2,0\n", "line 2: text after a closing quotation mark"},
        {"1,2,0\n1,\"2\n3\",0\n", "line 2, column 2: '2?3' must be a number with"},
        {"1,2,0\n1,\033[2J,0\n", "'?[2J' must be a number with"},
        {"1,\"2\n\n\",0\n1,x,0\n", "line 1, column 2"},
        {"\xff\xfe"
         "1",
         "one column"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_text(cases[i].text);
        data_refused(read_whole, SW_FORMAT, path, cases[i].reason);
    }
    put_text("");
    sw_file_put(path, "1,2,0\n1,\0002,0\n", 13);
    data_refused(read_whole, SW_FORMAT, path, "line 2: must be text without zero bytes");
    put_text("1,2,0\n1,2,1\n");
    opts.header = 1; /* the first line is passed over, whatever it has */
    check("a header by option", 1, 2, (const float[]){1.0f, 2.0f}, "0");
    put_text("a,b,0\n1,2,1\n");
    opts.header = -1;
    data_refused(read_whole, SW_FORMAT, path, "line 1, column 1: 'a' must be a number with");
}

SW_TEST("what cannot be opened is named")
{
    put_text("1,0\n");
    (void)unlink(path);
    data_refused(read_whole, SW_IO, path, "No such file");
    if (mkdir(path, 0777) != 0)
        perror(path);
    data_refused(read_whole, SW_IO, path, "Is a directory");
    put_text("1,0\n");
    opts.test_path = sw_temp_path("nowhere.csv");
    data_refused(read_split, SW_IO, opts.test_path, "No such file");
    put_text("1,0\n");
    data_refused_unreadable(read_whole, path);
}

/* One line of 16 MiB and one of little less; as many classes as may be and one more. */
SW_TEST("limits are said")
{
    const size_t most = (size_t)17 << 20;
    char *text = malloc(most);
    sw_after(free, text);
    memset(text, '1', most);
    put_text("");
    sw_file_put(path, text, most);
    data_refused(read_whole, SW_FORMAT, path, "line 1: longer than 16 MiB");
    char *to = text;
    for (int i = 0; i < 65537; i++)
        to += sprintf(to, "0,c%d\n", i);
    sw_file_put(path, text, (size_t)(to - text));
    data_refused(read_whole, SW_FORMAT, path, "line 65537, column 2: 'c65536' is the label of");
    while (to[-1] != 'c')
        to--;
    sw_file_put(path, text, (size_t)(to - 3 - text));
    CU_ASSERT_FATAL(data_read_both(read_whole, sets));
    CU_ASSERT_EQUAL(data_info(sets[0]).n_classes, 65536);
    memset(text, 'w', 300);
    memcpy(text, "1,", 2);
    sw_file_put(path, text, 300);
    data_refused(read_whole, SW_FORMAT, path, "longer than 255 bytes");
}

/* ---- parts ------------------------------------------------------------------------------- */

static void put_numbered(int n)
{
    char *text = malloc((size_t)n * 24), *to = text;
    sw_after(free, text);
    for (int i = 0; i < n; i++)
        to += sprintf(to, "%d,%d,%d\n", i, i % 7, i % 3);
    put_text(text);
}

/* Samples of both parts by their first feature: each once, in the order of the file. */
static void check_parts(sw_dataset *const part[2], int n, int n_test, char *is_test)
{
    int seen = 0;
    memset(is_test, 0, (size_t)n);
    for (int p = 0; p < 2; p++) {
        const sw_dataset_info info = data_info(part[p]);
        int before = -1;
        CU_ASSERT_EQUAL_FATAL(info.n, p == 1 ? n_test : n - n_test);
        for (int64_t i = 0; i < info.n; i++) {
            const int number = (int)features_of(part[p])[2 * i];
            CU_ASSERT(number > before && number < n);
            CU_ASSERT_EQUAL(labels_of(part[p])[i], number % 3);
            is_test[before = number] = (char)p;
            seen++;
        }
    }
    CU_ASSERT_EQUAL(seen, n);
}

SW_TEST("a share is for testing")
{
    static const struct {
        int n, test;
        double share;
    } cases[] = {{500, 100, 0.0}, {500, 50, 0.1}, {7, 1, 0.01}, {2, 1, 0.99}, {11, 10, 0.93}};
    static char first[500], again[500];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_numbered(cases[i].n);
        opts.test_share = cases[i].share;
        CU_ASSERT_FATAL(data_read_both(read_split, sets));
        check_parts(sets, cases[i].n, cases[i].test, first);
        CU_ASSERT_FATAL(data_read_both(read_split, sets));
        check_parts(sets, cases[i].n, cases[i].test, again);
        CU_ASSERT_EQUAL(memcmp(first, again, (size_t)cases[i].n), 0);
        opts.seed = 1;
        CU_ASSERT_FATAL(data_read_both(read_split, sets));
        check_parts(sets, cases[i].n, cases[i].test, again);
        CU_ASSERT(cases[i].n < 500 || memcmp(first, again, 500) != 0);
    }
    put_text("1,0\n");
    data_refused(read_split, SW_FORMAT, path, "one sample cannot be split");
}

SW_TEST("a second file is for testing")
{
    put_text("x,k\n1,b\n2,c\n3,a\n");
    put_test("5,c\n6,c\n");
    CU_ASSERT_FATAL(data_read_both(read_split, sets));
    CU_ASSERT(data_info(sets[0]).n == 3 && data_info(sets[1]).n == 2);
    CU_ASSERT(data_info(sets[1]).n_classes == 3 && labels_of(sets[1])[0] == 2);
    CU_ASSERT_STRING_EQUAL(data_info(sets[1]).name, opts.test_path);
    CU_ASSERT_STRING_EQUAL(data_info(sets[1]).class_names[0], "a");
    put_test("x,k\n5,c\n6,d\n");
    data_refused(read_split, SW_FORMAT, opts.test_path,
                 "line 3, column 2 ('k'): 'd' is out of range");
    put_test("5,c,1\n");
    data_refused(read_split, SW_FORMAT, opts.test_path, "3 columns, those of");
    put_test("y,k\n5,c\n");
    data_refused(read_split, SW_FORMAT, opts.test_path, "column 1 is 'y'");
    put_test("");
    data_refused(read_split, SW_FORMAT, opts.test_path, "empty");
    put_test("oops,c\n6,c\n6,\n");
    data_refused(read_split, SW_FORMAT, opts.test_path, "column 1 is 'oops'");
    put_text("x,k\n1,0\n2,1\n");
    put_test("5,c\n");
    data_refused(read_split, SW_FORMAT, opts.test_path, "out of range");
}

SW_TEST("features are standardised by the training part")
{
    sw_dataset *plain[2], *moved[2];
    put_numbered(200);
    CU_ASSERT_FATAL(data_read_both(read_split, plain));
    opts.standardise = 1;
    CU_ASSERT_FATAL(data_read_both(read_split, moved));
    for (int column = 0; column < 2; column++) {
        double sum = 0.0, squares = 0.0;
        const float *x = features_of(plain[0]) + column;
        for (int i = 0; i < 160; i++)
            sum += (double)x[2 * i];
        for (int i = 0; i < 160; i++)
            squares += pow((double)x[2 * i] - sum / 160.0, 2.0);
        const double mean = sum / 160.0, deviation = sqrt(squares / 160.0);
        for (int p = 0; p < 2; p++)
            for (int i = 0; i < (p == 0 ? 160 : 40); i++)
                CU_ASSERT_DOUBLE_EQUAL(
                    (double)features_of(moved[p])[2 * i + column],
                    ((double)features_of(plain[p])[2 * i + column] - mean) / deviation, 1e-6);
    }
    put_text("0.1,5,0\n0.1,6,0\n0.1,7,1\n");
    opts.standardise = 1;
    CU_ASSERT_FATAL(data_read_both(read_whole, plain));
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(features_of(plain[0])[2 * i], 0.0f); /* one value: not divided by 0 */
}

SW_TEST("shapes take no samples")
{
    put_numbered(100);
    opts.shapes_only = 1;
    const sw_dataset_info info = data_first(read_split);
    CU_ASSERT(info.n == 80 && info.n_classes == 3 && info.bytes == 0);
    CU_ASSERT(info.field[0].shape.dim[0] == 2 && info.field[0].data == NULL);
    CU_ASSERT_EQUAL(data_info(sets[1]).n, 20);
}

/* ---- the rest ---------------------------------------------------------------------------- */

/* Of the system, or made: one of numbers alone, which takes a hundredth of a whole one. */
static bool enter_decimal_comma(void)
{
    static const char numbers[] = "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\n"
                                  "grouping -1\nEND LC_NUMERIC\n";
    if (setlocale(LC_ALL, "de_DE.UTF-8") != NULL)
        return true;
    const char *source = sw_temp_path("comma.txt");
    sw_file_put(source, numbers, sizeof numbers - 1);
    /* Its status says that other parts are missing. */
    if (system(sw_textf("localedef -c -i '%s' -f ANSI_X3.4-1968 '%s/comma' >/dev/null 2>&1",
                        source, sw_temp_path(""))) == -1 ||
        setenv("LOCPATH", sw_temp_path(""), 1) != 0)
        return false;
    return setlocale(LC_NUMERIC, "comma") != NULL;
}

SW_TEST("a locale with a decimal comma changes nothing")
{
    if (!enter_decimal_comma())
        SW_SKIP("no locale with a decimal comma is installed");
    CU_ASSERT_EQUAL(strtof("1.5", NULL), 1.0f); /* it is one */
    put_text("1.5,-2,0\n.25,3e4,1\n5,6,0\n");
    check("elsewhere", 3, 2, small, "010");
    (void)setlocale(LC_ALL, "C");
}

SW_TEST("bad arguments are refused")
{
    sw_dataset *part[2] = {NULL, NULL};
    put_text("1,0\n2,1\n");
    failed_as(sw_dataset_csv(&part[0], NULL, "", NULL), SW_INVALID,
              "train and path must not be NULL, path not empty");
    static const double shares[] = {-0.1, 1.0, (double)NAN};
    for (int i = 0; i < 3; i++) {
        opts.test_share = shares[i];
        data_refused(read_split, SW_INVALID, "sw_dataset_csv", "test_share");
    }
    opts.test_share = 0.5;
    opts.test_path = path;
    data_refused(read_split, SW_INVALID, "sw_dataset_csv", "exclude each other");
    opts.test_share = 0.0;
    data_refused(read_whole, SW_INVALID, "sw_dataset_csv", "exclude each other");
    opts.test_path = NULL;
    opts.separator = 'x';
    data_refused(read_whole, SW_INVALID, "sw_dataset_csv", "separator");
    opts.size = sizeof opts.size; /* no header knew so little */
    data_refused(read_whole, SW_INVALID, "sw_dataset_csv", "set it to sizeof(sw_csv_opts)");
}

/* The data set has its numbers, the reader a constant. */
SW_TEST("memory stays within the data")
{
    put_numbered(100000);
    data_within(read_split, 100000 * 9 + 4096, 2 << 20);
    CU_ASSERT_EQUAL(data_info(sets[0]).bytes + data_info(sets[1]).bytes, 100000 * 9);
}

static const char sample[] =
    "w,h,\"a kind\"\n1.5,-2,cat\n.25,3e4,dog\r\n\n5,\"6\",cat\n7,8,ox\n";

SW_TEST("every call can fail")
{
    put_text(sample);
    data_sweep(read_split, 14, 4);
    put_test("1,2,ox\n");
    data_sweep(read_split, 20, 8);
}

/* The rest of a cut file is a smaller table, or refused. */
SW_TEST("every cut is a smaller table or refused")
{
    put_text(sample);
    for (size_t n = 0; n < sizeof sample; n++) {
        const heap_watch before = heap_now();
        sw_dataset *dataset = NULL;
        sw_file_put(path, sample, n);
        const sw_status status = sw_dataset_csv(&dataset, NULL, path, NULL);
        if (status != SW_OK)
            failed_as(status, SW_FORMAT, path);
        CU_ASSERT((status == SW_OK) == (dataset != NULL));
        sw_dataset_destroy(dataset);
        CHECK_NO_LEAK(before);
    }
}

SW_TEST("damage is refused or harmless")
{
    bytes sound = {NULL, 0};
    put_text(sample);
    bytes_put(&sound, sample, sizeof sample - 1);
    data_damage(read_split, path, sound, sw_tests_full() ? 30000 : 3000);
}

SW_TEST("compressed files are read by either name")
{
    static char plain[512];
    put_text("1.5,-2,0\n.25,3e4,1\n5,6,0\n");
    bytes text = file_get(path), packed = zipped(text);
    (void)unlink(path);
    snprintf(plain, sizeof plain, "%s", path);
    snprintf(path, sizeof path, "%.500s.gz", plain);
    sw_file_put(path, packed.at, packed.n);
#if SW_HAVE_ZLIB
    check("by its name", 3, 2, small, "010");
    snprintf(path, sizeof path, "%s", plain);
    CU_ASSERT(data_read_both(read_whole, sets));
    data_sweep(read_whole, 12, 6);
#else
    data_refused(read_whole, SW_UNSUPPORTED, path, "zlib is off");
#endif
}

SW_TEST("real tables are read")
{
    static const char *const species[] = {"setosa", "versicolor", "virginica"};
    const char *iris = sw_data_path("iris/iris.csv");
    if (iris == NULL)
        SW_SKIP("no iris below $STEPWELL_DATA");
    put_text("");
    snprintf(path, sizeof path, "%s", iris);
    const sw_dataset_info info = data_first(read_whole);
    CU_ASSERT(info.n == 150 && info.n_classes == 3 && info.field[0].shape.dim[0] == 4);
    for (int i = 0; i < 3; i++)
        CU_ASSERT_STRING_EQUAL(info.class_names[i], species[i]);
    CU_ASSERT(features_of(sets[0])[0] == 5.1f && features_of(sets[0])[599] == 1.8f);
    const char *digits = sw_data_path("digits/optdigits.tes");
    if (digits == NULL)
        SW_SKIP("no digits below $STEPWELL_DATA");
    snprintf(path, sizeof path, "%s", digits);
    CU_ASSERT_FATAL(data_read_both(read_whole, sets));
    CU_ASSERT(data_info(sets[0]).n == 1797 && data_info(sets[0]).n_classes == 10);
    double sum = 0.0;
    for (int i = 0; i < 1797 * 64; i++)
        sum += (double)features_of(sets[0])[i];
    CU_ASSERT_EQUAL(sum, 561718.0); /* as scikit-learn has it */
}

/* ---- number -------------------------------------------------------------------------------
 */

/* Decimal numbers to floats, against the C library's own conversion. */
/* The float's bits as strtof has them, or refused where that is infinite. */
static bool agrees(const char *text)
{
    swi_decimal d;
    float got = 0.0f;
    const float wanted = strtof(text, NULL);
    const bool number = swi_decimal_read(text, strlen(text), &d) == SWI_NUMBER;
    const bool fits = number && swi_decimal_float(&d, &got);
    return SW_CHECK(number && fits == !isinf(wanted) &&
                        (!fits || memcmp(&got, &wanted, sizeof got) == 0),
                    "%s: %a, must be %a", text, (double)got, (double)wanted);
}

SW_TEST("spellings are read")
{
    static const char *const texts[] = SW_INIT(
        "0", "-0", "+1", "1.", ".5", "-.25e1", "007.500", "1e5", "1E-5", "1e+05",
        "3.4028235e38", "3.4028236e38", "3.4028235677973366e38", "3.4028235677973365e38",
        "1e39", "-1e40", "1e-45", "7e-46", "7.1e-46", "1e-47", "1e400", "1e-400",
        "0e999999999999", "1e99999999999999999999", "1e-99999999999999999999",
        "123456789012345678901234567890", "0.1", "16777217", "16777219", "1.17549435e-38",
        "1.17549429e-38", "0.000000000000000000000000000001",
        "1000000000000000000000000000000000000000000e-42",
        "0.00000000000000000000000000000000000000000001e44");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        agrees(texts[i]);
}

SW_TEST("what is no number is refused")
{
    static const char *const texts[] = {
        "",   "-",   "+",   ".",    "-.", "e5", "1e",  "1e+", "1 2",  "1,5", "1.2.3", "0x10",
        "1f", "--1", "+-1", "1e5.", " 1", "1 ", "one", "na",  "infi", "1_0", "1e1e1", "nan1"};
    static const char *const wild[] = {"nan", "NaN", "-nan", "inf", "+Inf", "-INFINITY"};
    swi_decimal d;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        SW_CHECK(swi_decimal_read(texts[i], strlen(texts[i]), &d) == SWI_NO_NUMBER, "'%s'",
                 texts[i]);
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++)
        SW_CHECK(swi_decimal_read(wild[i], strlen(wild[i]), &d) == SWI_NOT_FINITE, "'%s'",
                 wild[i]);
    CU_ASSERT_EQUAL(swi_decimal_read("12x", 2, &d), SWI_NUMBER); /* no further than told */
}

SW_TEST("random numbers round to the nearest")
{
    sw_dice dice = {.state = 11};
    const int n = sw_tests_full() ? 3000000 : 100000;
    for (int i = 0; i < n; i++) {
        char text[80];
        const int digits = 1 + (int)sw_dice_below(&dice, 30);
        int at = 0;
        for (int k = 0; k < digits; k++)
            text[at++] = (char)('0' + sw_dice_below(&dice, 10));
        snprintf(text + at, sizeof text - (size_t)at, ".%llue%d",
                 (unsigned long long)sw_dice_below(&dice, 100000),
                 (int)sw_dice_below(&dice, 60) - 50 - digits / 2);
        if (!agrees(text))
            return;
    }
}

/* Exactly between two floats, and as little as one digit beside. */
SW_TEST("ties go to even")
{
    sw_dice dice = {.state = 12};
    for (int i = 0; i < (sw_tests_full() ? 100000 : 3000); i++) {
        char text[256];
        uint32_t bits = (uint32_t)sw_dice_below(&dice, i % 3 == 0 ? 0x00ffffff : 0x7f7fffff);
        float low;
        memcpy(&low, &bits, sizeof low);
        const double middle = ((double)low + (double)nextafterf(low, INFINITY)) / 2.0;
        const int length = snprintf(text, sizeof text, "%.149e", middle); /* every digit */
        if (!agrees(text))
            return;
        char *last = strchr(text, 'e') - 1;
        *last = '1'; /* it was '0' */
        if (!agrees(text))
            return;
        *last = '0';
        while (last > text && *last == '0')
            last--;
        *last = (char)(*last == '.' ? '.' : *last - 1);
        if (!agrees(text) || length < 0)
            return;
    }
}

SW_TEST("whole numbers are known")
{
    static const struct {
        const char *text, *whole; /* NULL: none */
    } cases[] =
        SW_INIT({"0", "0"}, {"-0.0", "0"}, {"12", "12"}, {"-7", "-7"}, {"+3", "3"},
                {"0012.00", "12"}, {"1.2e1", "12"}, {"1.000000e+00", "1"}, {"120", "120"},
                {"1e17", "100000000000000000"}, {"999999999999999999", "999999999999999999"},
                {"1e18", NULL}, {"1.5", NULL}, {"1e-1", NULL}, {"1e999999999", NULL});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char whole[SWI_WHOLE_BYTES] = "";
        swi_decimal d;
        CU_ASSERT_EQUAL(swi_decimal_read(cases[i].text, strlen(cases[i].text), &d), SWI_NUMBER);
        const bool is = swi_decimal_whole(&d, whole);
        SW_CHECK(is == (cases[i].whole != NULL) && (!is || strcmp(whole, cases[i].whole) == 0),
                 "%s: '%s'", cases[i].text, whole);
    }
}
