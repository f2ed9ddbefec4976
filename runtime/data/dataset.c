/* The record of a data set: whole fields in memory. */
#include "alloc/base/size.h"
#include "alloc/base/sys.h"
#include "kernels/attrs.h"
#include "kernels/bijection.h"
#include "kernels/rng.h"
#include "runtime/base/checksum.h"
#include "runtime/base/file_kind.h"
#include "runtime/base/structs.h"
#include "runtime/data/data_internal.h"
#include "runtime/data/reader.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

sw_status swi_dataset_new(sw_dataset **out, const char *name, int64_t n)
{
    const size_t name_bytes = strlen(name) + 1;
    sw_dataset *dataset;
    SW_TRY(sw_handle_take(&dataset, SW_HANDLE_DATASET, sizeof(sw_dataset)));
    const sw_status status = sw_heap_alloc(&dataset->name, SW_HEAP_DATASETS, name_bytes);
    if (status != SW_OK) {
        sw_handle_give(dataset, SW_HANDLE_DATASET, sizeof *dataset);
        return status;
    }
    dataset->users = 1;
    dataset->n = n;
    dataset->n_classes = 10;
    dataset->places = 1;
    dataset->name_bytes = name_bytes;
    memcpy(dataset->name, name, name_bytes);
    *out = dataset;
    return SW_OK;
}

sw_status swi_dataset_field(sw_dataset *dataset, sw_dtype dtype, sw_shape shape)
{
    int64_t elements;
    size_t each, bytes;
    if (!sw_size_elements(shape.dim, shape.rank, &elements) ||
        !sw_size_mul((size_t)elements, sw_dtype_bytes(dtype), &each) ||
        !sw_size_mul(each, (size_t)dataset->n, &bytes))
        SW_FAIL(SW_NOMEM, "%s: %lld samples overflow", dataset->name, (long long)dataset->n);
    swi_field field = {
        .dtype = dtype, .shape = shape, .sample_bytes = each, .stride = (ptrdiff_t)each};
    if (!dataset->shapes_only) {
        SW_TRY(sw_heap_alloc(&field.block, SW_HEAP_DATASETS, bytes));
        field.data = field.block;
        field.bytes = bytes;
    }
    dataset->field[dataset->n_fields++] = field;
    return SW_OK;
}

sw_status swi_dataset_name_classes(sw_dataset *dataset, const char *text, size_t bytes)
{
    const size_t pointers = (size_t)dataset->n_classes * sizeof *dataset->names;
    SW_TRY(sw_heap_alloc(&dataset->names, SW_HEAP_DATASETS, pointers + bytes));
    char *copy = (char *)(void *)dataset->names + pointers;
    memcpy(copy, text, bytes);
    dataset->names_bytes = pointers + bytes;
    for (int64_t i = 0; i < dataset->n_classes; i++) {
        dataset->names[i] = copy;
        copy += strlen(copy) + 1;
    }
    return SW_OK;
}

sw_status swi_dataset_check_count(const char *path, uint64_t n_samples)
{
    if (n_samples > UINT32_MAX)
        SW_FAIL(SW_FORMAT, "%s: must have at most %llu samples (got %llu)", path,
                (unsigned long long)UINT32_MAX, (unsigned long long)n_samples);
    return SW_OK;
}

void swi_dataset_share(const sw_dataset *shared)
{
    sw_dataset *dataset = (sw_dataset *)(uintptr_t)shared;
    __atomic_add_fetch(&dataset->users, 1, __ATOMIC_RELAXED);
}

void swi_dataset_release(const sw_dataset *shared)
{
    sw_dataset *dataset = (sw_dataset *)(uintptr_t)shared;
    if (__atomic_sub_fetch(&dataset->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (int i = 0; i < dataset->n_fields; i++)
        sw_heap_free(dataset->field[i].block, SW_HEAP_DATASETS, dataset->field[i].bytes);
    sw_heap_free(dataset->names, SW_HEAP_DATASETS, dataset->names_bytes);
    if (dataset->counts != NULL)
        sw_heap_free(dataset->counts, SW_HEAP_DATASETS,
                     (size_t)dataset->n * sizeof *dataset->counts);
    sw_heap_free(dataset->name, SW_HEAP_DATASETS, dataset->name_bytes);
    sw_handle_give(dataset, SW_HANDLE_DATASET, sizeof *dataset);
}

/* Loaders go on with what they have; for callers it is gone. */
void sw_dataset_destroy(sw_dataset *dataset)
{
    if (!sw_handle_ends(dataset, SW_HANDLE_DATASET, "sw_dataset_destroy"))
        return;
    sw_handle_end(dataset, SW_HANDLE_DATASET);
    swi_dataset_release(dataset);
}

void sw_dataset_describe(const sw_dataset *dataset, sw_dataset_info *out)
{
    static const char call[] = "sw_dataset_describe";
    if (swi_struct_check(SWI_STRUCT_sw_dataset_info, out, call) != SW_OK)
        return; /* the reason is sw_last_error()'s */
    sw_dataset_info info;
    memset(&info, 0, sizeof info);
    if (dataset != NULL && sw_handle_check(dataset, SW_HANDLE_DATASET, call) == SW_OK) {
        info.n = dataset->n;
        info.n_classes = dataset->n_classes;
        info.n_fields = dataset->n_fields;
        info.name = dataset->name;
        for (int i = 0; i < dataset->n_fields; i++) {
            const swi_field *field = &dataset->field[i];
            info.field[i] = (sw_array){field->dtype, field->shape, field->data};
            info.bytes += field->bytes;
        }
        info.class_names = dataset->names;
    }
    swi_struct_write(SWI_STRUCT_sw_dataset_info, out, &info);
}

/* ---- dataset hash ------------------------------------------------------------------------ */

/* The checksum of a data set: what says whether a run goes on with the samples that it began
 * with. Names do not count, nor how the samples are stored. */

static void add_number(swi_checksum *sum, uint64_t x)
{
    swi_checksum_add(sum, &x, sizeof x);
}

sw_status sw_dataset_hash(const sw_dataset *dataset, uint64_t *out)
{
    static const char call[] = "sw_dataset_hash";
    swi_checksum sum;
    SW_TRY(sw_handle_check(dataset, SW_HANDLE_DATASET, call));
    SW_TRY(swi_given(out != NULL, "out", call));
    if (dataset->shapes_only)
        SW_FAIL(SW_INVALID, "%s: %s has shapes alone: read it without shapes_only", call,
                dataset->name);
    swi_checksum_begin(&sum);
    /* The numbers say where each field ends, so that no two data sets give the same bytes. */
    add_number(&sum, (uint64_t)dataset->n);
    add_number(&sum, (uint64_t)dataset->n_classes);
    add_number(&sum, dataset->places);
    add_number(&sum, (uint64_t)dataset->n_fields);
    for (int i = 0; i < dataset->n_fields; i++) {
        const swi_field *field = &dataset->field[i];
        add_number(&sum, (uint64_t)field->dtype);
        add_number(&sum, (uint64_t)field->shape.rank);
        for (int d = 0; d < field->shape.rank; d++)
            add_number(&sum, (uint64_t)field->shape.dim[d]);
    }
    /* All that a batch may read of a field: samples of all places. Fields that share a block
     * are read one after the other. Samples that do not lie side by side give what they would
     * give if they did. */
    for (int f = 0; f < dataset->n_fields && dataset->n > 0; f++) {
        const swi_field *field = &dataset->field[f];
        const size_t n = (size_t)dataset->n, each = field->sample_bytes;
        if (field->stride == (ptrdiff_t)each)
            swi_checksum_add(&sum, field->data,
                             n * each + (dataset->places - 1) * sw_dtype_bytes(field->dtype));
        for (size_t i = 0; field->stride != (ptrdiff_t)each && i < n; i++)
            swi_checksum_add(&sum, swi_sample_at(field, i, 0), each);
    }
    *out = swi_checksum_end(&sum);
    return SW_OK;
}

/* ---- split ------------------------------------------------------------------------------- */

/* Two parts of a data set, for training and for validation. Which samples go where is a keyed
 * permutation of their numbers, of which nothing is stored. */

bool swi_split_takes(uint64_t seed, uint64_t i, uint64_t left, uint64_t second)
{
    uint32_t words[4];
    sw_rng_words(words, seed, (uint32_t)i, sw_rng_stream("split"), 0, 0);
    return (words[0] * left >> 32) < second;
}

static sw_status make_part(sw_dataset **out, const sw_dataset *of, int64_t n)
{
    sw_dataset *part;
    SW_TRY(swi_dataset_new(&part, of->name, n));
    *out = part;
    part->n_classes = of->n_classes;
    if (of->names != NULL) {
        const size_t pointers = (size_t)of->n_classes * sizeof *of->names;
        SW_TRY(swi_dataset_name_classes(part, of->names[0], of->names_bytes - pointers));
    }
    for (int i = 0; i < of->n_fields; i++)
        SW_TRY(swi_dataset_field(part, of->field[i].dtype, of->field[i].shape));
    return SW_OK;
}

/* Each part keeps the order that the samples had. */
static void fill(sw_dataset *const part[2], const sw_dataset *from, const sw_bijection *order)
{
    size_t filled[2] = {0, 0};
    for (int64_t i = 0; i < from->n; i++) {
        const int to = sw_bijection_at(order, (uint32_t)i) < (uint32_t)part[1]->n;
        for (int f = 0; f < from->n_fields; f++) {
            const swi_field *field = &from->field[f];
            memcpy(part[to]->field[f].data + filled[to] * field->sample_bytes,
                   swi_sample_at(field, (size_t)i, 0), field->sample_bytes);
        }
        filled[to]++;
    }
}

sw_status sw_dataset_split(sw_dataset **first, sw_dataset **second, const sw_dataset *dataset,
                           int64_t n_second, uint64_t seed)
{
    static const char call[] = "sw_dataset_split";
    sw_dataset *part[2] = {NULL, NULL};
    SW_TRY(sw_handle_check(dataset, SW_HANDLE_DATASET, call));
    if (first == NULL || second == NULL || first == second)
        SW_FAIL(SW_INVALID, "%s: first and second must be two places, and not NULL", call);
    if (dataset->shapes_only)
        SW_FAIL(SW_INVALID, "%s: %s has shapes alone: read it without shapes_only", call,
                dataset->name);
    if (n_second < 1 || n_second >= dataset->n)
        SW_FAIL(SW_INVALID,
                "%s: the second part must have at least 1 sample and leave 1 of the %lld of %s "
                "(got %lld)",
                call, (long long)dataset->n, dataset->name, (long long)n_second);
    sw_status status = make_part(&part[0], dataset, dataset->n - n_second);
    if (status == SW_OK)
        status = make_part(&part[1], dataset, n_second);
    if (status == SW_OK) {
        const sw_bijection order =
            sw_bijection_of((uint32_t)dataset->n, seed, sw_rng_stream("split"), 0);
        fill(part, dataset, &order);
    }
    return swi_parts_give(status, part, first, second);
}

/* ---- what readers do alike --------------------------------------------------------------- */

#define TEST_SHARE 0.2 /* where none is given */

sw_status swi_reader_check(const char *call, bool there, const char *what, const char *path,
                           const char *name)
{
    if (!there || path == NULL || path[0] == '\0')
        SW_FAIL(SW_INVALID, "%s: %s and %s must not be NULL, %s not empty", call, what, name,
                name);
    return SW_OK;
}

sw_status swi_reader_check_part(const char *call, const char *part, const char *other)
{
    if (part == NULL || (strcmp(part, "train") != 0 && strcmp(part, other) != 0))
        SW_FAIL(SW_INVALID, "%s: part must be 'train' or '%s' (got '%s')", call, other,
                part != NULL ? part : "");
    return SW_OK;
}

sw_status swi_reader_check_share(const char *call, double share)
{
    if (!(share >= 0.0 && share < 1.0))
        SW_FAIL(SW_INVALID, "%s: test_share must be above 0 and below 1 (got %g)", call, share);
    return SW_OK;
}

sw_status swi_split_sizes(const char *path, const char *what, double share, int64_t n,
                          int64_t *train, int64_t *test)
{
    if (n < 2)
        SW_FAIL(SW_FORMAT,
                "%s: one %s cannot be split into a part for training and one for testing: name "
                "data for testing",
                path, what);
    const int64_t some = llround((share > 0.0 ? share : TEST_SHARE) * (double)n);
    *test = some < 1 ? 1 : some > n - 1 ? n - 1 : some;
    *train = n - *test;
    return SW_OK;
}

sw_status swi_parts_give(sw_status status, sw_dataset *const part[2], sw_dataset **train,
                         sw_dataset **test)
{
    if (status != SW_OK) {
        sw_dataset_destroy(part[0]);
        sw_dataset_destroy(part[1]);
        return status;
    }
    *train = part[0];
    if (test != NULL)
        *test = part[1];
    return SW_OK;
}

sw_status swi_labels_field(sw_dataset *dataset)
{
    const sw_shape one = {0, {0}};
    return swi_dataset_field(dataset, dataset->n_classes > 256 ? SW_I32 : SW_U8, one);
}

void swi_labels_put(const sw_dataset *dataset, size_t sample, uint32_t label)
{
    const swi_field *field = &dataset->field[1];
    if (field->dtype == SW_U8)
        field->data[sample] = (unsigned char)label;
    else
        ((int32_t *)(void *)field->data)[sample] = (int32_t)label;
}

void swi_name_file(char *to, size_t bytes, const char *from, size_t n, const char *end)
{
    const int length = snprintf(to, bytes, "%.*s%s", (int)n, from, end);
    if (length < 0 || (size_t)length >= bytes)
        *to = '\0';
}

/* ---- moments ----------------------------------------------------------------------------- */

/* Mean and deviation of bytes. Sums are whole numbers, so the order of adding does not
 * matter. */

enum { PIECE = 1 << 16 }; /* bytes whose squares a uint32_t holds */

typedef struct {
    uint64_t n, sum, squares;
} sums;

static void add(sums *s, const unsigned char *x, size_t n)
{
    s->n += n;
    while (n > 0) {
        const size_t piece = n < PIECE ? n : PIECE;
        uint32_t sum = 0, squares = 0;
        for (size_t i = 0; i < piece; i++) {
            sum += x[i];
            squares += (uint32_t)x[i] * x[i];
        }
        s->sum += sum;
        s->squares += squares;
        x += piece;
        n -= piece;
    }
}

/* With 4 significant digits; the nearest number to what they say. */
static double written(double x)
{
    if (!(x > 0.0))
        return 0.0;
    const double unit = pow(10.0, 3.0 - floor(log10(x)));
    return rint(x * unit) / unit;
}

sw_status sw_dataset_moments(const sw_dataset *dataset, int field, int n, float *mean,
                             float *deviation)
{
    sums s[SW_MAX_CHANNELS] = {{0, 0, 0}};
    SW_TRY(swi_given(dataset != NULL && mean != NULL && deviation != NULL,
                     "dataset, mean and deviation", "sw_dataset_moments"));
    if (field < 0 || field >= dataset->n_fields || dataset->field[field].dtype != SW_U8)
        SW_FAIL(SW_INVALID, "%s: field %d must have bytes (u8)", dataset->name, field);
    const swi_field *f = &dataset->field[field];
    if (f->data == NULL || f->sample_bytes == 0 || dataset->n == 0)
        SW_FAIL(SW_INVALID, "%s: there are shapes alone, and no bytes to take the mean of",
                dataset->name);
    if (n < 1 || n > SW_MAX_CHANNELS || (n > 1 && (f->shape.rank < 1 || f->shape.dim[0] != n)))
        SW_FAIL(SW_INVALID, "%s: n must be 1, or the channels of a sample, at most %d (got %d)",
                dataset->name, SW_MAX_CHANNELS, n);
    const size_t plane = f->sample_bytes / (size_t)n;
    for (int64_t i = 0; i < dataset->n; i++)
        for (int c = 0; c < n; c++)
            add(&s[c], swi_sample_at(f, (size_t)i, 0) + (size_t)c * plane, plane);
    for (int c = 0; c < n; c++) {
        const double each = 1.0 / (double)s[c].n, m = (double)s[c].sum * each;
        const double variance = (double)s[c].squares * each - m * m;
        mean[c] = (float)written(m / 255.0);
        deviation[c] = (float)written(variance > 0.0 ? sqrt(variance) / 255.0 : 0.0);
        if (deviation[c] == 0.0f)
            deviation[c] = 1.0f;
    }
    return SW_OK;
}

/* Random vectors: nothing can be learned from them but how much memory and time learning
 * takes. */

sw_status sw_dataset_vectors(sw_dataset **out, int64_t n, int64_t width, uint64_t seed)
{
    if (out == NULL || n < 1 || n > UINT32_MAX || width < 1)
        SW_FAIL(SW_INVALID,
                "sw_dataset_vectors: out must not be NULL, n must be 1 to 4294967295 and width "
                "at least 1 (got %lld samples of %lld numbers)",
                (long long)n, (long long)width);
    static const char *const names[] = {"features", "targets"};
    const sw_shape shape = {1, {width}};
    sw_dataset *dataset;
    SW_TRY(swi_dataset_new(&dataset, "synthetic", n));
    dataset->n_classes = 0;
    for (int i = 0; i < 2; i++) {
        const sw_status status = swi_dataset_field(dataset, SW_F32, shape);
        if (status != SW_OK) {
            sw_dataset_destroy(dataset);
            return status;
        }
        float *to = (float *)(void *)dataset->field[i].data;
        for (int64_t k = 0; k < n; k++)
            sw_rng_normal(to + k * width, 0, width, seed, sw_rng_stream(names[i]), (uint32_t)k,
                          0);
    }
    *out = dataset;
    return SW_OK;
}

/* ---- identify ---------------------------------------------------------------------------- */

/* Files by their first bytes, folders by what is in them. */

#define PICKLE                                                                                 \
    "a Python pickle, which old torch.save() writes too: save the arrays with "                \
    "numpy.savez(FILE, x=x, y=y) and give npz:FILE"

static const char *const is_a[SWI_FILE_KINDS] = {
    [SWI_FILE_NPY] = "a .npy file",
    [SWI_FILE_NPZ] = "an .npz archive",
    [SWI_FILE_ZIP] = "a zip archive",
    [SWI_FILE_TORCH] = "a PyTorch file of torch.save(): save the arrays with "
                       "numpy.savez(FILE, x=x.numpy(), y=y.numpy()) and give npz:FILE",
    [SWI_FILE_TORCH_PICKLE] = PICKLE,
    [SWI_FILE_PICKLE] = PICKLE,
    [SWI_FILE_SAFETENSORS] =
        "a safetensors file, which has parameters (--load-params) and no samples",
    [SWI_FILE_GZIP] = "a file of gzip",
    [SWI_FILE_PNG] = "a PNG image",
    [SWI_FILE_JPEG] = "a JPEG image",
    [SWI_FILE_PARQUET] = "a Parquet file: save its columns as CSV or with numpy.savez()",
    [SWI_FILE_HDF5] = "an HDF5 file: save its arrays with numpy.savez()",
    [SWI_FILE_GGUF] = "a GGUF file, which has parameters and no samples",
    [SWI_FILE_SQLITE] = "an SQLite file: save its tables as CSV",
    [SWI_FILE_IDX] = "an IDX file: give idx:DIR, the folder that it is in",
    [SWI_FILE_PROFILE] = "a profile of stepwell: stepwell report shows it",
    [SWI_FILE_EVOLUTION] = "a file that stepwell evolve --resume goes on from",
};

const char *swi_identify_bytes(const unsigned char *head, size_t n)
{
    return is_a[swi_file_kind_of(head, n)];
}

/* The first bytes of a regular file; 0 of what cannot be read. A pipe would be waited for. */
static size_t read_head(const char *path, unsigned char *head, size_t bytes)
{
    sw_file *file;
    size_t got = 0;
    if (!sw_file_there(path) || !sw_file_replaceable(path) ||
        sw_file_open(&file, path, SW_FILE_READ) != SW_OK)
        return 0;
    if (sw_file_read(file, head, bytes, &got) != SW_OK)
        got = 0;
    sw_file_drop(file);
    return got;
}

const char *swi_identify(const char *path, char *text, size_t bytes)
{
    unsigned char head[SWI_FILE_HEAD];
    if (snprintf(text, bytes, "%s/train.bin", path) < (int)bytes && sw_file_there(text)) {
        snprintf(text, bytes, "is a folder of tokens: give tokens:%s", path);
        return text;
    }
    const size_t n = read_head(path, head, sizeof head);
    const swi_file_kind kind = swi_file_kind_of(head, n);
    const char *is = is_a[kind];
    const size_t length = strlen(path);
    if (is == NULL && n > 0 && length >= 4 && strcmp(path + length - 4, ".bin") == 0) {
        snprintf(text, bytes, "is a file: give tokens:%s", path);
        return text;
    }
    if (is == NULL || kind == SWI_FILE_GZIP) /* what is compressed goes by its name */
        return NULL;
    const char *reader = kind == SWI_FILE_NPY   ? ": give npy:INPUTS,TARGETS"
                         : kind == SWI_FILE_NPZ ? ": give npz:FILE"
                                                : "";
    snprintf(text, bytes, "is %s%s", is, reader);
    return text;
}

/* ---- reader ------------------------------------------------------------------------------ */

/* The table of readers. */

static const swi_reader *const readers[] = {
#define SW_READER(name) &swi_reader_##name,
#include "runtime/data/readers.def"
#undef SW_READER
};

const swi_reader *swi_reader_at(size_t i)
{
    return i < sizeof readers / sizeof *readers ? readers[i] : NULL;
}

const swi_reader *swi_reader_of(const char *source, const char **path)
{
    const size_t n = strcspn(source, ":");
    for (size_t i = 0; source[n] == ':' && i < sizeof readers / sizeof *readers; i++)
        if (strlen(readers[i]->name) == n && strncmp(readers[i]->name, source, n) == 0) {
            *path = source + n + 1;
            return readers[i];
        }
    return NULL;
}
