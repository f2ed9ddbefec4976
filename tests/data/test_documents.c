/* Documents of ids: lines of JSON, what counts of them, rows that hold them, and the tokens of
 * a step. Rows are taken apart again by a checker that knows nothing of packing. */
#include "kernels/rng.h"
#include "runtime/data/loader.h"
#include "runtime/data/reader.h"
#include "tests/data/data_files.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("documents")

enum { CONTEXT = 64, MOST = 90, N = 400 };

typedef struct {
    int32_t n, ids[MOST], labels[MOST];
} document;

static document made[N];
static char path[512];
static swi_reader_opts opts;

static uint32_t random_below(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*state * n >> 32);
}

/* `n` of 2 to `most` tokens; the first id is the document's number. A fifth has no token that
 * counts, or has it after the context. */
static void make(int n, uint32_t most, uint32_t seed)
{
    uint32_t state = seed;
    for (int i = 0; i < n; i++) {
        document *d = &made[i];
        d->n = 2 + (int32_t)random_below(&state, most - 1);
        const int32_t counts = (int32_t)random_below(&state, 5) == 0
                                   ? d->n > CONTEXT ? CONTEXT : d->n
                                   : 1 + (int32_t)random_below(&state, (uint32_t)d->n - 1);
        for (int32_t t = 0; t < d->n; t++) {
            d->ids[t] = t == 0 ? i : (int32_t)random_below(&state, 500);
            d->labels[t] =
                t < counts || random_below(&state, 4) == 0 ? SWI_NOT_COUNTED : d->ids[t];
        }
        if (random_below(&state, 3) == 0 && d->n > 1 && counts < d->n)
            d->labels[d->n - 1] = d->ids[d->n - 1];
        d->labels[0] = random_below(&state, 2) == 0 ? i : SWI_NOT_COUNTED; /* never counts */
    }
}

static swi_documents *added(int n)
{
    swi_documents *d = NULL;
    OK(swi_documents_create(&d, "made", CONTEXT, 0));
    CU_ASSERT_PTR_NOT_NULL_FATAL(d);
    AFTER(swi_documents_destroy, d);
    for (int i = 0; i < n; i++)
        OK(swi_documents_add(d, made[i].ids, made[i].labels, made[i].n));
    return d;
}

static sw_dataset *packed(const swi_documents *d)
{
    sw_dataset *set = NULL;
    return data_made(swi_documents_pack(d, false, &set), &set);
}

static int32_t kept(const document *d)
{
    return d->n < CONTEXT ? d->n : CONTEXT;
}

static int32_t counted(const document *d)
{
    int32_t n = 0;
    for (int32_t t = 1; t < kept(d); t++)
        n += d->labels[t] != SWI_NOT_COUNTED;
    return n;
}

/* The rows of best fit by decreasing length, one document after the other through all rows. */
static int64_t plain_rows(int n)
{
    int32_t room[N];
    int64_t rows = 0;
    for (int32_t length = CONTEXT; length > 1; length--)
        for (int i = 0; i < n; i++) {
            int64_t best = -1;
            if (kept(&made[i]) != length || counted(&made[i]) == 0)
                continue;
            for (int64_t r = 0; r < rows; r++)
                if (room[r] >= length && (best < 0 || room[r] < room[best]))
                    best = r;
            if (best < 0)
                room[best = rows++] = CONTEXT;
            room[best] -= length;
        }
    return rows;
}

/* Each document of `made` that counts lies in one row, once, and nothing else does. Returns how
 * many were found. */
static int64_t check_rows(const sw_dataset *set, int n)
{
    const sw_dataset_info info = data_info(set);
    const int32_t *counts = set->counts;
    bool seen[N] = {false};
    int64_t found = 0, wrong = 0;
    CU_ASSERT_FATAL(info.n_fields == 4 && counts != NULL);
    for (int64_t r = 0; r < info.n; r++) {
        const int32_t *f[4];
        int32_t in_row = 0, at = 0;
        for (int i = 0; i < 4; i++)
            f[i] = (const int32_t *)info.field[i].data + r * CONTEXT;
        while (at < CONTEXT && at + 1 < CONTEXT && f[2][at + 1] == 1) {
            const document *d = f[0][at] >= 0 && f[0][at] < n ? &made[f[0][at]] : NULL;
            CU_ASSERT_FATAL(d != NULL && !seen[f[0][at]] && at + kept(d) <= CONTEXT);
            seen[f[0][at]] = true;
            for (int32_t t = 0; t < kept(d); t++) {
                const int32_t label = t + 1 < kept(d) ? d->labels[t + 1] : SWI_NOT_COUNTED;
                wrong += f[0][at + t] != d->ids[t] || f[1][at + t] != label ||
                         f[2][at + t] != t || f[3][at + t] != at;
            }
            in_row += counted(d);
            at += kept(d);
            found++;
        }
        wrong += in_row != counts[r] || in_row == 0;
        for (; at < CONTEXT; at++) /* what is left over */
            wrong +=
                f[0][at] != 0 || f[1][at] != SWI_NOT_COUNTED || f[2][at] != 0 || f[3][at] != at;
    }
    CU_ASSERT_EQUAL(wrong, 0);
    for (int i = 0; i < n; i++)
        CU_ASSERT_EQUAL(seen[i], counted(&made[i]) > 0);
    return found;
}

SW_TEST("rows have each document once, and are those of best fit")
{
    for (uint32_t round = 0; round < 24; round++) {
        const int n = round < 4 ? 1 + (int)round : 40 + (int)round * 15;
        const uint32_t most = round % 3 == 0 ? MOST : round % 3 == 1 ? 20 : CONTEXT;
        int64_t tokens = 0, counts = 0, passed = 0, cut = 0, lost = 0;
        make(n, most, round + 1);
        made[0].labels[1] = 7; /* one counts at least */
        for (int i = 0; i < n; i++) {
            const int32_t c = counted(&made[i]);
            tokens += c > 0 ? kept(&made[i]) : 0;
            counts += c;
            passed += c == 0;
            cut += made[i].n > CONTEXT;
            lost += made[i].n - kept(&made[i]);
        }
        const swi_documents *d = added(n);
        const sw_dataset *set = packed(d);
        const swi_documents_info info = swi_dataset_documents(set);
        CU_ASSERT_EQUAL(check_rows(set, n), n - passed);
        SW_CHECK(set->n == plain_rows(n) && info.rows == set->n, "%lld rows, %lld would do",
                 (long long)set->n, (long long)plain_rows(n));
        CU_ASSERT(info.documents == n - passed && info.passed_over == passed &&
                  info.tokens == tokens && info.counted == counts && info.cut == cut &&
                  info.cut_tokens == lost && info.context == CONTEXT);
        CU_ASSERT(set->n_classes >= 8 && set->n_classes <= 500);
        /* The same again, to the bit; shapes alone have as many. */
        uint64_t hash[2] = {0, 1};
        OK(sw_dataset_hash(set, &hash[0]));
        OK(sw_dataset_hash(packed(d), &hash[1]));
        CU_ASSERT_EQUAL(hash[0], hash[1]);
        sw_dataset *shapes = NULL;
        data_made(swi_documents_pack(d, true, &shapes), &shapes);
        CU_ASSERT(shapes->n == set->n && shapes->n_fields == 4 && shapes->shapes_only &&
                  shapes->counts == NULL && data_info(shapes).bytes == 0);
    }
}

SW_TEST("random lengths leave little over")
{
    make(N, CONTEXT, 5);
    const swi_documents_info info = swi_dataset_documents(packed(added(N)));
    const double all = (double)info.rows * CONTEXT;
    SW_CHECK((all - (double)info.tokens) / all < 0.05, "%lld rows for %lld tokens",
             (long long)info.rows, (long long)info.tokens);
}

SW_TEST("labels that are not there count all")
{
    const int32_t ids[] = {5, 6, 7};
    swi_documents *d = added(0);
    OK(swi_documents_add(d, ids, NULL, 3));
    OK(swi_documents_add(d, ids, NULL, 1)); /* nothing comes after it */
    const sw_dataset *set = packed(d);
    const int32_t *labels = data_info(set).field[1].data;
    CU_ASSERT(labels[0] == 6 && labels[1] == 7 && labels[2] == SWI_NOT_COUNTED);
    CU_ASSERT(set->n == 1 && set->counts[0] == 2 && set->n_classes == 8);
    CU_ASSERT_EQUAL(swi_dataset_documents(set).passed_over, 1);
}

SW_TEST("what is no document is refused, and nothing is added")
{
    const int32_t ids[] = {5, 6, 7}, low[] = {5, -1, 7}, labels[] = {-100, -5, 7};
    sw_dataset *set = NULL;
    swi_documents *d = NULL, *none = NULL;
    REFUSED(swi_documents_create(&none, "made", 0, 0), SW_INVALID, "context must be 1");
    OK(swi_documents_create(&d, "made", CONTEXT, 7));
    AFTER(swi_documents_destroy, d);
    REFUSED(swi_documents_add(d, ids, NULL, 3), SW_FORMAT, "must be 0 to 6 (got 7)");
    REFUSED(swi_documents_add(d, low, NULL, 3), SW_FORMAT, "(got -1)");
    REFUSED(swi_documents_add(d, ids, labels, 2), SW_FORMAT, "(got -5)");
    REFUSED(swi_documents_pack(d, false, &set), SW_FORMAT, "no document has a token");
    OK(swi_documents_add(d, ids, NULL, 2));
    const swi_documents_info info = swi_dataset_documents(packed(d));
    CU_ASSERT(info.documents == 1 && info.tokens == 2 && info.rows == 1);
}

/* ---- files ------------------------------------------------------------------------------- */

static void put_text(const char *text)
{
    snprintf(path, sizeof path, "%s", dir_file("d.jsonl"));
    sw_file_put(path, text, strlen(text));
}

static void put_list(bytes *b, const int32_t *x, int32_t n)
{
    char text[16];
    for (int32_t t = 0; t < n; t++) {
        snprintf(text, sizeof text, "%s%d", t == 0 ? "[" : t % 5 == 0 ? " , " : ",", x[t]);
        bytes_put(b, text, strlen(text));
    }
    bytes_byte(b, ']');
}

static void put_string(bytes *b, const char *text)
{
    bytes_put(b, text, strlen(text));
}

/* The first n of `made`, in all spellings that a line may have; one is longer than a window. */
static bytes lines_of(int n)
{
    bytes b = {NULL, 0};
    for (int i = 0; i < n; i++) {
        const document *d = &made[i];
        put_string(&b, i % 3 == 0 ? "{\"id\": {\"input_ids\": [1, \"x\"]}, " : " {");
        if (i % 2 == 0) {
            put_string(&b, "\"labels\":");
            put_list(&b, d->labels, d->n);
            put_string(&b, ",");
        }
        put_string(&b, "\"input_ids\" : ");
        put_list(&b, d->ids, d->n);
        if (i % 2 == 1) {
            put_string(&b, ", \"attention_mask\": [1, 1], \"labels\": ");
            put_list(&b, d->labels, d->n);
        }
        if (i == n / 2) {
            put_string(&b, ", \"text\": \"");
            for (int k = 0; k < 70000; k++)
                bytes_byte(&b, 'a');
            put_string(&b, "\"");
        }
        put_string(&b, i + 1 == n ? "}" : i % 7 == 0 ? "}\r\n\n" : "}\n");
    }
    return b;
}

static sw_status read_parts(sw_dataset *part[2])
{
    const char *at;
    const swi_reader *r = swi_reader_of("ids:x", &at);
    return r->both(&part[0], &part[1], path, &opts);
}

static void new_files(void)
{
    dir_new();
    opts = (swi_reader_opts){.context = CONTEXT, .seed = 1};
}

SW_TEST("lines are read as they stand, plain and compressed")
{
    new_files();
    make(N, MOST, 9);
    const bytes text = lines_of(N);
    CU_ASSERT(text.n > 70000 + 100000); /* several windows */
    for (int zip = 0; zip < 1 + SW_HAVE_ZLIB; zip++) {
        swi_documents *d = NULL;
        dir_put(zip ? "z.jsonl.gz" : "d.jsonl", zip ? zipped(text) : text);
        snprintf(path, sizeof path, "%s", dir_file(zip ? "z.jsonl" : "d.jsonl"));
        OK(swi_documents_create(&d, path, CONTEXT, 500));
        AFTER(swi_documents_destroy, d);
        OK(swi_documents_read(d, path, 0));
        uint64_t hash[2] = {0, 1};
        OK(sw_dataset_hash(packed(d), &hash[0]));
        OK(sw_dataset_hash(packed(added(N)), &hash[1]));
        CU_ASSERT_EQUAL(hash[0], hash[1]);
    }
}

SW_TEST("documents are split, each in one part, by the seed alone")
{
    uint64_t hash[3] = {0};
    new_files();
    make(200, 30, 3);
    dir_put("d.jsonl", lines_of(200));
    snprintf(path, sizeof path, "%s", dir_file("d.jsonl"));
    for (int i = 0; i < 3; i++) {
        opts.seed = i == 2 ? 2 : 1;
        opts.test_share = 0.25;
        CU_ASSERT_FATAL(data_read_both(read_parts, sets));
        const swi_documents_info a = swi_dataset_documents(sets[0]),
                                 b = swi_dataset_documents(sets[1]);
        const sw_dataset *whole = packed(added(200));
        const swi_documents_info all = swi_dataset_documents(whole);
        CU_ASSERT(a.documents + b.documents == all.documents &&
                  a.tokens + b.tokens == all.tokens && a.counted + b.counted == all.counted);
        CU_ASSERT_EQUAL(b.documents, llround(0.25 * (double)all.documents));
        CU_ASSERT(a.passed_over == all.passed_over && b.passed_over == 0);
        CU_ASSERT_EQUAL(sets[0]->n_classes, sets[1]->n_classes);
        OK(sw_dataset_hash(sets[1], &hash[i]));
    }
    CU_ASSERT(hash[0] == hash[1] && hash[0] != hash[2]);
    /* A file for testing: nothing is split. */
    opts.test_path = path;
    CU_ASSERT_FATAL(data_read_both(read_parts, sets));
    OK(sw_dataset_hash(sets[0], &hash[0]));
    OK(sw_dataset_hash(sets[1], &hash[1]));
    CU_ASSERT_EQUAL(hash[0], hash[1]);
}

SW_TEST("what is wrong in a line is said with its place")
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "there is no document: each line must be {\"input_ids\": [...]"},
        {"\n \n", "there is no document"},
        {"{\"input_ids\": [1, 2]}\nno\n", "line 2: column 1: each line must be"},
        {"[1, 2]\n", "line 1: column 1: each line must be"},
        {"{\"text\": \"x\"}\n", "line 1: there is no input_ids: each line must be"},
        {"{\"input_ids\": []}\n", "line 1: input_ids is empty: each line must be"},
        {"{\"input_ids\": 3}\n", "line 1: column 15: input_ids must be a list of ids"},
        {"{\"input_ids\": [1, 2], \"labels\": null}\n",
         "labels must be a list of ids and -100"},
        {"{\"input_ids\": [1, \"2\"]}\n", "line 1: column 19: input_ids must have ids alone"},
        {"{\"input_ids\": [1, [2]]}\n", "input_ids must have ids alone"},
        {"{\"input_ids\": [1, 2], \"labels\": [1, null]}\n", "labels must have ids and -100"},
        {"\n{\"input_ids\": [1, -2]}\n", "line 2: number 2 of input_ids must be an id, 0 to 99 "
                                         "(got -2): the model knows no others, "
                                         "so make the file with its own tokenizer"},
        {"{\"input_ids\": [1, 100]}\n", "number 2 of input_ids must be an id, 0 to 99"},
        {"{\"input_ids\": [1, 1.5]}\n", "(got 1.5)"},
        {"{\"input_ids\": [1, 3000000000]}\n", "(got 3000000000)"},
        {"{\"input_ids\": [1, 01]}\n", "a number that begins with 0"},
        {"{\"input_ids\": [1, 2], \"labels\": [1, 100]}\n",
         "number 2 of labels must be an id, 0 to 99, or -100 (got 100): the model knows no "
         "others"},
        {"{\"input_ids\": [1, 2], \"labels\": [1, -99]}\n", "(got -99)"},
        {"{\"input_ids\": [-100, 2]}\n", "(got -100)"},
        {"{\"input_ids\": [1, 2], \"labels\": [1]}\n",
         "line 1: labels must be as many as input_ids, -100 where a token does not count (got "
         "1 and 2)"},
        {"{\"input_ids\": [1, 2], \"labels\": []}\n", "(got 0 and 2)"},
        {"{\"input_ids\": [1, 2], \"input_ids\": [3]}\n", "input_ids twice"},
        {"{\"labels\": [1, 2], \"labels\": [3]}\n", "labels twice"},
        {"{\"input_ids\": [1, 2]} {\n", "line 1: column 23: a line must have one"},
        {"{\"input_ids\": [1, 2\n{\"input_ids\": [1, 2]}\n", "line 1: column 20: ']' was"},
        {"{\"input_ids\": [1, 2]", "line 1: column 21: '}' was expected"},
        {"{\"input_ids\": [1], \"labels\": [1]}\n", "no document has a token that counts (1 "},
        {"{\"input_ids\": [1, 2], \"labels\": [-100, -100]}\n", "(1 were passed over)"},
        {"{\"input_ids\": [1, 2]}\n", "one document cannot be split"},
    };
    new_files();
    opts.n_ids = 100;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_text(cases[i].text);
        data_refused(read_parts, SW_FORMAT, path, cases[i].says);
    }
    opts.context = -1; /* the library's */
    put_text("{\"input_ids\": [1, 2]}\n{\"input_ids\": [99, 2]}\n");
    CU_ASSERT_EQUAL(data_first(read_parts).field[0].shape.dim[0], SWI_CONTEXT);
    snprintf(path, sizeof path, "%s", dir_file("gone.jsonl"));
    data_refused(read_parts, SW_IO, path, "No such file");
}

SW_TEST("every call of reading may fail, and any file may be damaged")
{
    new_files();
    make(12, 20, 4);
    const bytes text = lines_of(12);
    dir_put("d.jsonl", text);
    snprintf(path, sizeof path, "%s", dir_file("d.jsonl"));
    data_sweep(read_parts, 20, 3);
    if (SW_HAVE_ZLIB) {
        dir_put("d.jsonl.gz", zipped(text));
        snprintf(path, sizeof path, "%s", dir_file("d.jsonl.gz"));
        data_sweep(read_parts, 20, 3);
    }
    opts.test_path = path;
    snprintf(path, sizeof path, "%s", dir_file("d.jsonl"));
    data_sweep(read_parts, 30, 6);
    opts.test_path = NULL;
    make(3, 8, 4);
    const bytes small = lines_of(2);
    dir_put("d.jsonl", small);
    data_damage(read_parts, path, small, sw_tests_full() ? 3000 : 300);
}

/* ---- steps ------------------------------------------------------------------------------- */

/* The labels of a batch that count. */
static int64_t counted_here(const sw_array *inputs)
{
    const int32_t *labels = inputs[1].data;
    int64_t n = 0;
    for (int64_t i = 0; i < inputs[1].shape.dim[0] * CONTEXT; i++)
        n += labels[i] != SWI_NOT_COUNTED;
    return n;
}

/* Of the batches that come, before any of them did; of a loader's share those of all. */
SW_TEST("the tokens of batches are known before they come")
{
    make(N, MOST, 6);
    const sw_dataset *set = packed(added(N));
    for (int way = 0; way < 8; way++) {
        sw_loader_opts o =
            SW_OPTS(sw_loader_opts, .batch = 3, .seed = 5, .slots = 2, .shuffle = way > 1,
                    .keyed = way > 5, .inline_fill = way % 2 == 0 ? 1 : -1);
        sw_loader *whole = data_loader(set, o);
        const bool shared = way > 3;
        o.drop_last = shared;
        o.of = shared ? 4 : 0;
        o.first = shared ? 2 : 0;
        o.share = shared ? 2 : 0;
        sw_loader *l = data_loader(set, o);
        const int64_t n = sw_loader_batches(l);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            int64_t sum = 0, wrong = 0;
            OK(sw_loader_epoch(whole, epoch));
            OK(sw_loader_seek(l, epoch, epoch == 2 ? n : 0)); /* even where nothing comes */
            const int64_t all = swi_loader_counted(l, 0, n);
            for (int64_t b = 0; b < n; b++) {
                const sw_array *inputs;
                int there;
                const int64_t before = swi_loader_counted(l, b, 1);
                OK(sw_loader_next(whole, &inputs, &there));
                wrong += before != counted_here(inputs) || before < 1;
                sum += before;
                if (shared && b % 4 >= 2 && epoch < 2) {
                    OK(sw_loader_next(l, &inputs, &there));
                    wrong += there != 4 || before != counted_here(inputs);
                }
            }
            SW_CHECK(wrong == 0 && sum == all, "way %d: %lld wrong", way, (long long)wrong);
            CU_ASSERT(swi_loader_counted(l, n, 4) == 0 &&
                      swi_loader_counted(l, 0, n + 9) == all);
        }
    }
}
