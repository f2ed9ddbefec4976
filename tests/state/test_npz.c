/* NumPy's archives of parameters: what they hold, what is refused, and that a failure leaves
 * the file that was there. */
#include "alloc/base/fault.h"
#include "runtime/state/npz.h"
#include "tests/state/read_npz.h"
#include "tests/state/tensor_files.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ARRAYS 8

typedef struct {
    npz_array array[ARRAYS];
    unsigned char data[ARRAYS][4096];
    int n;
    uint64_t all; /* arrays, also those that are not kept */
} archive;

static void keep(void *context, const npz_array *a)
{
    archive *to = context;
    CU_ASSERT_EQUAL(a->at % 64, 0);
    if (to->n < ARRAYS) {
        to->array[to->n] = *a;
        memcpy(to->data[to->n++], a->data, a->bytes < 4096 ? (size_t)a->bytes : 4096);
    }
    to->all++;
}

/* All of the file at `path`, which is sound. */
static const archive *read_back(const char *path, char *comment, size_t room)
{
    static archive got;
    got.n = 0;
    got.all = 0;
    FILE *file = fopen(path, "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    const char *wrong = npz_read(file, keep, &got, comment, room);
    fclose(file);
    SW_CHECK(wrong == NULL, "%s: %s", path, wrong);
    return &got;
}

static void a_model_is_an_archive(void)
{
    char path[600], comment[400];
    sw_model *model = chance_model("m", 3);
    snprintf(path, sizeof path, "%s", sw_temp_path("model.npz"));
    CHECK_OK(sw_model_note(model, "normalise", "0.5,0.25"));
    CHECK_OK(sw_model_note(model, "by", "a test"));
    CHECK_OK(sw_model_save(model, path));
    const archive *got = read_back(path, comment, sizeof comment);
    CU_ASSERT_STRING_EQUAL(comment, "normalise=0.5,0.25\nby=a test\n");
    uint32_t n = 0;
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *e = &model->entries[i];
        if (e->role != SWI_ROLE_PARAMETER && e->role != SWI_ROLE_BUFFER)
            continue;
        CU_ASSERT_FATAL(n < (uint32_t)got->n);
        const npz_array *a = &got->array[n];
        SW_CHECK(strcmp(a->name, e->name) == 0 && strcmp(a->descr, "<f4") == 0 &&
                     a->bytes == e->bytes && e->bytes <= 4096 &&
                     memcmp(got->data[n], model->base + e->offset, e->bytes) == 0,
                 "%s: %s %s", a->name, a->descr, a->shape);
        n++;
    }
    CU_ASSERT(n >= 3 && n == got->all);
}

static sw_status write_npz(const char *path, const swi_tensor_list *list,
                           const swi_tensors_note *notes, uint32_t n)
{
    sw_file *file;
    SW_TRY(sw_file_open(&file, path, SW_FILE_WRITE));
    const sw_status status = swi_npz_write(file, list, notes, n);
    const sw_status closed = sw_file_close(file);
    return status != SW_OK ? status : closed;
}

static void free_list(void *list)
{
    swi_list_free(list);
}

static void set_type(swi_tensor *t, sw_dtype dtype, sw_shape shape)
{
    t->dtype = dtype;
    t->shape = shape;
}

static void every_type_and_shape(void)
{
    static unsigned char data[96];
    static swi_tensor_list list;
    static const char *const descr[] = {"<f4", "<f8", "<f4", "<i4", "|u1"}, *const shape[] = {
                                                                                "()", "(2, 3)",
                                                                                "(12, 1)",
                                                                                "(0, 5)",
                                                                                "(7,)"};
    static const size_t sizes[] = {4, 48, 24, 0, 7}, become[] = {4, 48, 48, 0, 7};
    char path[600];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 29 + 3);
    sw_after(free_list, &list);
    for (int i = 0; i < 5; i++) {
        const char name[] = {'a', '/', (char)('p' + i), '\0'};
        CHECK_OK(swi_list_bytes(&list, name, data + i, sizes[i]));
    }
    set_type(&list.at[0], SW_F32, SW_SCALAR);
    set_type(&list.at[1], SW_F64, SW_SHAPE(2, 3));
    set_type(&list.at[2], SW_BF16, SW_SHAPE(12, 1));
    set_type(&list.at[3], SW_I32, SW_SHAPE(0, 5));
    set_type(&list.at[4], SW_U8, SW_SHAPE(7));
    snprintf(path, sizeof path, "%s", sw_temp_path("types.npz"));
    CHECK_OK(write_npz(path, &list, NULL, 0));
    const archive *got = read_back(path, NULL, 0);
    CU_ASSERT_EQUAL_FATAL(got->n, 5);
    for (int i = 0; i < 5; i++) {
        const npz_array *a = &got->array[i];
        SW_CHECK(strcmp(a->descr, descr[i]) == 0 && strcmp(a->shape, shape[i]) == 0 &&
                     a->bytes == become[i] && a->name[2] == 'p' + i,
                 "%s %s %s", a->name, a->descr, a->shape);
        if (i != 2)
            CU_ASSERT(memcmp(got->data[i], data + i, sizes[i]) == 0);
    }
    for (size_t k = 0; k < 24; k += 2) { /* the upper half of a float32 */
        const unsigned char must[] = {0, 0, data[2 + k], data[3 + k]};
        CU_ASSERT(memcmp(got->data[2] + 2 * k, must, 4) == 0);
    }
}

/* A bfloat16 tensor goes through several blocks, and a stack has its parts in front. */
static void long_and_stacked_tensors(void)
{
    static unsigned char data[10000];
    static swi_tensor_list list;
    char path[600];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 + (i >> 8));
    sw_after(free_list, &list);
    CHECK_OK(swi_list_bytes(&list, "long", data, sizeof data));
    set_type(&list.at[0], SW_BF16, SW_SHAPE(5000));
    CHECK_OK(swi_list_parts(&list, "stack", data, 8, 3));
    set_type(&list.at[1], SW_F64, SW_SHAPE(1));
    snprintf(path, sizeof path, "%s", sw_temp_path("long.npz"));
    CHECK_OK(write_npz(path, &list, NULL, 0));
    const archive *got = read_back(path, NULL, 0);
    CU_ASSERT_EQUAL_FATAL(got->n, 2);
    CU_ASSERT(got->array[0].bytes == 20000 && strcmp(got->array[1].shape, "(3, 1)") == 0);
    bytes file = file_get(path);
    for (size_t k = 0; k < 5000; k++) {
        const unsigned char must[] = {0, 0, data[2 * k], data[2 * k + 1]};
        if (memcmp(file.at + got->array[0].at + 4 * k, must, 4) != 0) {
            SW_CHECK(false, "element %zu", k);
            break;
        }
    }
    bytes_free(&file);
}

static void the_same_tensors_are_the_same_bytes(void)
{
    sw_model *model = chance_model("m", 5);
    CHECK_OK(sw_model_save(model, sw_temp_path("one.npz")));
    CHECK_OK(sw_model_save(model, sw_temp_path("two.npz")));
    bytes a = file_get(sw_temp_path("one.npz")), b = file_get(sw_temp_path("two.npz"));
    CU_ASSERT(a.n > 0 && a.n == b.n && memcmp(a.at, b.at, a.n) == 0);
    bytes_free(&a);
    bytes_free(&b);
}

/* The directory counts to 65,534; what has more has another end. */
static void as_many_arrays_as_there_may_be(void)
{
    static swi_tensor_list list;
    static const unsigned char byte = 5;
    char path[600];
    sw_after(free_list, &list);
    for (uint32_t i = 0; i < 65536; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%u", i);
        if (swi_list_bytes(&list, name, &byte, 1) != SW_OK) {
            SW_CHECK(false, "%s", sw_last_error());
            return;
        }
    }
    snprintf(path, sizeof path, "%s", sw_temp_path("many.npz"));
    for (uint32_t n = 65534; n <= 65536; n++) {
        swi_tensor_list some = list;
        some.n = n;
        CHECK_OK(write_npz(path, &some, NULL, 0));
        CU_ASSERT_EQUAL(read_back(path, NULL, 0)->all, n);
    }
    CU_ASSERT_EQUAL(remove(path), 0);
}

typedef struct {
    char path[600];
    const char *wrong;
    archive got;
} reading;

static void *read_pipe(void *context)
{
    reading *r = context;
    FILE *file = fopen(r->path, "rb");
    if (file == NULL)
        return NULL;
    r->wrong = npz_read(file, keep, &r->got, NULL, 0);
    fclose(file);
    return NULL;
}

/* One that has more than 32 bits of bytes, and one behind it: through a pipe, so that no disk
 * has it. */
static void arrays_beyond_4_gib(void)
{
    static reading r;
    static swi_tensor_list list;
    const size_t part = (size_t)64 << 20;
    unsigned char *data = calloc(part, 1);
    pthread_t reader;
    CU_ASSERT_PTR_NOT_NULL_FATAL(data);
    sw_after(free, data);
    sw_after(free_list, &list);
    memset(data, 7, part);
    CHECK_OK(swi_list_bytes(&list, "large", data, part));
    list.at[0].n_parts = 65;
    list.at[0].stride = 0;
    CHECK_OK(swi_list_bytes(&list, "behind", data, 5));
    snprintf(r.path, sizeof r.path, "%s", sw_temp_path("pipe.npz"));
    r.wrong = "nothing was read";
    CU_ASSERT_EQUAL_FATAL(mkfifo(r.path, 0600), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&reader, NULL, read_pipe, &r), 0);
    const sw_status status = write_npz(r.path, &list, NULL, 0);
    pthread_join(reader, NULL);
    SW_CHECK(status == SW_OK && r.wrong == NULL, "%s", r.wrong);
    CU_ASSERT(r.got.n == 2 && r.got.array[0].bytes == 65 * (uint64_t)part &&
              r.got.array[1].bytes == 5 && r.got.data[1][4] == 7);
    CU_ASSERT_STRING_EQUAL(r.got.array[0].shape, "(65, 67108864)");
}

static void what_cannot_be_held_is_refused(void)
{
    static swi_tensor_list list;
    static unsigned char byte;
    static char key[40000], text[40000];
    char name[70000];
    const swi_tensors_note large = {key, text}, foreign = {"k", "\xff"};
    sw_after(free_list, &list);
    memset(key, 'k', sizeof key - 1);
    memset(text, 't', sizeof text - 1);
    CHECK_OK(swi_list_bytes(&list, "a", &byte, 1));
    failed_as(swi_npz_check(&list, &large, 1), SW_INVALID, "at most 65,535 bytes");
    failed_as(swi_npz_check(&list, &foreign, 1), SW_INVALID, "cannot hold the note 'k'");
    list.at[0].part_bytes = SIZE_MAX / 2;
    list.at[0].dtype = SW_BF16;
    failed_as(swi_npz_check(&list, NULL, 0), SW_INVALID, "too many for a file");
    list.at[0].part_bytes = 1;
    list.at[0].n_parts = 2;
    list.at[0].shape.rank = SW_MAX_RANK;
    failed_as(swi_npz_check(&list, NULL, 0), SW_INVALID, "no place for one more");
    list.at[0].n_parts = 1;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    list.at[0].name = name;
    failed_as(swi_npz_check(&list, NULL, 0), SW_INVALID, "cannot hold the name");
    name[65531] = '\0';
    CHECK_OK(swi_npz_check(&list, NULL, 0));
}

/* By the names alone: "a.npz" is one, ".npz" and "a.npz.bak" are not. */
static void names_decide(void)
{
    CU_ASSERT(swi_npz_is("a.npz") && swi_npz_is("/x/a.b.npz"));
    CU_ASSERT(!swi_npz_is(".npz") && !swi_npz_is("npz") && !swi_npz_is("a.npz.bak") &&
              !swi_npz_is(""));
}

static void an_archive_is_not_loaded(void)
{
    sw_model *model = chance_model("m", 5);
    char path[600];
    snprintf(path, sizeof path, "%s", sw_temp_path("load.npz"));
    CHECK_OK(sw_model_save(model, path));
    failed_as(sw_model_load(model, path), SW_FORMAT, "load.npz");
}

static uint64_t sweep(sw_fault_kind kind, sw_status expected)
{
    char path[600];
    sw_model *old = chance_model("m", 1), *model = chance_model("m", 2);
    uint64_t failed = 0;
    snprintf(path, sizeof path, "%s", sw_temp_path("sweep.npz"));
    const heap_watch heap = heap_now();
    for (uint64_t k = 0, hits = 1; hits > 0; k++) {
        CHECK_OK(sw_model_save(old, path));
        bytes before = file_get(path);
        sw_fault_plan(kind, k, SW_FAULT_ONCE);
        const sw_status status = sw_model_save(model, path);
        hits = sw_fault_hits(kind);
        sw_fault_plan(kind, 0, SW_FAULT_OFF);
        CHECK_NO_LEAK(heap);
        bytes now = file_get(path);
        CU_ASSERT_EQUAL(now.n == before.n && memcmp(now.at, before.at, now.n) == 0,
                        status != SW_OK);
        if (status != SW_OK)
            failed_as(status, expected, "");
        failed += status != SW_OK;
        bytes_free(&now);
        bytes_free(&before);
    }
    (void)read_back(path, NULL, 0);
    return failed;
}

static void every_call_can_fail(void)
{
    const uint64_t files = sweep(SW_FAULT_FILE, SW_IO),
                   memory = sweep(SW_FAULT_MEMORY, SW_NOMEM);
    sw_note("%llu sites of files, %llu of memory", (unsigned long long)files,
            (unsigned long long)memory);
    CU_ASSERT(files > 8 && memory > 4);
}

static const sw_test tests[] = {
    {"a model is an archive", a_model_is_an_archive},
    {"every type and shape", every_type_and_shape},
    {"long and stacked tensors", long_and_stacked_tensors},
    {"the same tensors are the same bytes", the_same_tensors_are_the_same_bytes},
    {"names decide", names_decide},
    {"what cannot be held is refused", what_cannot_be_held_is_refused},
    {"an archive is not loaded", an_archive_is_not_loaded},
    {"every call can fail", every_call_can_fail},
    {"as many arrays as there may be", as_many_arrays_as_there_may_be, true},
    {"arrays beyond 4 GiB", arrays_beyond_4_gib, true},
};
SW_SUITE("npz", tests)
