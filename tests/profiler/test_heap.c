/* The host's memory in the profile: what grows is named by its purpose and the line that takes
 * it, what does not change is not written; and a denied request says who held what. */
#include "alloc/base/mem.h"
#include "runtime/stepwell.h"
#include "tests/profiler/read_back.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <time.h>

SW_TESTS("heap records")

enum { ROWS = 12, COLS = 9, HIDDEN = 20 };

/* A hidden layer and squares; everything that a test may want to leak into. */
typedef struct {
    sw_budget *budget;
    sw_exec *exec;
    sw_profile *profile;
    sw_model *model;
    sw_linear in, out;
    sw_optimizer *sgd;
    sw_array x;
    float values[ROWS * COLS];
    uint64_t step;
    char path[256];
} rig;

static void fit(sw_ctx *ctx, void *user)
{
    rig *r = user;
    const sw_value x = sw_input(ctx, 0), hidden = sw_relu(ctx, sw_apply_linear(ctx, r->in, x));
    sw_backward(ctx, sw_mse(ctx, sw_apply_linear(ctx, r->out, hidden), x), &r->sgd, 1);
    sw_update(ctx, r->sgd);
}

static void close_rig(void *arg)
{
    rig *r = arg;
    sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
    sw_exec_destroy(r->exec);
    sw_model_destroy(r->model);
    (void)!sw_profile_destroy(r->profile);
    sw_budget_destroy(r->budget);
    r->exec = NULL;
    r->model = NULL;
    r->profile = NULL;
    r->budget = NULL;
}

static rig *open_rig(const char *name, size_t budget)
{
    static rig r;
    memset(&r, 0, sizeof r);
    sw_after(close_rig, &r);
    snprintf(r.path, sizeof r.path, "%s", sw_temp_path(name));
    const sw_profile_opts profile = SW_OPTS(sw_profile_opts, .path = r.path);
    if (budget > 0)
        CU_ASSERT_EQUAL_FATAL(sw_budget_create(&r.budget, budget), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_profile_create(&r.profile, &profile), SW_OK);
    const sw_exec_opts exec =
        SW_OPTS(sw_exec_opts, .profile = r.profile, .budget = r.budget, .no_recompute = 1);
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&r.exec, &exec), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&r.model, "net"), SW_OK);
    r.in = sw_linear_new(r.model, "in", COLS, HIDDEN);
    r.out = sw_linear_new(r.model, "out", HIDDEN, COLS);
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd", .lr = 0.01f);
    CU_ASSERT_EQUAL_FATAL(sw_optimizer_create(&r.sgd, r.model, &sgd), SW_OK);
    for (int i = 0; i < ROWS * COLS; i++)
        r.values[i] = (float)(i % 11) * 0.1f;
    r.x = (sw_array){SW_F32, SW_SHAPE(ROWS, COLS), r.values};
    return &r;
}

static sw_status one_step(rig *r, int immediate)
{
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = fit, .user = r, .models = &r->model, .n_models = 1,
                .inputs = &r->x, .n_inputs = 1, .immediate = immediate, .step = r->step++);
    return sw_run(r->exec, &args);
}

static void steps(rig *r, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (one_step(r, 0) != SW_OK) {
            SW_CHECK(false, "%s", sw_last_error());
            return;
        }
}

/* The n records of one type in the file, with the profile closed. */
static const json_t *const *closed(rig *r, const char *type, size_t n)
{
    sw_exec_destroy(r->exec);
    r->exec = NULL;
    CU_ASSERT_EQUAL(sw_profile_destroy(r->profile), SW_OK);
    r->profile = NULL;
    return records(read_back(r->path), type, n);
}

/* The sum of the record's places of that purpose and file; -1: there are none. */
static int64_t place_bytes(const json_t *step, const char *heap, const char *file)
{
    int64_t sum = -1;
    const json_t *places = json_object_get(step, "places");
    for (size_t i = 0; i < json_array_size(places); i++) {
        const json_t *p = json_array_get(places, i);
        const char *at = json_string_value(json_object_get(p, "at"));
        if (strcmp(json_string_value(json_object_get(p, "heap")), heap) == 0 &&
            strncmp(at, file, strlen(file)) == 0 && strchr(at, ':') != NULL)
            sum = (sum < 0 ? 0 : sum) + number_of(p, "bytes");
    }
    return sum;
}

/* ---- growth ------------------------------------------------------------------------------ */

/* One set of data more before each step from the fifth on, and none given back. */
SW_TEST("a leak is named by purpose and line at once")
{
    enum { LEAKS = 4 };
    rig *r = open_rig("leak.jsonl", 0);
    sw_dataset *kept[LEAKS];
    steps(r, 4);
    for (int i = 0; i < LEAKS; i++) {
        CU_ASSERT_EQUAL_FATAL(sw_dataset_synthetic(&kept[i], 10, 1), SW_OK);
        steps(r, 1);
    }
    const size_t n = 4 + LEAKS;
    const json_t *const *found = closed(r, "step", n);
    CU_ASSERT_PTR_NULL(json_object_get(found[3], "heap"));
    int64_t before = number_of(json_object_get(found[0], "heap"), "datasets"), held = 0;
    for (size_t i = 4; i < n; i++) {
        const int64_t now = number_of(json_object_get(found[i], "heap"), "datasets");
        const int64_t at = place_bytes(found[i], "datasets", "runtime/data/");
        SW_CHECK(now - before >= 10 * 28 * 28, "%lld bytes more", (long long)(now - before));
        SW_CHECK(at - held == now - before, "%lld bytes at the lines, %lld by purpose",
                 (long long)(at - held), (long long)(now - before));
        before = now;
        held = at;
    }
    for (int i = 0; i < LEAKS; i++)
        sw_dataset_destroy(kept[i]);
}

/* Model memory is no heap block: it is counted by what arenas are for. */
SW_TEST("arenas are counted by their use")
{
    rig *r = open_rig("arenas.jsonl", 0);
    sw_model *other;
    steps(r, 3);
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&other, "step"), SW_OK); /* names do not count */
    (void)sw_linear_new(other, "layer", 100, 100);
    CU_ASSERT_EQUAL_FATAL(sw_model_ready(other, r->exec, 1), SW_OK);
    steps(r, 1);
    sw_model_destroy(other);
    steps(r, 1);
    const json_t *const *found = closed(r, "step", 5);
    const int64_t own = number_of(json_object_get(found[0], "arenas"), "model");
    const int64_t step = number_of(json_object_get(found[0], "arenas"), "step");
    CU_ASSERT_PTR_NULL(json_object_get(found[2], "arenas"));
    CU_ASSERT(number_of(json_object_get(found[3], "arenas"), "model") >= own + 40400);
    CU_ASSERT_EQUAL(number_of(json_object_get(found[3], "arenas"), "step"), step);
    CU_ASSERT_EQUAL(number_of(json_object_get(found[4], "arenas"), "model"), own);
}

/* Memory that the program takes by malloc is not ours; it is shown beside the system's
 * figure. */
SW_TEST("malloc is listed apart")
{
    enum { BYTES = 300000, N = 4 };
    size_t there;
    if (!sw_heap_other_bytes(&there))
        SW_SKIP("this heap does not say what it has given out");
    rig *r = open_rig("malloc.jsonl", 0);
    char *volatile kept[N];
    steps(r, 2);
    for (int i = 0; i < N; i++) {
        nanosleep(&(struct timespec){0, 110000000}, NULL); /* it is asked ten times a second */
        kept[i] = malloc(BYTES);
        CU_ASSERT_PTR_NOT_NULL_FATAL(kept[i]);
        kept[i][0] = 1;
        steps(r, 1);
    }
    for (int i = 0; i < N; i++)
        free(kept[i]);
    const size_t n = 2 + N;
    const json_t *const *found = closed(r, "step", n);
    for (size_t i = 2; i + 1 < n; i++) {
        const int64_t more =
            number_of(found[i + 1], "other_bytes") - number_of(found[i], "other_bytes");
        SW_CHECK(more > BYTES - 65536 && more < 2 * BYTES, "%lld bytes more", (long long)more);
        CU_ASSERT_PTR_NULL(json_object_get(found[i + 1], "heap"));
    }
}

/* The members are there in the first record and where something changed: in a clean run never
 * again. Looked for as text, since a long run does not fit memory as objects. */
SW_TEST("a clean run writes them once")
{
    static char line[1 << 16];
    const uint64_t n = sw_tests_full() ? 100000 : 2000;
    rig *r = open_rig("clean.jsonl", 0);
    steps(r, n);
    close_rig(r);
    FILE *f = fopen(r->path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    uint64_t seen = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "{\"type\":\"step\"", 14) != 0)
            continue;
        const bool told = strstr(line, "\"heap\":") != NULL ||
                          strstr(line, "\"places\":") != NULL ||
                          strstr(line, "\"arenas\":") != NULL;
        SW_CHECK(told == (seen == 0), "step %llu: %s", (unsigned long long)seen + 1, line);
        seen++;
    }
    fclose(f);
    CU_ASSERT_EQUAL(seen, n);
}

/* ---- the backend ------------------------------------------------------------------------- */

SW_TEST("the end says what the backend has")
{
    rig *r = open_rig("backend.jsonl", 0);
    steps(r, 2);
    const json_t *const *found = closed(r, "heap", 1);
    const json_t *purposes = json_object_get(found[0], "purposes");
    CU_ASSERT_EQUAL(json_array_size(purposes), SW_HEAP_KINDS);
    const bool apart = strncmp(sw_heap_backend(), "jemalloc", 8) == 0;
    for (size_t i = 0; i < json_array_size(purposes); i++) {
        const json_t *p = json_array_get(purposes, i);
        CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(p, "name")),
                               sw_heap_name((sw_heap)i));
        const int64_t bytes = number_of(p, "bytes"),
                      allocated = number_of(p, "allocated_bytes"),
                      active = number_of(p, "active_bytes");
        if (apart)
            SW_CHECK(allocated >= bytes && active >= allocated, "%zu: %lld %lld %lld", i,
                     (long long)bytes, (long long)allocated, (long long)active);
        else
            CU_ASSERT(allocated == 0 && active == 0);
    }
}

/* ---- padding ----------------------------------------------------------------------------- */

enum { IMAGES = 15, SIDE = 6, FILTERS = 2, OUT = SIDE - 2 }; /* a lane of sixteen is empty */

static void convolve(sw_ctx *ctx, void *user)
{
    const sw_conv2d *conv = user;
    sw_output(ctx, "y", sw_relu(ctx, sw_apply_conv2d(ctx, *conv, sw_input(ctx, 0))));
}

static void twist(sw_ctx *ctx, void *user)
{
    const sw_value x = sw_input(ctx, 0);
    sw_output(ctx, "y", sw_add(ctx, sw_relu(ctx, x), sw_tanh(ctx, x)));
}

/* One evaluation of `fn`; the plan's record and the bytes that live at its peak in the arena.
 */
static const json_t *plan_of(rig *r, sw_step_fn *fn, void *user, const sw_array *x,
                             int64_t *live)
{
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = fn, .user = user, .models = &r->model, .n_models = 1,
                .inputs = x, .n_inputs = 1, .mode = SW_EVAL);
    SW_CHECK(sw_run(r->exec, &args) == SW_OK, "%s", sw_last_error());
    const json_t *plan = closed(r, "plan", 1)[0];
    *live = number_of(plan, "peak_bytes") - number_of(plan, "model_bytes") -
            number_of(plan, "slot_bytes");
    return plan;
}

/* 5 x 7 floats are 140 bytes: 192 with 52 of padding. Two live at the peak, x is an input. */
SW_TEST("alignment is as worked out by hand")
{
    rig *r = open_rig("padding.jsonl", 0);
    const sw_array x = {SW_F32, SW_SHAPE(5, 7), r->values};
    int64_t live;
    const json_t *plan = plan_of(r, twist, NULL, &x, &live);
    CU_ASSERT_EQUAL(live, 2 * 192);
    CU_ASSERT_EQUAL(number_of(plan, "arena_bytes"), 2 * 192); /* no holes */
    CU_ASSERT_EQUAL(number_of(plan, "padding_bytes"), 2 * 52);
    CU_ASSERT_EQUAL(number_of(plan, "lanes_bytes"), 0);
}

/* Input in blocks (16 x 1 x 6 x 6) and result (16 x 2 x 4 x 4) live while the convolution runs:
 * of each a sixteenth holds no image, and both are multiples of 64. */
SW_TEST("empty lanes are as worked out by hand")
{
    static float images[IMAGES * SIDE * SIDE];
    rig *r = open_rig("lanes.jsonl", 0);
    sw_conv2d conv = sw_conv2d_new(r->model, "conv", 1, FILTERS, 3);
    const sw_array x = {SW_F32, SW_SHAPE(IMAGES, 1, SIDE, SIDE), images};
    int64_t live;
    const json_t *plan = plan_of(r, convolve, &conv, &x, &live);
    CU_ASSERT_EQUAL(number_of(plan, "lanes_bytes"), 4 * (SIDE * SIDE + FILTERS * OUT * OUT));
    CU_ASSERT_EQUAL(number_of(plan, "padding_bytes"), 0);
    CU_ASSERT_EQUAL(live, 64 * (SIDE * SIDE + FILTERS * OUT * OUT));
}

/* ---- denied ------------------------------------------------------------------------------ */

static int64_t sum_of(const json_t *shares)
{
    int64_t sum = 0;
    const char *name;
    json_t *x;
    json_object_foreach(shares, name, x) sum += json_integer_value(x);
    return sum;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text != NULL ? text : "";
}

/* The promises of every such record: the shares add up, the largest holder comes first. */
static void check_denied(const json_t *d)
{
    const int64_t live = number_of(d, "live_bytes");
    CU_ASSERT_EQUAL(sum_of(json_object_get(d, "by_role")), live);
    CU_ASSERT_EQUAL(sum_of(json_object_get(d, "by_layer")), live);
    const json_t *holders = json_object_get(d, "holders");
    int64_t last = INT64_MAX;
    for (size_t i = 0; i < json_array_size(holders); i++) {
        const json_t *h = json_array_get(holders, i);
        CU_ASSERT(number_of(h, "bytes") <= last && number_of(h, "bytes") > 0);
        CU_ASSERT(text_of(h, "name")[0] != '\0' && text_of(h, "role")[0] != '\0');
        last = number_of(h, "bytes");
    }
}

/* One byte less than the least that would do. */
SW_TEST("a plan over its budget says who holds it")
{
    sw_plan_info info = SW_OPTS(sw_plan_info);
    rig *r = open_rig("free.jsonl", 0);
    sw_run_args args = SW_OPTS(sw_run_args, .fn = fit, .user = r, .models = &r->model,
                               .n_models = 1, .inputs = &r->x, .n_inputs = 1);
    CU_ASSERT_EQUAL_FATAL(sw_plan(r->exec, &args, &info), SW_OK);
    const size_t needed = info.model_bytes + info.arena_bytes;
    close_rig(r);
    r = open_rig("budget.jsonl", needed - 1);
    args.user = r;
    args.models = &r->model;
    CU_ASSERT_EQUAL(sw_plan(r->exec, &args, &info), SW_NOMEM);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "does not fit"));
    const json_t *d = closed(r, "denied", 1)[0];
    check_denied(d);
    CU_ASSERT_STRING_EQUAL(text_of(d, "limited_by"), "budget");
    CU_ASSERT_EQUAL(number_of(d, "limit_bytes"), (int64_t)needed - 1);
    CU_ASSERT_EQUAL(number_of(d, "step"), 0);
    CU_ASSERT_EQUAL(number_of(d, "needed_bytes"), number_of(d, "model_bytes") +
                                                      number_of(d, "arena_bytes") +
                                                      number_of(d, "data_bytes"));
    CU_ASSERT_EQUAL(number_of(d, "arena_bytes"), (int64_t)info.arena_bytes);
    /* At the plan's peak live model, inputs and step tensors: every byte has an owner. */
    CU_ASSERT_EQUAL(number_of(d, "live_bytes"), (int64_t)info.peak_bytes);
    const json_t *plan = records(read_back(r->path), "plan", 1)[0];
    CU_ASSERT_EQUAL(number_of(plan, "program"), number_of(d, "program"));
}

/* In immediate mode nothing is planned: the push that is too much is named. */
SW_TEST("a denied push is named")
{
    enum { BUDGET = 8192 };
    rig *r = open_rig("push.jsonl", BUDGET);
    CU_ASSERT_EQUAL(one_step(r, 1), SW_NOMEM);
    const json_t *d = closed(r, "denied", 1)[0];
    check_denied(d);
    CU_ASSERT_STRING_EQUAL(text_of(d, "limited_by"), "budget");
    CU_ASSERT_EQUAL(number_of(d, "step"), 1);
    CU_ASSERT(text_of(d, "label")[0] != '\0' && text_of(d, "op")[0] != '\0' &&
              text_of(d, "phase")[0] != '\0');
    CU_ASSERT_EQUAL(number_of(d, "limit_bytes"), BUDGET);
    const int64_t left = BUDGET - number_of(d, "used_bytes");
    CU_ASSERT(left >= 0 && number_of(d, "request_bytes") > left);
}

/* A model that finds no room is refused before its run has made anything: nothing of the runs
 * before it is reported. */
SW_TEST("a denied model is no tensor of runs before")
{
    enum { LARGE = 512 };
    rig *r = open_rig("model.jsonl", 1 << 20);
    CU_ASSERT_EQUAL(one_step(r, 1), SW_OK);
    CU_ASSERT_EQUAL(one_step(r, 1), SW_OK);
    sw_model *small = r->model;
    sw_optimizer *sgd = r->sgd;
    const sw_linear in = r->in, out = r->out;
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&r->model, "large"), SW_OK);
    r->in = sw_linear_new(r->model, "in", COLS, LARGE * LARGE);
    r->out = sw_linear_new(r->model, "out", LARGE * LARGE, COLS);
    CU_ASSERT_EQUAL(one_step(r, 1), SW_NOMEM);
    sw_model_destroy(r->model);
    r->model = small;
    r->sgd = sgd;
    r->in = in;
    r->out = out;
    const json_t *const *found = closed(r, "denied", 1);
    check_denied(found[0]);
    CU_ASSERT_EQUAL(number_of(found[0], "step"), 3);
    CU_ASSERT(json_is_null(json_object_get(found[0], "op")));
    const json_t *roles = json_object_get(found[0], "by_role");
    CU_ASSERT_EQUAL(json_object_size(roles), 2);
    CU_ASSERT(number_of(roles, "parameter") > LARGE * LARGE * 4);
    CU_ASSERT_EQUAL(number_of(roles, "input"),
                    (int64_t)((ROWS * COLS * sizeof(float) + 63) / 64 * 64));
}

/* Each call for memory of a first run fails in turn: each refusal leaves its record, says what
 * the caller gets, and the run after it goes on. */
static void check_refusals(int immediate)
{
    sw_sites sites = {SW_FAULT_MEMORY, .any = true, .keeps = true};
    while (sw_sites_next(&sites)) {
        rig *r = open_rig("fault.jsonl", 0);
        const sw_status status = SW_AT_SITE(&sites, one_step(r, immediate));
        const char *message = sw_last_error();
        const json_t *const *found = closed(r, "denied", status == SW_NOMEM);
        if (status == SW_NOMEM) {
            check_denied(found[0]);
            CU_ASSERT_STRING_EQUAL(text_of(found[0], "message"), message);
            CU_ASSERT_STRING_EQUAL(text_of(found[0], "limited_by"), "memory");
        }
        close_rig(r);
    }
    CU_ASSERT(sites.failed > 10 && sites.failed < 299);
}

SW_TEST("every refusal leaves a record")
{
    check_refusals(0);
    check_refusals(1);
}
