/* Files of tensors: what is written is read back, what must not be is refused, and a failure
 * changes nothing. */
#include "tests/state/tensor_files.h"
#include "runtime/base/checksum.h"
#include "tests/support/heap_sweep.h"
#include <unistd.h>

SW_TESTS("tensor file")

/* ---- checksums --------------------------------------------------------------------------- */

/* As the specification of XXH3 has it, whatever the pieces and the state's address. */
SW_TEST("checksums are those of XXH3")
{
    static unsigned char data[5000];
    unsigned char room[sizeof(swi_checksum) + 64];
    sw_dice dice = {1};
    CU_ASSERT_EQUAL(swi_checksum_of("", 0), 0x2d06800538d394c2ull);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)sw_dice_next(&dice);
    for (size_t shift = 0; shift < 64; shift += _Alignof(swi_checksum)) {
        swi_checksum *sum =
            (swi_checksum *)(void *)((unsigned char *)(((uintptr_t)room + 7) & ~(uintptr_t)7) +
                                     (shift < 56 ? shift : 56));
        const size_t n = (size_t)sw_dice_below(&dice, sizeof data);
        swi_checksum_begin(sum);
        for (size_t at = 0; at < n;) {
            size_t piece = (size_t)sw_dice_below(&dice, 600);
            piece = piece < n - at ? piece : n - at;
            swi_checksum_add(sum, data + at, piece);
            at += piece;
        }
        CU_ASSERT_EQUAL(swi_checksum_end(sum), swi_checksum_of(data, n));
    }
}

/* ---- written and read back --------------------------------------------------------------- */

static void has_bytes(swi_tensors *file, const char *name, const void *must, size_t n)
{
    unsigned char got[4096] = {0};
    const swi_tensors_entry *entry = swi_tensors_find(file, name);
    if (!SW_CHECK(entry != NULL && n <= sizeof got, "'%s'", name))
        return;
    OK(swi_tensors_read(file, entry, got, n));
    SW_CHECK(n == 0 || memcmp(got, must, n) == 0, "'%s' differs", name);
}

/* A model with an entry of each type. */
static sw_model *typed_model(void)
{
    static const sw_dtype types[] = {SW_U8, SW_BF16, SW_I32, SW_F64, SW_F32};
    sw_exec *exec = made_exec(NULL);
    sw_model *model = made_model("typed");
    for (int i = 0; i < 5; i++)
        CU_ASSERT(swi_model_entry(model, sw_dtype_name(types[i]), SWI_ROLE_BUFFER, types[i],
                                  SW_SHAPE(3), "zeros") != 0);
    OK(sw_model_ready(model, exec, 1));
    for (size_t i = 0; i < model->bytes; i++)
        model->base[i] = (unsigned char)(i * 7);
    return model;
}

SW_TEST("all types and bytes come back")
{
    sw_model *model = typed_model();
    swi_tensor_list list = {0};
    swi_tensors *file;
    uint64_t file_bytes;
    OK(swi_list_models(&list, &model, 1, ALL_ROLES, ""));
    list_run(&list, one_model_run);
    OK(swi_list_bytes(&list, "stepwell.blob/x", "seven!!", 7));
    OK(swi_list_bytes(&list, "stepwell.blob/none", NULL, 0));
    OK(swi_tensors_bytes(&list, checkpoint_marks, N_MARKS, &file_bytes));
    OK(write_tensors(sw_temp_path("types"), &list, checkpoint_marks, N_MARKS));
    OK(swi_tensors_open(&file, sw_temp_path("types")));
    OK(swi_tensors_verify(file));
    CU_ASSERT_EQUAL(swi_tensors_file_bytes(file), file_bytes);
    CU_ASSERT_EQUAL(swi_tensors_count(file), 8);
    CU_ASSERT(swi_tensors_has_checksums(file) && swi_tensors_is_checkpoint(file));
    CU_ASSERT_STRING_EQUAL(swi_tensors_text(file, "stepwell.command"), "a \"test\"");
    CU_ASSERT_STRING_EQUAL(swi_tensors_text(file, "format"), "pt");
    CU_ASSERT_PTR_NULL(swi_tensors_text(file, "stepwell.comman"));
    static const char *const order[] =
        SW_INIT("f64", "i32", "f32", "bf16", "u8", SWI_TENSORS_RUN, "stepwell.blob/x",
                "stepwell.blob/none");
    for (uint32_t i = 0; i < 8; i++)
        CU_ASSERT_STRING_EQUAL(swi_tensors_at(file, i)->name, order[i]);
    for (uint32_t i = 1; i < model->n_entries; i++)
        has_bytes(file, model->entries[i].name, model->base + model->entries[i].offset,
                  model->entries[i].bytes);
    has_bytes(file, "stepwell.blob/x", "seven!!", 7);
    has_bytes(file, "stepwell.blob/none", "", 0);
    swi_tensors_note note;
    CU_ASSERT(swi_tensors_note_at(file, 4, &note) && !swi_tensors_note_at(file, 5, &note));
    swi_tensors_close(file);
    swi_list_free(&list);
}

/* Models of one layout are one tensor, with their number before its shape. */
SW_TEST("models are stacked")
{
    sw_model *from[3], *to[3], *one = chance_model("one", 9);
    swi_tensor_list out = {0}, in = {0}, single = {0};
    swi_tensors *file;
    for (uint64_t i = 0; i < 3; i++) {
        from[i] = chance_model("pop", i + 1);
        to[i] = chance_model("pop", i + 11);
    }
    const uint32_t roles = 1u << SWI_ROLE_PARAMETER | 1u << SWI_ROLE_BUFFER;
    OK(swi_list_models(&out, from, 3, roles, "pop/"));
    OK(swi_list_models(&out, &one, 1, roles, "one/"));
    OK(swi_list_models(&in, to, 3, roles, "pop/"));
    OK(swi_list_models(&single, &one, 1, roles, "pop/"));
    CU_ASSERT(out.n == 8 && out.n_groups == 2 && out.at[7].group == 1);
    OK(write_tensors(sw_temp_path("stacked"), &out, NULL, 0));
    OK(swi_tensors_open(&file, sw_temp_path("stacked")));
    const swi_tensors_entry *entry = swi_tensors_find(file, "pop/conv.weight");
    CU_ASSERT_PTR_NOT_NULL_FATAL(entry);
    CU_ASSERT(entry->rank == 5 && entry->dim[0] == 3 && entry->dim[1] == 3 &&
              entry->dim[4] == 2);
    failed_as(swi_tensors_load(file, &in, false, "the test"), SW_FORMAT,
              "'one/conv.weight', F32 (3, 2, 2, 2), is not in the test");
    failed_as(swi_tensors_load(file, &single, true, "it"), SW_FORMAT,
              "'pop/conv.weight' is F32 (3, 3, 2, 2, 2); it needs F32 (3, 2, 2, 2)");
    OK(swi_tensors_load(file, &in, true, "the test"));
    for (int m = 0; m < 3; m++)
        for (uint32_t i = 1; i < from[m]->n_entries; i++) {
            const swi_entry *e = &from[m]->entries[i];
            CU_ASSERT_EQUAL(
                memcmp(from[m]->base + e->offset, to[m]->base + e->offset, e->bytes) == 0,
                (roles >> e->role & 1) != 0);
        }
    swi_tensors_close(file);
    swi_list_free(&out);
    swi_list_free(&in);
    swi_list_free(&single);
}

/* A model takes its part of a checkpoint: bare names of one, MODEL/NAME of several. */
SW_TEST("a model loads from a checkpoint")
{
    sw_model *a = chance_model("a", 1), *b = chance_model("b", 2),
             *other = chance_model("c", 3);
    sw_model *back = chance_model("b", 4);
    swi_tensor_list list = {0};
    const char *path = sw_temp_path("several");
    OK(swi_list_models(&list, &a, 1, ALL_ROLES, "a/"));
    OK(swi_list_models(&list, &b, 1, ALL_ROLES, "b/"));
    list_run(&list, "{\"version\":1,\"models\":[{\"name\":\"a\"},{\"name\":\"b\"}]}");
    OK(write_tensors(path, &list, checkpoint_marks, N_MARKS));
    OK(sw_model_load(back, path));
    for (uint32_t i = 1; i < b->n_entries; i++) {
        const swi_entry *e = &b->entries[i];
        const bool saved = e->role == SWI_ROLE_PARAMETER || e->role == SWI_ROLE_BUFFER;
        CU_ASSERT_EQUAL(memcmp(b->base + e->offset, back->base + e->offset, e->bytes) == 0,
                        saved);
    }
    failed_as(sw_model_load(other, path), SW_FORMAT, "without model c: it has a, b");
    write_checkpoint(sw_temp_path("single"), a, 65536);
    OK(sw_model_load(other, sw_temp_path("single"))); /* whatever its name */
    CU_ASSERT_EQUAL(memcmp(a->base + a->entries[1].offset,
                           other->base + other->entries[1].offset, a->entries[1].bytes),
                    0);
    bytes file = file_get(path); /* damage in what it does not need */
    file.at[file.n - 1] ^= 1;
    sw_file_put(path, file.at, file.n);
    failed_as(sw_model_load(back, path), SW_FORMAT, "is damaged");
    swi_list_free(&list);
}

SW_TEST("the run is read")
{
    swi_tensors *file;
    write_checkpoint(sw_temp_path("run"), chance_model("m", 1), 65536);
    OK(swi_tensors_open(&file, sw_temp_path("run")));
    swi_run_summary run;
    OK(swi_run_summary_read(file, &run));
    CU_ASSERT(run.version == 1 && run.step == 7 && run.seed == UINT64_MAX);
    CU_ASSERT_STRING_EQUAL(run.isa, "avx2");
    CU_ASSERT(run.n_models == 1 && run.models[0].members == 1);
    CU_ASSERT_STRING_EQUAL(run.models[0].layout, "00112233aabbccdd");
    CU_ASSERT(run.n_loaders == 1 && run.loaders[0].samples == 1000 && run.loaders[0].shuffle &&
              !run.loaders[0].drop_last);
    swi_run_summary_free(&run);
    swi_tensors_close(file);
    static const char *const bad[] =
        SW_INIT("", "[]", "{\"models\":{}}", "{\"step\":-1}", "{} x",
                "{\"models\":[{\"name\":5}]}", "{\"new\":[1}");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        swi_tensor_list list = {0};
        const uint64_t blocks = sw_heap_blocks();
        list_run(&list, bad[i]);
        OK(write_tensors(sw_temp_path("run"), &list, checkpoint_marks, N_MARKS));
        OK(swi_tensors_open(&file, sw_temp_path("run")));
        failed_as(swi_run_summary_read(file, &run), SW_FORMAT, "'stepwell.run'");
        swi_tensors_close(file);
        swi_list_free(&list);
        CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
    }
}

/* ---- what is refused --------------------------------------------------------------------- */

SW_TEST("lists refuse what a file cannot hold")
{
    sw_model *model = chance_model("m", 1), *again = chance_model("m", 2);
    swi_tensor_list list = {0};
    OK(swi_list_models(&list, &model, 1, ALL_ROLES, ""));
    const uint32_t n = list.n;
    failed_as(swi_list_models(&list, &again, 1, ALL_ROLES, ""), SW_INVALID,
              "'conv.weight' is a tensor of a model before it already");
    failed_as(swi_list_models(&list, &again, 1, ALL_ROLES, "stepwell.x/"), SW_INVALID,
              "stepwell.x/");
    failed_as(swi_list_models(&list, &again, 1, ALL_ROLES, "\xff/"), SW_INVALID, "model m");
    failed_as(swi_list_bytes(&list, "conv.weight", "x", 1), SW_INVALID, "already");
    failed_as(swi_list_bytes(&list, "\xff", "x", 1), SW_INVALID, "cannot hold the name");
    failed_as(swi_list_bytes(&list, "__metadata__", "x", 1), SW_INVALID,
              "cannot hold the name");
    CU_ASSERT_EQUAL(list.n, n);
    CU_ASSERT_PTR_NOT_NULL(swi_list_find(&list, "stepwell.state/hidden"));
    CU_ASSERT_PTR_NOT_NULL(swi_list_find(&list, "stepwell.knobs"));
    swi_list_free(&list);
    failed_as(sw_model_note(model, "stepwell.x", "y"), SW_INVALID,
              "not begin with 'stepwell.'");
}

/* Parts that lie apart, and in any order, are one tensor of the file, and go back to where they
 * are. */
SW_TEST("parts may lie in any order")
{
    enum { PARTS = 5, ROOM = 8 * 20100 };
    static const size_t sizes[] = {1, 20, 3000, 8192, 8193, 20000};
    static const uint32_t order[PARTS] = {6, 2, 0, 7, 3};
    static unsigned char from[ROOM], to[ROOM], whole[PARTS * 20000];
    for (size_t i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i * 31 + i / 251);
    for (size_t k = 0; k < 2 * sizeof sizes / sizeof *sizes; k++) {
        const size_t n = sizes[k / 2];
        const uint32_t *slots = k % 2 ? order : NULL;
        size_t places[PARTS];
        for (size_t p = 0; p < PARTS; p++)
            places[p] = order[p] * (n + 100);
        swi_tensor_list list = {0};
        swi_tensors *file;
        OK(swi_list_parts(&list, "parts", from, n, PARTS));
        list.at[0].stride = n + 100;
        list.at[0].places = slots != NULL ? places : NULL;
        OK(write_tensors(sw_temp_path("parts"), &list, NULL, 0));
        OK(swi_tensors_open(&file, sw_temp_path("parts")));
        const swi_tensors_entry *entry = swi_tensors_find(file, "parts");
        CU_ASSERT(entry->rank == 2 && entry->dim[0] == PARTS && entry->dim[1] == (int64_t)n);
        OK(swi_tensors_read(file, entry, whole, n * PARTS));
        for (size_t p = 0; p < PARTS; p++)
            SW_CHECK(memcmp(whole + p * n, from + (slots ? slots[p] : p) * (n + 100), n) == 0,
                     "part %zu of %zu bytes", p, n);
        memset(to, 0xa5, sizeof to);
        list.at[0].at = to;
        list.at[0].places = slots == NULL ? places : NULL;
        OK(swi_tensors_load(file, &list, false, "a list"));
        for (size_t p = 0; p < PARTS; p++) {
            const unsigned char *part = to + (slots ? p : order[p]) * (n + 100);
            SW_CHECK(memcmp(part, whole + p * n, n) == 0 && part[n] == 0xa5,
                     "part %zu of %zu bytes, read", p, n);
        }
        swi_tensors_close(file);
        swi_list_free(&list);
    }
}

SW_TEST("notes that are ours are refused")
{
    swi_tensor_list list = {0};
    static const swi_tensors_note bad[][2] = {{{"format", "x"}, {"a", "b"}},
                                              {{"stepwell.header", "x"}, {"a", "b"}},
                                              {{"stepwell.checksums", "x"}, {"a", "b"}},
                                              {{"a", "\xff"}, {"b", ""}},
                                              {{"a", "x"}, {"a", "b"}}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        failed_as(write_tensors(sw_temp_path("notes"), &list, bad[i], 2), SW_INVALID,
                  "the note");
}

/* Change a checkpoint and set the header's checksum to what it then must be: what is refused is
 * not so by that checksum. */
static void refused_when_sealed(const char *from, const char *to, const char *part)
{
    write_checkpoint(sw_temp_path("sealed"), chance_model("m", 1), 65536);
    bytes file = file_get(sw_temp_path("sealed"));
    replace(&file, from, to);
    if (strstr(to, "headex") == NULL)
        reseal(&file);
    sw_file_put(sw_temp_path("sealed"), file.at, file.n);
    failed_as(open_and_verify(sw_temp_path("sealed")), SW_FORMAT, part);
}

SW_TEST("marks and checksums come together")
{
    refused_when_sealed("\"stepwell.run\"", "\"steqwell.run\"",
                        "'stepwell.checkpoint' is there, 'stepwell.run' is not");
    refused_when_sealed("\"stepwell.checkpoint\"", "\"stepwell.checkpoinu\"",
                        "'stepwell.run' is there, 'stepwell.checkpoint' is not");
    refused_when_sealed("stepwell.checksums", "stepwell.checksumr", "no 'stepwell.checksums'");
    refused_when_sealed("stepwell.header", "stepwell.headex", "no 'stepwell.header'");
    refused_when_sealed("\"conv.bias\"", "\"scalar\"   ", "'scalar' is there twice");
    refused_when_sealed("\"stepwell.command\"", "\"\\u0066ormat\"     ",
                        "'format' is there twice");
    refused_when_sealed("\"stepwell.blob/a\"", "\"stepwell.blob/b\"",
                        "'stepwell.blob/b' is there twice");
    refused_when_sealed("\"shape\":[3,2,2,2]", "\"shape\":[3,2,2,3]", "it has 144 bytes");
}

/* A digit that says the same in upper case is damage too. */
SW_TEST("digits are compared as bytes")
{
    static const char *const keys[] = {"\"stepwell.header\":\"", "\"stepwell.checksums\":\""};
    write_checkpoint(sw_temp_path("digits"), chance_model("m", 1), 65536);
    for (int which = 0; which < 2; which++) {
        bytes file = file_get(sw_temp_path("digits"));
        unsigned char *at = memmem(file.at, file.n, keys[which], strlen(keys[which]));
        CU_ASSERT_PTR_NOT_NULL_FATAL(at);
        at += strlen(keys[which]);
        size_t i = 0;
        while (i < 16 && (at[i] < 'a' || at[i] > 'f'))
            i++;
        CU_ASSERT_FATAL(i < 16);
        at[i] ^= 0x20;
        if (which == 1)
            reseal(&file);
        sw_file_put(sw_temp_path("upper"), file.at, file.n);
        failed_as(open_and_verify(sw_temp_path("upper")), SW_FORMAT, "damaged");
    }
}

SW_TEST("another version is unsupported")
{
    write_checkpoint(sw_temp_path("version"), chance_model("m", 1), 65536);
    bytes file = file_get(sw_temp_path("version"));
    replace(&file, "\"stepwell.checkpoint\":\"1\"", "\"stepwell.checkpoint\":\"2\"");
    reseal(&file);
    sw_file_put(sw_temp_path("version"), file.at, file.n);
    failed_as(open_and_verify(sw_temp_path("version")), SW_UNSUPPORTED, "version '2'");
}

/* A model that was only drawn is read into as it lies; one whose numbers cannot be had again
 * takes the file's bytes once more. The file is larger than what other tests of this program
 * take. */
SW_TEST("loading takes little, or the file once")
{
    enum { ROWS = 4096, COLUMNS = 768 };
    sw_exec *exec = made_exec(NULL);
    sw_model *model = made_model("large");
    sw_heap_stats before;
    sw_param_new(model, "w", SW_F32, SW_SHAPE(ROWS, COLUMNS), "ones");
    sw_param_new(model, "v", SW_F32, SW_SHAPE(ROWS, COLUMNS), "ones");
    OK(sw_model_ready(model, exec, 1));
    const size_t bytes_of_file = 2 * ROWS * COLUMNS * sizeof(float);
    sw_heap_read(SW_HEAP_FILES, &before);
    const size_t others = before.peak_bytes, little = before.bytes + ((size_t)1 << 20);
    CU_ASSERT_FATAL(others < bytes_of_file);
    OK(sw_model_save(model, sw_temp_path("large")));
    /* Saving copies nothing. */
    CU_ASSERT(heap_peak(SW_HEAP_FILES) <= (others > little ? others : little));
    OK(sw_model_load(model, sw_temp_path("large")));
    CU_ASSERT(heap_peak(SW_HEAP_FILES) <= (others > little ? others : little));
    sw_heap_read(SW_HEAP_FILES, &before);
    OK(sw_model_load(model, sw_temp_path("large")));
    const size_t peak = heap_peak(SW_HEAP_FILES) - before.bytes;
    sw_note("%zu bytes beside the file's %zu", peak - bytes_of_file, bytes_of_file);
    CU_ASSERT(peak > bytes_of_file && peak <= bytes_of_file + ((size_t)1 << 20));
}

/* It is drawn again, and can be loaded into at once another time. */
SW_TEST("a file that is cut while it is read leaves a drawn model as it was")
{
    sw_model *from = chance_model("m", 1), *to = chance_model("m", 2);
    const char *path = sw_temp_path("cut");
    const sw_dtype types[] = {SW_F32, SW_BF16};
    for (int i = 0; i < 2; i++)
        for (off_t less = 1; less < 300; less += 13) {
            swi_tensor_list list = {0};
            swi_tensors *file;
            bytes before = {NULL, 0};
            OK(swi_model_redraw(to));
            bytes_put(&before, to->base, to->bytes);
            OK(sw_model_save_as(from, path, types[i]));
            OK(swi_list_models(&list, &to, 1, 1u << SWI_ROLE_PARAMETER | 1u << SWI_ROLE_BUFFER,
                               ""));
            OK(swi_tensors_open(&file, path));
            const off_t all = (off_t)swi_tensors_file_bytes(file);
            CU_ASSERT_EQUAL(truncate(path, all - (less < 150 ? less : 150)), 0);
            failed_as(swi_tensors_load(file, &list, false, "m"), SW_FORMAT,
                      "changed while it was read");
            CU_ASSERT(to->drawn && !to->damaged && memcmp(before.at, to->base, to->bytes) == 0);
            swi_tensors_close(file);
            swi_list_free(&list);
        }
    OK(sw_model_save(from, path));
    OK(sw_model_load(to, path));
    CU_ASSERT(!to->drawn);
}

/* More tensors or notes than a file may have: a clear answer, and no more memory than bounds
 * say. */
SW_TEST("hostile headers are bounded")
{
    for (int notes = 0; notes < 2; notes++) {
        bytes text = {NULL, 0}, file = {NULL, 0};
        char line[120];
        bytes_put(&text, notes ? "{\"__metadata__\":{\"\":\"\"" : "{\"__metadata__\":{}",
                  notes ? 22 : 18);
        for (int i = 0; i < 65600; i++) {
            const int n = snprintf(line, sizeof line,
                                   notes ? ",\"%d\":\"\""
                                         : ",\"%d\":{\"dtype\":\"U8\",\"shape\":[0],"
                                           "\"data_offsets\":[0,0]}",
                                   i);
            bytes_put(&text, line, (size_t)n);
        }
        bytes_put(&text, "}}", notes ? 2 : 1);
        const uint64_t length = text.n;
        bytes_put(&file, &length, 8);
        bytes_put(&file, text.at, text.n);
        sw_file_put(sw_temp_path("many"), file.at, file.n);
        failed_as(open_and_verify(sw_temp_path("many")), SW_FORMAT,
                  notes ? "more than 65536 texts" : "more than 65536 tensors");
    }
    CU_ASSERT(heap_peak(SW_HEAP_FILES) < (size_t)32 << 20);
}

/* ---- failures on the way ----------------------------------------------------------------- */

typedef struct {
    swi_tensor_list *list;
    const char *path;
    sw_model *model;
} sweeping;

static sw_status write_it(void *arg)
{
    const sweeping *s = arg;
    return write_tensors(s->path, s->list, checkpoint_marks, N_MARKS);
}

static sw_status list_it(void *arg)
{
    sweeping *s = arg;
    swi_tensor_list list = {0};
    sw_status status = swi_list_models(&list, &s->model, 1, ALL_ROLES, "");
    if (status == SW_OK)
        status = swi_list_bytes(&list, "stepwell.x", "x", 1);
    swi_list_free(&list);
    return status;
}

static sw_status verify_it(void *arg)
{
    return open_and_verify(((const sweeping *)arg)->path);
}

static sw_status summary_it(void *arg)
{
    swi_tensors *file;
    swi_run_summary run;
    SW_TRY(swi_tensors_open(&file, ((const sweeping *)arg)->path));
    const sw_status status = swi_run_summary_read(file, &run);
    if (status == SW_OK)
        swi_run_summary_free(&run);
    swi_tensors_close(file);
    return status;
}

/* A failure leaves the model as it was. */
static sw_status load_it(void *arg)
{
    const sweeping *s = arg;
    bytes before = {NULL, 0};
    bytes_put(&before, s->model->base, s->model->bytes);
    const sw_status status = sw_model_load(s->model, s->path);
    if (status != SW_OK)
        CU_ASSERT_EQUAL(memcmp(before.at, s->model->base, s->model->bytes), 0);
    return status;
}

SW_TEST("every call can fail")
{
    sw_model *model = chance_model("m", 1);
    swi_tensor_list list = {0};
    OK(swi_list_models(&list, &model, 1, ALL_ROLES, ""));
    list_run(&list, one_model_run);
    sweeping s = {&list, sw_temp_path("sweep"), chance_model("m", 2)};
    static const struct {
        const char *name;
        sw_status (*operation)(void *arg);
        uint64_t memory, files; /* at least so many sites */
    } all[] = {{"list", list_it, 4, 0},
               {"write", write_it, 3, 5},
               {"verify", verify_it, 7, 5},
               {"summary", summary_it, 7, 5},
               {"load", load_it, 12, 8}};
    OK(write_it(&s));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const uint64_t memory = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, all[i].operation, &s),
                       files = sw_sweep(SW_FAULT_FILE, SW_IO, all[i].operation, &s);
        sw_note("%s: %llu sites of memory, %llu of files", all[i].name,
                (unsigned long long)memory, (unsigned long long)files);
        CU_ASSERT(memory >= all[i].memory && files >= all[i].files);
    }
    swi_list_free(&list);
}

/* NumPy's archives hold data: what is saved as one would not be loaded again. */
SW_TEST("a name of another format is unsupported")
{
    sw_model *model = chance_model("m", 3);
    static const char *const names[] = {"model.npz", "model.NPZ", "model.Npz"};
    for (int i = 0; i < 3; i++) {
        const char *path = sw_temp_path(names[i]);
        failed_as(sw_model_save(model, path), SW_UNSUPPORTED, names[i]);
        CU_ASSERT_FALSE(sw_file_taken(path));
    }
    OK(sw_model_save(model, sw_temp_path("model.npz.safetensors")));
}

/* Loading looks at the bytes alone. */
SW_TEST("a file loads whatever its name")
{
    sw_model *model = chance_model("m", 3);
    char from[1200];
    const char *path = sw_temp_path("named.npz");
    failed_as(sw_model_load(model, path), SW_IO, "No such file");
    snprintf(from, sizeof from, "%s", sw_temp_path("named.safetensors"));
    OK(sw_model_save(model, from));
    CU_ASSERT_EQUAL(rename(from, path), 0);
    OK(sw_model_load(model, path));
    FILE *zip = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(zip);
    (void)fwrite("PK\3\4\24\0\0\0\0\0\0\0\41\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0x.npy", 1, 35,
                 zip);
    CU_ASSERT_EQUAL(fclose(zip), 0);
    failed_as(sw_model_load(model, path), SW_FORMAT, "a zip file");
}
