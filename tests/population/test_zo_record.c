/* Records of zeroth order: their size, replays bit for bit, and files that are not records. */
#include "tests/population/zo_scene.h"
#include "tests/support/files.h"
#include "tests/support/heap_sweep.h"
#include <sys/stat.h>

SW_TESTS("zeroth order records")

/* ---- a net of a few numbers -------------------------------------------------------------- */

typedef struct {
    sw_model *model;
    sw_linear f1, f2;
} tiny;

static void tiny_step(sw_ctx *ctx, void *user)
{
    const tiny *t = user;
    const sw_value x = sw_tanh(ctx, sw_apply_linear(ctx, t->f1, sw_input(ctx, 0)));
    sw_metric(ctx, "loss", sw_mse(ctx, sw_apply_linear(ctx, t->f2, x), sw_input(ctx, 1)));
}

static void tiny_make(tiny *t, sw_exec *exec, uint64_t seed)
{
    t->model = made_model("tiny");
    t->f1 = sw_linear_new(t->model, "f1", 3, 5);
    t->f2 = sw_linear_new(t->model, "f2", 5, 2);
    OK(sw_model_ready(t->model, exec, seed));
}

/* It ends with the test. */
static sw_zo *tiny_zo(const tiny *t, const sw_zo_opts *opts)
{
    sw_zo *zo = NULL;
    OK(sw_zo_create(&zo, t->model, opts));
    AFTER(sw_zo_destroy, zo);
    return zo;
}

static void tiny_steps(tiny *t, sw_exec *exec, sw_zo *zo, int n)
{
    static const float x[4][3] = {{1, 0, 2}, {0, 1, -1}, {-1, 1, 0}, {2, -2, 1}};
    static const float y[4][2] = {{1, -1}, {0, 1}, {-1, 0}, {0.5f, 0.5f}};
    const sw_array in[] = {{SW_F32, SW_SHAPE(4, 3), x}, {SW_F32, SW_SHAPE(4, 2), y}};
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = tiny_step, .user = t, .models = &t->model, .n_models = 1,
                .inputs = in, .n_inputs = 2, .mode = SW_EVAL);
    for (int i = 0; i < n; i++)
        OK(sw_zo_step(zo, exec, &args, "loss", NULL));
}

static const sw_zo_opts fast = {
    .size = sizeof(sw_zo_opts), .lr = 0.01f, .seed = 7, .max_steps = 10000};

/* Every number of threads and every instruction set of the machine. */
static void replayed_everywhere(const sw_model *end, const char *path, bool image,
                                uint64_t seed)
{
    static const char *const isas[] = {"base", "avx2", "avx512"};
    for (int i = 0; i < 6; i++) {
        const sw_exec_opts opts =
            SW_OPTS(sw_exec_opts, .isa = isas[i / 2], .threads = 1 + i % 2, .seed = 77);
        sw_exec *exec = NULL;
        if (sw_exec_create(&exec, &opts) != SW_OK) {
            sw_note("%s: %s", isas[i / 2], sw_last_error());
            continue;
        }
        net *n = zo_net(exec, image, seed);
        OK(sw_zo_replay(n->model, exec, path, NULL, NULL));
        SW_CHECK(zo_same(n->model, end), "%s, %d threads", isas[i / 2], opts.threads);
        sw_exec_destroy(exec);
    }
}

/* ---- replays ----------------------------------------------------------------------------- */

SW_TEST("10,000 steps are 40 kB, and come again")
{
    sw_exec *exec = net_exec(NULL);
    tiny a, b;
    const char *path = sw_temp_path("long.zo");
    tiny_make(&a, exec, 1);
    tiny_make(&b, exec, 1);
    sw_zo *zo = tiny_zo(&a, &fast);
    tiny_steps(&a, exec, zo, 10000);
    OK(sw_zo_save(zo, path));
    sw_note("%zu bytes", sw_file_bytes(path));
    CU_ASSERT_EQUAL(sw_file_bytes(path), 40264);
    CU_ASSERT_FALSE(zo_same(a.model, b.model));
    OK(sw_zo_replay(b.model, exec, path, NULL, NULL));
    CU_ASSERT(zo_same(a.model, b.model));
}

SW_TEST("replays have the same bits")
{
    const sw_schedule cosine =
        SW_OPTS(sw_schedule, .kind = "cosine", .base = 0.01f, .total_steps = 90);
    const sw_zo_opts kinds[] = {SW_OPTS(sw_zo_opts, .lr = 0.003f, .seed = 4, .max_steps = 200),
                                SW_OPTS(sw_zo_opts, .kind = "lozo", .schedule = &cosine,
                                        .weight_decay = 0.05f, .rank = 2, .window = 7,
                                        .seed = UINT64_MAX, .max_steps = 200)};
    const char *path = sw_temp_path("kind.zo");
    for (int i = 0; i < 4; i++) {
        const bool image = i / 2 != 0;
        sw_exec *exec = net_exec(NULL);
        net *n = zo_net(exec, image, 21);
        const batch data = net_batch(image, 0, 16);
        sw_zo *zo = zo_of(n, &kinds[i % 2]);
        (void)zo_train(zo, exec, n, &data, sw_tests_full() ? 200 : 40);
        OK(sw_zo_save(zo, path));
        replayed_everywhere(n->model, path, image, 21);
    }
}

/* A record may be saved at any step, and again later. */
SW_TEST("a record grows")
{
    sw_exec *exec = net_exec(NULL);
    tiny a;
    const char *path = sw_temp_path("grows.zo");
    tiny_make(&a, exec, 1);
    sw_zo *zo = tiny_zo(&a, &fast);
    for (int i = 0; i < 4; i++) {
        tiny b;
        OK(sw_zo_save(zo, path));
        CU_ASSERT_EQUAL(sw_file_bytes(path), 264 + 4 * (size_t)i);
        tiny_make(&b, exec, 1);
        OK(sw_zo_replay(b.model, exec, path, NULL, NULL));
        CU_ASSERT(zo_same(a.model, b.model));
        tiny_steps(&a, exec, zo, 1);
    }
}

static sw_status stop_at_three(void *user, uint64_t step, uint64_t steps)
{
    uint64_t *last = user;
    CU_ASSERT_EQUAL(steps, 5);
    CU_ASSERT_EQUAL(step, *last + 1);
    *last = step;
    return step == 3 ? sw_error_set(SW_STOPPED, __FILE__, __LINE__, "enough") : SW_OK;
}

SW_TEST("progress can end a replay")
{
    sw_exec *exec = net_exec(NULL);
    tiny a, b, c;
    uint64_t last = 0;
    const char *path = sw_temp_path("ends.zo");
    tiny_make(&a, exec, 1);
    tiny_make(&b, exec, 1);
    tiny_make(&c, exec, 1);
    sw_zo *zo = tiny_zo(&a, &fast);
    tiny_steps(&a, exec, zo, 3);
    OK(sw_model_copy(c.model, a.model));
    tiny_steps(&a, exec, zo, 2);
    OK(sw_zo_save(zo, path));
    REFUSED(sw_zo_replay(b.model, exec, path, stop_at_three, &last), SW_STOPPED, "enough");
    CU_ASSERT_EQUAL(last, 3);
    CU_ASSERT(zo_same(b.model, c.model));
    CU_ASSERT_FALSE(b.model->damaged);
}

/* ---- other models ------------------------------------------------------------------------ */

SW_TEST("another start is refused")
{
    sw_exec *exec = net_exec(NULL);
    tiny a, b;
    const char *path = sw_temp_path("start.zo");
    tiny_make(&a, exec, 1);
    tiny_make(&b, exec, 2);
    sw_zo *zo = tiny_zo(&a, &fast);
    tiny_steps(&a, exec, zo, 5);
    OK(sw_zo_save(zo, path));
    void *before = net_copy_bytes(b.model);
    REFUSED(sw_zo_replay(b.model, exec, path, NULL, NULL), SW_INVALID, "begins with");
    REFUSED(sw_zo_replay(a.model, exec, path, NULL, NULL), SW_INVALID, "begins with");
    CU_ASSERT(net_same_bytes(b.model, before));
    OK(sw_model_ready(b.model, exec, 1));
    sw_param_freeze(b.f2.bias, 1);
    REFUSED(sw_zo_replay(b.model, exec, path, NULL, NULL), SW_INVALID, "begins with");
    sw_param_freeze(b.f2.bias, 0);
    OK(sw_zo_replay(b.model, exec, path, NULL, NULL));
    CU_ASSERT(zo_same(a.model, b.model));
    sw_model *raw = NULL;
    OK(sw_model_create(&raw, "raw"));
    REFUSED(sw_zo_replay(raw, exec, path, NULL, NULL), SW_INVALID, "ready");
    sw_model_destroy(raw);
}

SW_TEST("parameters that were changed are found")
{
    sw_exec *exec = net_exec(NULL);
    tiny a, b;
    const float zero[2] = {0};
    const char *path = sw_temp_path("changed.zo");
    tiny_make(&a, exec, 1);
    tiny_make(&b, exec, 1);
    sw_zo *zo = tiny_zo(&a, &fast);
    tiny_steps(&a, exec, zo, 2);
    OK(sw_param_write(a.f2.bias, zero, sizeof zero));
    tiny_steps(&a, exec, zo, 2);
    OK(sw_zo_save(zo, path));
    REFUSED(sw_zo_replay(b.model, exec, path, NULL, NULL), SW_FORMAT, "do not lead");
    CU_ASSERT(b.model->damaged);
    REFUSED(sw_zo_replay(b.model, exec, path, NULL, NULL), SW_STALE, "damaged");
}

/* ---- files that are not records ---------------------------------------------------------- */

enum { STEPS = 6, RECORD = 264 + 4 * STEPS };

typedef struct {
    sw_exec *exec;
    tiny t;
    unsigned char bytes[RECORD + 1];
    char path[512];
} damage;

static void damage_make(damage *d)
{
    tiny a;
    memset(d, 0, sizeof *d);
    d->exec = net_exec(NULL);
    snprintf(d->path, sizeof d->path, "%s", sw_temp_path("damaged.zo"));
    sw_zo_opts opts = fast;
    opts.schedule = &SW_OPTS(sw_schedule, .kind = "cosine", .base = 0.01f, .total_steps = 90);
    tiny_make(&a, d->exec, 1);
    tiny_make(&d->t, d->exec, 1);
    sw_zo *zo = tiny_zo(&a, &opts);
    tiny_steps(&a, d->exec, zo, STEPS);
    OK(sw_zo_save(zo, d->path));
    size_t n;
    char *text = sw_file_text(d->path, &n);
    CU_ASSERT_EQUAL_FATAL(n, RECORD);
    memcpy(d->bytes, text, RECORD);
    free(text);
}

/* The file as it is now. */
static void now_refused(const damage *d, const char *what)
{
    void *before = net_copy_bytes(d->t.model);
    const sw_status status = sw_zo_replay(d->t.model, d->exec, d->path, NULL, NULL);
    SW_CHECK(status == SW_FORMAT, "%s: %s: %s", what, sw_status_name(status), sw_last_error());
    SW_CHECK(strstr(sw_last_error(), d->path) != NULL, "%s", sw_last_error());
    CU_ASSERT(net_same_bytes(d->t.model, before) && !d->t.model->damaged);
}

static void is_refused(const damage *d, const unsigned char *bytes, size_t n, const char *what)
{
    sw_file_put(d->path, bytes, n);
    now_refused(d, what);
}

SW_TEST("damaged and cut files are refused")
{
    damage d;
    damage_make(&d);
    sw_damage each = {d.path, .cuts = sw_tests_full() ? 1 : 7, .bits = sw_tests_full(),
                      .bytes = 1};
    while (sw_damage_next(&each))
        now_refused(&d, each.what);
    is_refused(&d, d.bytes, RECORD + 1, "one byte more");
    sw_file_put(d.path, d.bytes, RECORD);
    OK(sw_zo_replay(d.t.model, d.exec, d.path, NULL, NULL));
}

static void seal(unsigned char *bytes)
{
    swi_checksum sum;
    swi_checksum_begin(&sum);
    swi_checksum_add(&sum, bytes, RECORD - 8);
    const uint64_t end = swi_checksum_end(&sum);
    for (int i = 0; i < 8; i++)
        bytes[RECORD - 8 + i] = (unsigned char)(end >> 8 * i);
}

/* With a sum that is right: options that no trainer has, and bytes that mean nothing. */
SW_TEST("forged files are refused")
{
    static const struct {
        const char *what;
        size_t at;
        unsigned char byte;
    } forged[] = {{"kind", 8, 'x'},
                  {"after the kind", 13, 1},
                  {"rank", 28, 1},
                  {"window", 32, 1},
                  {"padding", 37, 1},
                  {"eps below 0", 19, 0xff},
                  {"lr not finite", 23, 0xff},
                  {"decay below 0", 27, 0xbf},
                  {"schedule", 80, 'x'},
                  {"after the schedule", 95, 1},
                  {"base", 99, 0xff},
                  {"warm-up", 113, 1},
                  {"what is not used", 140, 1},
                  {"not finite", 56, STEPS + 1}};
    damage d;
    damage_make(&d);
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        unsigned char bytes[RECORD];
        memcpy(bytes, d.bytes, RECORD);
        bytes[forged[i].at] = forged[i].byte;
        seal(bytes);
        is_refused(&d, bytes, RECORD, forged[i].what);
    }
    unsigned char bytes[RECORD];
    memcpy(bytes, d.bytes, RECORD);
    bytes[256 + 3] = 0x7f; /* the first step's: NaN */
    bytes[256 + 2] = 0xff;
    seal(bytes);
    is_refused(&d, bytes, RECORD, "a number that is not finite");
    memcpy(bytes, d.bytes, RECORD);
    bytes[256 + 2] ^= 0x10; /* another number */
    seal(bytes);
    sw_file_put(d.path, bytes, RECORD);
    REFUSED(sw_zo_replay(d.t.model, d.exec, d.path, NULL, NULL), SW_FORMAT, "do not lead");
}

SW_TEST("foreign files are refused")
{
    damage d;
    unsigned char other[600];
    damage_make(&d);
    memset(other, 'x', sizeof other);
    is_refused(&d, other, sizeof other, "letters");
    is_refused(&d, (const unsigned char *)"", 0, "nothing");
    memcpy(other, d.bytes, 48);
    memset(other + 48, 0xff, 8); /* more steps than any file has */
    is_refused(&d, other, sizeof other, "steps");
    REFUSED(sw_zo_replay(d.t.model, d.exec, sw_temp_path("not there"), NULL, NULL), SW_IO,
            "not there");
    REFUSED(sw_zo_replay(d.t.model, d.exec, sw_temp_path(""), NULL, NULL), SW_IO, "");
}

/* ---- failures ---------------------------------------------------------------------------- */

typedef struct {
    sw_zo *zo;
    char path[512];
} saving;

static sw_status save(void *arg)
{
    const saving *s = arg;
    return sw_zo_save(s->zo, s->path);
}

/* A save that fails leaves the file that was there. */
SW_TEST("every file call of a save can fail")
{
    damage d;
    saving s;
    damage_make(&d);
    tiny_steps(&d.t, d.exec, NULL, 0);
    s.zo = tiny_zo(&d.t, &fast);
    tiny_steps(&d.t, d.exec, s.zo, 2);
    snprintf(s.path, sizeof s.path, "%s", d.path);
    sw_sites sites = {SW_FAULT_FILE, .any = true};
    while (sw_sites_next(&sites)) {
        size_t n;
        sw_file_put(d.path, d.bytes, RECORD);
        const sw_status status = SW_AT_SITE(&sites, save(&s));
        char *there = sw_file_text(d.path, &n);
        const bool old = n == RECORD && memcmp(there, d.bytes, RECORD) == 0;
        free(there);
        SW_CHECK(n == 272 || (old && status != SW_OK), "call %d left %zu bytes", (int)sites.k,
                 n);
    }
    CU_ASSERT_EQUAL(sw_file_bytes(s.path), 272);
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, save, &s) > 0);
}

static sw_status replay(void *arg)
{
    damage *d = arg;
    OK(sw_model_ready(d->t.model, d->exec, 1));
    return sw_zo_replay(d->t.model, d->exec, d->path, NULL, NULL);
}

SW_TEST("reading can fail")
{
    damage d;
    damage_make(&d);
    OK(replay(&d)); /* its programs are there */
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, replay, &d) > 0);
    CU_ASSERT(sw_sweep(SW_FAULT_FILE, SW_OK, replay, &d) > 4);
}

SW_TEST("records are refused by reason")
{
    sw_exec *exec = net_exec(NULL);
    tiny t;
    sw_zo_opts opts = fast;
    tiny_make(&t, exec, 1);
    sw_zo *zo = tiny_zo(&t, &fast);
    REFUSED(sw_zo_save(zo, sw_temp_path("no/such/folder")), SW_IO, "folder");
    opts.max_steps = 0;
    zo = tiny_zo(&t, &opts);
    REFUSED(sw_zo_save(zo, sw_temp_path("none")), SW_INVALID, "max_steps");
}
