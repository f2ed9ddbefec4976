/* The table of bench search: its grid, its file, and the training of its nets. */
#include "tools/bench/search_table.h"
#include "alloc/base/mem.h"
#include "profiler/record/json.h"
#include "profiler/record/json_read.h"
#include "runtime/data/feed.h"
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define FORMAT "stepwell search table 1"

/* ---- the grid ---------------------------------------------------------------------------- */

/* By axis: outputs of the stem; what stands before and after the second pool; whether norms
 * follow convolutions; the activation; how images become vectors. */
enum { WIDTH, FIRST, SECOND, NORM, ACTIVATION, HEAD };
enum { NOTHING, CONV, SEPARABLE, RESIDUAL };
const int table_axis[TABLE_AXES] = {3, 4, 4, 2, 3, 2};
const int table_rung[TABLE_RUNGS] = {TABLE_SAMPLES / 9, TABLE_SAMPLES / 3, TABLE_SAMPLES};

/* The text of a genome while it is made, and the vertex that the next one reads. */
typedef struct {
    char text[4096];
    size_t n;
    int vertices;
    char last[48];
} writer;

static void SW_PRINTF(2, 3) put(writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    w->n += (size_t)vsnprintf(w->text + w->n, sizeof w->text - w->n, format, args);
    va_end(args);
}

/* A vertex that reads the last one: its kind, and the members of the text after it. */
static void SW_PRINTF(3, 4) vertex(writer *w, const char *kind, const char *format, ...)
{
    va_list args;
    char more[128];
    va_start(args, format);
    vsnprintf(more, sizeof more, format, args);
    va_end(args);
    w->vertices++;
    put(w, "{\"name\":\"v%d\",\"kind\":\"%s\",\"in\":[\"%s\"]%s},\n", w->vertices, kind,
        w->last, more);
    snprintf(w->last, sizeof w->last, "v%d", w->vertices);
}

static void convolution(writer *w, const int net[TABLE_AXES], int size, int kernel)
{
    static const char *const activations[] = {"relu", "swish", "elu"};
    vertex(w, "conv2d", ",\"size\":%d,\"kernel\":%d", size, kernel);
    if (net[NORM] != 0)
        vertex(w, "batch_norm", "%s", "");
    vertex(w, "activation", ",\"activation\":\"%s\"", activations[net[ACTIVATION]]);
}

static void layer(writer *w, const int net[TABLE_AXES], int kind, int in, int out)
{
    char before[sizeof w->last], last[sizeof w->last];
    memcpy(before, w->last, sizeof before);
    if (kind == SEPARABLE)
        vertex(w, "conv2d", ",\"kernel\":3,\"groups\":\"depthwise\"");
    if (kind != NOTHING)
        convolution(w, net, kind == RESIDUAL ? in : out, kind == SEPARABLE ? 1 : 3);
    if (kind == RESIDUAL) {
        memcpy(last, w->last, sizeof last);
        snprintf(w->last, sizeof w->last, "%.20s\",\"%.20s", before, last);
        vertex(w, "add", "%s", "");
    }
}

static sw_status genome_of(sw_genome **out, int number, const sw_task *task)
{
    writer w = {.last = "input"};
    int net[TABLE_AXES];
    for (int axis = TABLE_AXES - 1, left = number; axis >= 0; left /= table_axis[axis--])
        net[axis] = left % table_axis[axis];
    const int width = 8 * (net[WIDTH] + 1);
    put(&w,
        "{\"format\":\"stepwell genome 1\",\"input\":[%" PRId64 ",%" PRId64 ",%" PRId64 "],"
        "\"optimizer\":{\"kind\":\"adam\",\"lr\":0.002,\"update\":\"release\"},\"batch\":%d,"
        "\"loss\":{\"kind\":\"cross_entropy\"},\"vertices\":[\n",
        task->channels, task->height, task->width, TABLE_BATCH);
    convolution(&w, net, width, 3);
    vertex(&w, "max_pool", ",\"kernel\":2,\"stride\":2");
    layer(&w, net, net[FIRST], width, width);
    vertex(&w, "max_pool", ",\"kernel\":2,\"stride\":2");
    layer(&w, net, net[SECOND], width, 2 * width);
    vertex(&w, net[HEAD] == 0 ? "global_avg_pool" : "flatten", "%s", "");
    put(&w, "{\"name\":\"out\",\"kind\":\"linear\",\"in\":[\"%s\"],\"size\":%" PRId64 "}]}",
        w.last, task->classes);
    return sw_genome_parse(out, w.text, w.n, "bench search");
}

/* ---- the file ---------------------------------------------------------------------------- */

/* Of a net, an array: its number, parameters, operations, right answers of validation by seed
 * and rung, and of the test by seed. */
enum { LINE = 3 + TABLE_SEEDS * (TABLE_RUNGS + 1) };

static void line_of(const table_net *net, uint32_t number, uint64_t line[LINE])
{
    uint64_t *to = line;
    *to++ = number;
    *to++ = net->parameters;
    *to++ = net->operations;
    for (int seed = 0; seed < TABLE_SEEDS; seed++) {
        for (int rung = 0; rung < TABLE_RUNGS; rung++)
            *to++ = net->validation[seed][rung];
        *to++ = net->test[seed];
    }
}

static sw_status head_member(sw_json_in *in, const char *key, void *context)
{
    search_table *t = context;
    char format[64];
    if (strcmp(key, "data") == 0)
        return sw_json_get_text(in, t->data, sizeof t->data);
    if (strcmp(key, "validation") == 0)
        return sw_json_get_count(in, &t->validation);
    if (strcmp(key, "test") == 0)
        return sw_json_get_count(in, &t->test);
    if (strcmp(key, "format") != 0)
        return sw_json_skip(in);
    SW_TRY(sw_json_get_text(in, format, sizeof format));
    return strcmp(format, FORMAT) == 0 ? SW_OK
                                       : sw_json_bad(in, "the format is not \"" FORMAT "\"");
}

static sw_status read_line(search_table *t, sw_json_in *in)
{
    uint64_t line[LINE];
    for (int i = 0; i < LINE; i++) {
        SW_TRY(sw_json_expect(in, i == 0 ? '[' : ','));
        SW_TRY(sw_json_get_count(in, &line[i]));
    }
    SW_TRY(sw_json_expect(in, ']'));
    if (line[0] >= TABLE_NETS)
        return sw_json_bad(in, "the grid has no net of this number");
    table_net *net = &t->nets[line[0]];
    const uint64_t *from = line + 1;
    t->n += !net->there;
    net->there = true;
    net->parameters = *from++;
    net->operations = *from++;
    for (int seed = 0; seed < TABLE_SEEDS; seed++) {
        for (int rung = 0; rung < TABLE_RUNGS; rung++, from++) {
            if (*from > t->validation)
                return sw_json_bad(in, "more answers are right than there are samples");
            net->validation[seed][rung] = (uint32_t)*from;
        }
        if (*from > t->test)
            return sw_json_bad(in, "more answers are right than there are samples");
        net->test[seed] = (uint32_t)*from++;
    }
    return SW_OK;
}

static sw_status read_text(search_table *t, const char *text, size_t bytes, const char *path)
{
    int c;
    sw_json_in in = sw_json_in_text(text, bytes, path);
    in.line = 1;
    SW_TRY(sw_json_get_object(&in, head_member, t));
    if (t->validation == 0 || t->test == 0 || t->validation > UINT32_MAX ||
        t->test > UINT32_MAX)
        return sw_json_bad(&in,
                           "the head must say \"validation\" and \"test\", numbers of samples");
    SW_TRY(sw_json_peek(&in, &c));
    while (c >= 0) {
        SW_TRY(read_line(t, &in));
        SW_TRY(sw_json_peek(&in, &c));
    }
    return SW_OK;
}

static sw_status read_whole(search_table *t, sw_file *file, const char *path, uint64_t *whole)
{
    uint64_t size;
    size_t got = 0, bytes;
    char *text;
    SW_TRY(sw_file_size(file, &size));
    if (size > 1 << 24)
        SW_FAIL(SW_FORMAT, "%s: is no table of searches: it has more than 16 MiB", path);
    SW_TRY(sw_heap_alloc(&text, SW_HEAP_FILES, (size_t)size + 1));
    sw_status status = sw_file_read(file, text, (size_t)size, &got);
    for (bytes = got; bytes > 0 && text[bytes - 1] != '\n'; bytes--)
        continue;
    if (status == SW_OK)
        status = read_text(t, text, bytes, path);
    sw_heap_free(text, SW_HEAP_FILES, (size_t)size + 1);
    *whole = bytes;
    return status;
}

static sw_status table_begin(search_table *t)
{
    *t = (search_table){.n = 0};
    return sw_heap_alloc(&t->nets, SW_HEAP_FILES, TABLE_NETS * sizeof *t->nets);
}

sw_status table_read(search_table *t, const char *path, uint64_t *whole)
{
    sw_file *file;
    uint64_t bytes = 0;
    SW_TRY(table_begin(t));
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    const sw_status status = read_whole(t, file, path, &bytes);
    sw_file_drop(file);
    if (whole != NULL)
        *whole = bytes;
    return status;
}

void table_free(search_table *t)
{
    sw_heap_free(t->nets, SW_HEAP_FILES, TABLE_NETS * sizeof *t->nets);
    t->nets = NULL;
}

/* ---- training ---------------------------------------------------------------------------- */

/* Nets that are trained side by side, each with members for all seeds. */
enum { TOGETHER = 12, STEPS = TABLE_SAMPLES / TABLE_BATCH };

typedef struct {
    uint32_t number;
    sw_genome *genome;
    sw_net *net;
    sw_members *group;
    sw_member member[TABLE_SEEDS];
    table_net found;
} pupil;

typedef struct {
    search_table *table;
    sw_exec *exec;
    sw_task task;
    sw_dataset *all, *train, *validation, *test;
    sw_feed *train_feed, *validation_feed, *test_feed;
    sw_file *file;
    pupil pupils[TOGETHER];
    int n;
} school;

static void pupils_end(school *s)
{
    for (; s->n > 0; s->n--) {
        const pupil *p = &s->pupils[s->n - 1];
        for (int seed = 0; seed < TABLE_SEEDS && p->group != NULL; seed++)
            sw_member_end(p->member[seed]);
        sw_members_destroy(p->group);
        sw_net_destroy(p->net);
        sw_genome_destroy(p->genome);
    }
}

static sw_status pupil_begin(school *s, uint32_t number)
{
    pupil *p = &s->pupils[s->n++];
    sw_price price = SW_OPTS(sw_price);
    *p = (pupil){.number = number, .found.there = true};
    SW_TRY(genome_of(&p->genome, (int)number, &s->task));
    SW_TRY(sw_genome_price(p->genome, s->exec, NULL, SW_U8, &price));
    p->found.parameters = price.parameters;
    p->found.operations = price.operations;
    SW_TRY(sw_net_create(&p->net, p->genome, NULL));
    const sw_members_opts opts = SW_OPTS(sw_members_opts, .shape = sw_net_model(p->net),
                                         .fn = sw_net_step, .user = p->net);
    SW_TRY(sw_members_create(&p->group, s->exec, &opts));
    for (int seed = 0; seed < TABLE_SEEDS; seed++)
        SW_TRY(sw_member_new(&p->member[seed], p->group, (uint64_t)seed + 1));
    return SW_OK;
}

static sw_status run_all(school *s, const sw_members_args *common)
{
    sw_members *groups[TOGETHER];
    sw_members_args args[TOGETHER];
    for (int i = 0; i < s->n; i++) {
        groups[i] = s->pupils[i].group;
        args[i] = *common;
        args[i].members = s->pupils[i].member;
        args[i].n = TABLE_SEEDS;
    }
    return sw_members_run_all(groups, args, (size_t)s->n);
}

/* Right answers of pupil i's members, added to right[i]. */
static sw_status ask(school *s, const sw_feed *feed, uint32_t right[TOGETHER][TABLE_SEEDS])
{
    memset(right, 0, TOGETHER * sizeof *right);
    for (uint64_t batch = 0; batch < (uint64_t)sw_feed_batches(feed); batch++) {
        const double rows = (double)swi_feed_rows(feed, batch);
        SW_TRY(run_all(s, &SW_OPTS(sw_members_args, .mode = SW_EVAL, .feed = feed,
                                   .same_data = 1, .step = batch, .steps = 1)));
        for (int i = 0; i < s->n; i++) {
            double share[TABLE_SEEDS];
            SW_TRY(sw_members_metric(s->pupils[i].group, "accuracy", share, TABLE_SEEDS));
            for (int seed = 0; seed < TABLE_SEEDS; seed++)
                right[i][seed] +=
                    isfinite(share[seed]) ? (uint32_t)lrint(share[seed] * rows) : 0;
        }
    }
    return SW_OK;
}

static sw_status put_net(school *s, const table_net *net, uint32_t number, bool last)
{
    char text[LINE * 22];
    uint64_t line[LINE];
    size_t n = 0;
    line_of(net, number, line);
    for (int i = 0; i < LINE; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%c%" PRIu64, i == 0 ? '[' : ',',
                              line[i]);
    n += (size_t)snprintf(text + n, sizeof text - n, "]%c", last ? '\n' : ' ');
    s->table->nets[number] = *net;
    s->table->n++;
    return sw_file_write(s->file, text, n);
}

/* Nothing is kept of those that Ctrl-C interrupts. */
static sw_status train(school *s)
{
    uint32_t right[TOGETHER][TABLE_SEEDS];
    int made = 0;
    for (int rung = 0; rung < TABLE_RUNGS; rung++) {
        for (; made < table_rung[rung] / TABLE_BATCH; made += STEPS / 9) {
            if (cli_interrupted())
                return SW_OK;
            SW_TRY(run_all(s, &SW_OPTS(sw_members_args, .mode = SW_TRAIN, .feed = s->train_feed,
                                       .own_steps = 1, .steps = STEPS / 9)));
        }
        SW_TRY(ask(s, s->validation_feed, right));
        for (int i = 0; i < s->n; i++)
            for (int seed = 0; seed < TABLE_SEEDS; seed++)
                s->pupils[i].found.validation[seed][rung] = right[i][seed];
    }
    SW_TRY(ask(s, s->test_feed, right));
    for (int i = 0; i < s->n; i++) {
        memcpy(s->pupils[i].found.test, right[i], sizeof right[i]);
        SW_TRY(put_net(s, &s->pupils[i].found, s->pupils[i].number, i + 1 == s->n));
    }
    return SW_OK;
}

static sw_status train_missing(school *s)
{
    const uint64_t began = cli_clock_ns();
    const uint32_t had = s->table->n;
    for (uint32_t number = 0; number < TABLE_NETS && !cli_interrupted();) {
        sw_status status = SW_OK;
        for (; number < TABLE_NETS && s->n < TOGETHER && status == SW_OK; number++)
            if (!s->table->nets[number].there)
                status = pupil_begin(s, number);
        if (status == SW_OK && s->n > 0)
            status = train(s);
        pupils_end(s);
        SW_TRY(status);
        const double seconds = (double)(cli_clock_ns() - began) * 1e-9;
        cli_progress("%u of %d nets, %.0f s to go", s->table->n, TABLE_NETS,
                     s->table->n > had
                         ? seconds * (TABLE_NETS - s->table->n) / (s->table->n - had)
                         : 0.0);
    }
    return SW_OK;
}

/* ---- data -------------------------------------------------------------------------------- */

static sw_status data_open(school *s, const char *data)
{
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
    const char *dir = strncmp(data, "idx:", 4) == 0 ? data + 4 : NULL;
    if (dir == NULL) {
        SW_TRY(sw_dataset_synthetic(&s->all, TABLE_SAMPLES + TABLE_LOOK, 1));
        SW_TRY(sw_dataset_synthetic(&s->test, 10000, 2));
    } else {
        SW_TRY(sw_dataset_idx(&s->all, dir, "train"));
        SW_TRY(sw_dataset_idx(&s->test, dir, "t10k"));
    }
    sw_dataset_describe(s->all, &info);
    const int64_t look = info.n / 5 < TABLE_LOOK ? info.n / 5 : TABLE_LOOK;
    if (info.n - look < TABLE_BATCH || info.n_fields < 2 || info.field[0].shape.rank != 3)
        SW_FAIL(SW_INVALID, "%s: bench search needs images, %d at least", data,
                2 * TABLE_BATCH);
    SW_TRY(sw_dataset_split(&s->train, &s->validation, s->all, look, 1));
    s->task = SW_OPTS(sw_task, .channels = info.field[0].shape.dim[0],
                      .height = info.field[0].shape.dim[1], .width = info.field[0].shape.dim[2],
                      .classes = info.n_classes);
    SW_TRY(sw_feed_create(
        &s->train_feed, s->train,
        &SW_OPTS(sw_feed_opts, .batch = TABLE_BATCH, .shuffle = 1, .drop_last = 1)));
    SW_TRY(sw_feed_create(&s->validation_feed, s->validation,
                          &SW_OPTS(sw_feed_opts, .batch = 200)));
    SW_TRY(sw_feed_create(&s->test_feed, s->test, &SW_OPTS(sw_feed_opts, .batch = 200)));
    sw_dataset_describe(s->test, &info);
    s->table->test = (uint64_t)info.n;
    s->table->validation = (uint64_t)look;
    return SW_OK;
}

static sw_status put_head(school *s, const char *data)
{
    char text[512];
    sw_json j;
    sw_json_fixed(&j, text, sizeof text, NULL, NULL);
    sw_json_begin(&j, '{');
    sw_json_put_string(&j, "format", FORMAT);
    sw_json_put_string(&j, "data", data);
    SW_JSON_PUT(&j, s->table, validation, test);
    sw_json_put_i64(&j, "samples", TABLE_SAMPLES);
    sw_json_put_i64(&j, "batch", TABLE_BATCH);
    sw_json_end(&j);
    sw_json_line(&j);
    SW_TRY(j.status);
    return sw_file_write(s->file, text, j.used);
}

static sw_status make(school *s, const char *path, const char *data, int threads)
{
    uint64_t whole = 0;
    const bool there = sw_file_there(path);
    SW_TRY(there ? table_read(s->table, path, &whole) : table_begin(s->table));
    const uint64_t samples[] = {s->table->validation, s->table->test};
    if (there && strcmp(s->table->data, data) != 0)
        SW_FAIL(SW_INVALID, "%s: is the table of %s, not of %s", path, s->table->data, data);
    SW_TRY(data_open(s, data));
    if (there && (samples[0] != s->table->validation || samples[1] != s->table->test))
        SW_FAIL(SW_INVALID, "%s: was made from other data in %s", path, data);
    SW_TRY(sw_exec_create(&s->exec, &SW_OPTS(sw_exec_opts, .threads = threads)));
    SW_TRY(sw_file_open(&s->file, path, there ? SW_FILE_KEEP : SW_FILE_CREATE));
    if (!there)
        SW_TRY(put_head(s, data));
    else {
        SW_TRY(sw_file_cut(s->file, whole));
        SW_TRY(sw_file_seek(s->file, whole));
    }
    return train_missing(s);
}

sw_status table_make(search_table *t, const char *path, const char *data, int threads)
{
    school s = {.table = t};
    sw_status status = make(&s, path, data, threads);
    if (s.file != NULL) {
        const sw_status closed = sw_file_close(s.file);
        status = status == SW_OK ? closed : status;
    }
    sw_exec_destroy(s.exec);
    sw_feed_destroy(s.train_feed);
    sw_feed_destroy(s.validation_feed);
    sw_feed_destroy(s.test_feed);
    sw_dataset_destroy(s.train);
    sw_dataset_destroy(s.validation);
    sw_dataset_destroy(s.all);
    sw_dataset_destroy(s.test);
    return status;
}
