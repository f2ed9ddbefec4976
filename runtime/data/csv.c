/* CSV: numbers and a label per line. A file is read twice: once to count its samples and
 * classes and to check its lines, once to fill the data sets: their size is known by then.
 * Nothing of a file is kept but the record at hand. */
#include "kernels/rng.h"
#include "runtime/data/csv_internal.h"
#include "runtime/data/reader.h"
#include "runtime/base/structs.h"
#include <math.h>
#include <string.h>

#define DEFAULT_SHARE 0.2
enum { TRAIN, TEST, PARTS };

typedef struct {
    sw_csv_opts opts;
    const char *path[PARTS]; /* TEST: NULL where the parts come from one file, or is no test */
    bool split;
    swi_csv csv[PARTS];
    swi_columns columns[PARTS];
    swi_classes classes;
    uint64_t n[PARTS]; /* samples of each file, then of each part */
    sw_dataset *part[PARTS];
    uint64_t filled[PARTS];
} reader;

/* ---- first: count and check -------------------------------------------------------------- */

static sw_status scan_label(reader *r, int which)
{
    swi_columns *columns = &r->columns[which];
    const swi_csv *csv = &r->csv[which];
    char buffer[SWI_WHOLE_BYTES];
    const char *word = NULL;
    bool fits = true;
    SW_TRY(swi_columns_check(columns, csv));
    if (columns->label < 0)
        return SW_OK;
    SW_TRY(swi_columns_label(columns, csv, buffer, &word));
    if (which == TRAIN)
        SW_TRY(swi_classes_add(&r->classes, word, &fits));
    else if (swi_classes_find(&r->classes, word) < 0)
        return swi_columns_refuse(columns, csv, columns->label,
                                  "is out of range: no line for training has this label");
    if (!fits)
        return swi_columns_refuse(columns, csv, columns->label,
                                  "is the label of more than 65536 classes: the option for the "
                                  "label column chooses another");
    return SW_OK;
}

/* Stand after the header line, where there is one. */
static sw_status skip_header(reader *r, int which)
{
    return r->columns[which].header ? swi_csv_next(&r->csv[which]) : SW_OK;
}

/* As many columns are a file without labels; 0: none is. */
static int64_t unlabelled(const reader *r, int which)
{
    if (r->opts.unlabelled >= 0)
        return which == TRAIN ? r->opts.unlabelled : 0;
    return which == TEST ? r->columns[TRAIN].n - 1 : 0;
}

static sw_status scan(reader *r, int which)
{
    swi_csv *csv = &r->csv[which];
    swi_columns *columns = &r->columns[which];
    SW_TRY(swi_csv_open(csv, r->path[which], r->opts.separator, r->opts.unpack_bytes));
    SW_TRY(swi_csv_next(csv));
    SW_TRY(swi_columns_read(columns, csv, r->opts.label, r->opts.header, unlabelled(r, which)));
    if (which == TEST) {
        SW_TRY(swi_columns_match(columns, csv, &r->columns[TRAIN], r->path[TRAIN]));
        if (columns->label >= 0)
            columns->label = r->columns[TRAIN].label;
    }
    SW_TRY(skip_header(r, which));
    for (; csv->n_fields > 0; r->n[which]++) {
        SW_TRY(scan_label(r, which));
        SW_TRY(swi_csv_next(csv));
    }
    if (r->n[which] == 0)
        SW_FAIL(SW_FORMAT, "%s: a header line and no sample after it",
                swi_source_path(csv->source));
    return swi_dataset_check_count(r->path[which], r->n[which]);
}

/* ---- then: fill -------------------------------------------------------------------------- */

static sw_status make_part(reader *r, int which, const char *path)
{
    const swi_columns *columns = &r->columns[r->path[which] != NULL ? which : TRAIN];
    const sw_shape features = {1, {swi_columns_features(columns)}}, label = {0, {0}};
    SW_TRY(swi_dataset_new(&r->part[which], path, (int64_t)r->n[which]));
    sw_dataset *part = r->part[which];
    part->n_classes = r->classes.n;
    part->shapes_only = r->opts.shapes_only != 0;
    SW_TRY(swi_dataset_field(part, SW_F32, features));
    if (columns->label >= 0)
        SW_TRY(swi_dataset_field(part, part->n_classes <= 256 ? SW_U8 : SW_I32, label));
    if (r->classes.n == 0)
        return SW_OK;
    void *names;
    SW_TRY(sw_heap_alloc(&names, SW_HEAP_FILES, r->classes.used));
    swi_classes_list(&r->classes, names);
    const sw_status status = swi_dataset_name_classes(part, names, r->classes.used);
    sw_heap_free(names, SW_HEAP_FILES, r->classes.used);
    return status;
}

/* The record at hand becomes the next sample of a part. */
static sw_status take_record(reader *r, int file, int to)
{
    swi_columns *columns = &r->columns[file];
    const swi_csv *csv = &r->csv[file];
    sw_dataset *part = r->part[to];
    char buffer[SWI_WHOLE_BYTES];
    const char *word = NULL;
    int64_t number = 0;
    SW_TRY(swi_columns_check(columns, csv));
    if (columns->label >= 0) {
        SW_TRY(swi_columns_label(columns, csv, buffer, &word));
        number = swi_classes_find(&r->classes, word);
    }
    if (r->filled[to] == r->n[to] || number < 0)
        SW_FAIL(SW_FORMAT, "%s: changed while it was read", swi_source_path(csv->source));
    const uint64_t sample = r->filled[to]++;
    float *x =
        (float *)(void *)part->field[0].data + sample * (uint64_t)swi_columns_features(columns);
    for (int i = 0; i < columns->n; i++)
        if (i != columns->label)
            SW_TRY(swi_columns_number(columns, csv, i, x++));
    if (columns->label < 0)
        return SW_OK;
    const uint32_t rank = r->classes.rank[number];
    if (part->field[1].dtype == SW_U8)
        part->field[1].data[sample] = (unsigned char)rank;
    else
        ((int32_t *)(void *)part->field[1].data)[sample] = (int32_t)rank;
    return SW_OK;
}

static sw_status fill(reader *r, int file)
{
    swi_csv *csv = &r->csv[file];
    const uint64_t all = file == TRAIN && r->split ? r->n[TRAIN] + r->n[TEST] : r->n[file];
    uint64_t i = 0;
    SW_TRY(swi_csv_rewind(csv));
    SW_TRY(swi_csv_next(csv));
    SW_TRY(skip_header(r, file));
    for (; csv->n_fields > 0; i++) {
        int to = file;
        if (r->split && i < all &&
            swi_split_takes(r->opts.seed, i, all - i, r->n[TEST] - r->filled[TEST]))
            to = TEST;
        SW_TRY(take_record(r, file, to));
        SW_TRY(swi_csv_next(csv));
    }
    if (i != all)
        SW_FAIL(SW_FORMAT, "%s: changed while it was read", swi_source_path(csv->source));
    return SW_OK;
}

/* ---- mean 0 and deviation 1 -------------------------------------------------------------- */

/* Each column of the training part gets mean 0 and deviation 1, and those of the test part are
 * moved alike. Sums are those of distances from the first sample, so that a column of one value
 * has a deviation of exactly 0; it only loses its mean. */
static void standardise_column(reader *r, int64_t column, int64_t columns)
{
    double mean = 0.0, squares = 0.0;
    const int64_t n = r->part[TRAIN]->n;
    const float *x = (const float *)(const void *)r->part[TRAIN]->field[0].data + column;
    const double origin = (double)x[0];
    for (int64_t i = 0; i < n; i++)
        mean += (double)x[i * columns] - origin;
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x[i * columns] - origin - mean;
        squares += d * d;
    }
    const double deviation = squares > 0.0 ? sqrt(squares / (double)n) : 1.0;
    for (int p = 0; p < PARTS; p++) {
        if (r->part[p] == NULL)
            continue;
        float *y = (float *)(void *)r->part[p]->field[0].data + column;
        for (int64_t i = 0; i < r->part[p]->n; i++)
            y[i * columns] = (float)(((double)y[i * columns] - origin - mean) / deviation);
    }
}

/* ---- the whole --------------------------------------------------------------------------- */

static sw_status split(reader *r)
{
    const uint64_t all = r->n[TRAIN];
    const double share = r->opts.test_share > 0.0 ? r->opts.test_share : DEFAULT_SHARE;
    if (all < 2)
        SW_FAIL(SW_FORMAT,
                "%s: one sample cannot be split into a part for training and one for "
                "testing: name a file for testing",
                r->path[TRAIN]);
    const uint64_t test = (uint64_t)llround(share * (double)all);
    r->n[TEST] = test < 1 ? 1 : test > all - 1 ? all - 1 : test;
    r->n[TRAIN] = all - r->n[TEST];
    return SW_OK;
}

static sw_status read_all(reader *r, bool test)
{
    SW_TRY(swi_classes_open(&r->classes));
    SW_TRY(scan(r, TRAIN));
    if (r->columns[TRAIN].label < 0)
        r->split = test = false;
    if (r->path[TEST] != NULL)
        SW_TRY(scan(r, TEST));
    if (r->split)
        SW_TRY(split(r));
    swi_classes_sort(&r->classes, r->columns[TRAIN].numbers);
    for (int p = 0; p < (test ? PARTS : TEST); p++)
        SW_TRY(make_part(r, p, r->path[p] != NULL ? r->path[p] : r->path[TRAIN]));
    if (r->opts.shapes_only)
        return SW_OK;
    for (int file = 0; file < PARTS && r->path[file] != NULL; file++)
        SW_TRY(fill(r, file));
    const int64_t columns = swi_columns_features(&r->columns[TRAIN]);
    for (int64_t column = 0; r->opts.standardise && column < columns; column++)
        standardise_column(r, column, columns);
    return SW_OK;
}

static sw_status check_opts(const sw_csv_opts *o, const char *path, bool test)
{
    if (path == NULL || path[0] == '\0')
        SW_FAIL(SW_INVALID, "sw_dataset_csv: path must not be NULL or empty");
    if (!(o->test_share >= 0.0 && o->test_share < 1.0))
        SW_FAIL(SW_INVALID, "sw_dataset_csv: test_share must be above 0 and below 1 (got %g)",
                o->test_share);
    if (o->test_path != NULL && (o->test_share > 0.0 || !test))
        SW_FAIL(SW_INVALID, "sw_dataset_csv: a file for testing and %s exclude each other",
                test ? "a share of the other" : "no data set for it");
    if (o->unlabelled < -1 || (o->unlabelled > 0 && o->test_path != NULL) ||
        (o->unlabelled < 0 && o->test_path == NULL))
        SW_FAIL(SW_INVALID,
                "sw_dataset_csv: unlabelled must be 0, a number of columns without test_path, "
                "or -1 with it (got %lld)",
                (long long)o->unlabelled);
    if (o->separator != '\0' && o->separator != ',' && o->separator != ';' &&
        o->separator != '\t')
        SW_FAIL(SW_INVALID,
                "sw_dataset_csv: separator must be a comma, semicolon or tab (got %d)",
                o->separator);
    return SW_OK;
}

sw_status sw_dataset_csv(sw_dataset **train, sw_dataset **test, const char *path,
                         const sw_csv_opts *given)
{
    reader r = {.path = {path}};
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_csv_opts, &r.opts, given, "sw_dataset_csv"));
    if (train == NULL)
        SW_FAIL(SW_INVALID, "sw_dataset_csv: train must not be NULL");
    SW_TRY(check_opts(&r.opts, path, test != NULL));
    r.path[TEST] = r.opts.test_path;
    r.split = test != NULL && r.opts.test_path == NULL;
    const sw_status status = read_all(&r, test != NULL);
    swi_classes_close(&r.classes);
    for (int p = 0; p < PARTS; p++) {
        swi_columns_free(&r.columns[p]);
        swi_csv_close(&r.csv[p]);
        if (status != SW_OK)
            sw_dataset_destroy(r.part[p]);
    }
    if (status != SW_OK)
        return status;
    *train = r.part[TRAIN];
    if (test != NULL)
        *test = r.part[TEST];
    return SW_OK;
}

/* ---- as a reader ------------------------------------------------------------------------- */

static sw_status read_named(sw_dataset **train, sw_dataset **test, const char *path,
                            const swi_reader_opts *o)
{
    sw_csv_opts opts = *o->csv;
    opts.shapes_only = o->shapes_only;
    opts.unpack_bytes = o->unpack_bytes;
    return sw_dataset_csv(train, test, path, &opts);
}

const swi_reader swi_reader_csv = {.name = "csv",
                                   .path = "FILE",
                                   .about = "for numbers and a class per line",
                                   .takes = SWI_TAKES_TEST | SWI_TAKES_SHARE | SWI_TAKES_TABLE,
                                   .both = read_named};
