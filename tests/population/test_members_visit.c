/* The owners of members' bytes: by tensor, layer and role, against a model that is planned
 * alone; and the records of profiles. */
#include "alloc/base/mem.h"
#include "tests/population/small_net.h"
#include "tests/support/files.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("members visited")

/* ---- what a visitor saw ------------------------------------------------------------------ */

enum { MOST = 512 };

typedef struct {
    size_t n, ops;
    size_t offset[MOST], bytes[MOST], padding[MOST];
    uint32_t birth[MOST], death[MOST];
    char name[MOST][64], role[MOST][24], layer[MOST][24];
    int input[MOST];
} seen;

static void see(void *to, const sw_plan_storage *x)
{
    seen *s = to;
    CU_ASSERT_FATAL(s->n < MOST);
    s->offset[s->n] = x->offset;
    s->bytes[s->n] = x->bytes;
    s->padding[s->n] = x->padding;
    s->birth[s->n] = x->birth;
    s->death[s->n] = x->death;
    s->input[s->n] = x->input;
    snprintf(s->name[s->n], sizeof s->name[0], "%s", x->name);
    snprintf(s->role[s->n], sizeof s->role[0], "%s", x->role);
    snprintf(s->layer[s->n++], sizeof s->layer[0], "%s", x->layer);
}

static void see_op(void *to, uint32_t position, const char *name, sw_phase phase)
{
    seen *s = to;
    SW_CHECK(position == s->ops && name[0] != '\0' && phase <= SW_STEP, "op %u", position);
    s->ops++;
}

static sw_plan_visitor visitor(seen *s)
{
    return SW_OPTS(sw_plan_visitor, .to = s, .op = see_op, .storage = see);
}

static size_t of_role(const seen *s, const char *role)
{
    size_t sum = 0;
    for (size_t i = 0; i < s->n; i++)
        sum += strcmp(s->role[i], role) == 0 ? s->bytes[i] + s->padding[i] : 0;
    return sum;
}

/* One after the other, without a hole or an overlap. */
static void check_tiles(const seen *s, size_t bytes)
{
    size_t sum = 0;
    for (size_t i = 0; i < s->n; i++) {
        sum += s->bytes[i] + s->padding[i];
        for (size_t k = 0; k < i; k++)
            SW_CHECK(s->offset[i] >= s->offset[k] + s->bytes[k] + s->padding[k] ||
                         s->offset[k] >= s->offset[i] + s->bytes[i] + s->padding[i],
                     "%s and %s overlap", s->name[i], s->name[k]);
        CU_ASSERT(s->offset[i] + s->bytes[i] + s->padding[i] <= bytes);
    }
    CU_ASSERT_EQUAL(sum, bytes);
}

/* ---- ranges ------------------------------------------------------------------------------ */

SW_TEST("tensors add up to a member's range")
{
    sw_exec *exec = small_exec(1);
    for (int64_t hidden = 1; hidden < 40; hidden += 3) {
        sw_members *all = small_group(exec, small_new(hidden), NULL);
        seen *s = sw_block(sizeof(seen));
        const sw_plan_visitor v = visitor(s);
        OK(sw_members_visit(all, &v));
        check_tiles(s, sw_members_bytes(all));
        CU_ASSERT(s->ops == 0 && of_role(s, "knob") > 0 && of_role(s, "state") > 0);
        CU_ASSERT(of_role(s, "optimizer_state") >= 2 * of_role(s, "parameter"));
        for (size_t i = 0; i < s->n; i++)
            if (strcmp(s->name[i], "f1.weight") == 0)
                CU_ASSERT(s->bytes[i] == (size_t)(hidden * SMALL_WIDTH * 4) &&
                          strcmp(s->layer[i], "f1") == 0 && s->death[i] == UINT32_MAX);
    }
}

static sw_status no_step(sw_member_view *view, void *user)
{
    view->score = 0.0;
    return SW_OK;
}

/* A callback's own memory is a state; a member without anything is padding. */
SW_TEST("what a callback has of its own is a state")
{
    sw_members *all;
    sw_model *model = made_model("numbers");
    for (size_t state = 0; state < 200; state += 50) {
        seen *s = sw_block(sizeof(seen));
        const sw_plan_visitor v = visitor(s);
        const sw_members_opts opts =
            SW_OPTS(sw_members_opts, .shape = model, .callback = no_step, .state_bytes = state);
        OK(sw_members_create(&all, small_exec(1), &opts));
        OK(sw_members_visit(all, &v));
        check_tiles(s, sw_members_bytes(all));
        CU_ASSERT(s->n == 1 && s->bytes[0] == state && strcmp(s->role[0], "state") == 0);
        CU_ASSERT_EQUAL(sw_members_visit_step(all, &SW_OPTS(sw_members_args), &v), SW_INVALID);
        sw_members_destroy(all);
    }
}

/* ---- steps ------------------------------------------------------------------------------- */

typedef struct {
    sw_members *all;
    sw_feed *feed;
    sw_members_args args;
} scene;

static scene scene_new(int64_t hidden, int64_t rows)
{
    scene s = {.all = small_group(small_exec(1), small_new(hidden), NULL),
               .feed = small_feed(small_data(50), rows, 0)};
    s.args = SW_OPTS(sw_members_args, .feed = s.feed, .mode = SW_TRAIN);
    return s;
}

typedef struct {
    size_t role, layer, most;
    int n;
} shares;

static void add_share(void *to, const sw_share *x)
{
    shares *s = to;
    *(x->kind == SW_SHARE_ROLE ? &s->role : &s->layer) += x->at_peak_bytes;
    s->most = x->peak_bytes > s->most ? x->peak_bytes : s->most;
    s->n++;
}

SW_TEST("a step is that of a model alone")
{
    enum { ROWS = 10 }; /* 50 samples: all batches are full */
    scene g = scene_new(7, ROWS);
    small *alone = small_new(7);
    sw_exec *exec = small_exec(1);
    seen *a = sw_block(sizeof(seen)), *b = sw_block(sizeof(seen));
    const sw_plan_visitor to_a = visitor(a), to_b = visitor(b);
    OK(sw_members_visit_step(g.all, &g.args, &to_a));
    sw_plan_info info = SW_OPTS(sw_plan_info);
    OK(sw_members_look(g.all, &g.args, &info));
    const sw_array inputs[] = {{.dtype = SW_F32, .shape = SW_SHAPE(ROWS, SMALL_WIDTH)},
                               {.dtype = SW_F32, .shape = SW_SHAPE(ROWS, SMALL_WIDTH)}};
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = small_step, .user = alone, .models = &alone->model,
                .n_models = 1, .inputs = inputs, .n_inputs = 2, .mode = SW_TRAIN);
    OK(sw_plan_visit(exec, &args, &to_b));
    CU_ASSERT(a->n > 10 && a->ops > 5);
    CU_ASSERT_EQUAL(memcmp(a, b, sizeof *a), 0);
    size_t top = 0;
    for (size_t i = 0; i < a->n; i++)
        if (!a->input[i] && a->offset[i] + a->bytes[i] + a->padding[i] > top)
            top = a->offset[i] + a->bytes[i] + a->padding[i];
    CU_ASSERT_EQUAL(top, info.arena_bytes);
    shares of_group = {0}, of_model = {0};
    OK(sw_members_shares(g.all, &g.args, add_share, &of_group));
    OK(sw_plan_shares(exec, &args, add_share, &of_model));
    CU_ASSERT_EQUAL(memcmp(&of_group, &of_model, sizeof of_group), 0);
    CU_ASSERT(of_group.role == of_group.layer && of_group.n > 6);
}

/* The last batch of an epoch is smaller; what is shown is what the lane must hold. */
SW_TEST("the larger batch is shown")
{
    scene g = scene_new(7, 48); /* and 2 */
    seen *s = sw_block(sizeof(seen));
    const sw_plan_visitor v = visitor(s);
    sw_plan_info info = SW_OPTS(sw_plan_info);
    OK(sw_members_visit_step(g.all, &g.args, &v));
    OK(sw_members_look(g.all, &g.args, &info));
    size_t top = 0;
    for (size_t i = 0; i < s->n; i++)
        if (!s->input[i] && s->offset[i] + s->bytes[i] + s->padding[i] > top)
            top = s->offset[i] + s->bytes[i] + s->padding[i];
    CU_ASSERT_EQUAL(top, info.arena_bytes);
}

SW_TEST("lanes have arenas and batches")
{
    scene g = scene_new(7, 10);
    sw_members_memory used = SW_OPTS(sw_members_memory);
    sw_member member;
    sw_plan_info info = SW_OPTS(sw_plan_info);
    OK(sw_members_used(g.all, &used));
    CU_ASSERT(used.step_bytes == 0 && used.batch_bytes == 0);
    OK(sw_member_new(&member, g.all, 1));
    g.args.members = &member;
    g.args.n = 1;
    OK(sw_members_run(g.all, &g.args));
    OK(sw_members_look(g.all, &g.args, &info));
    OK(sw_members_used(g.all, &used));
    CU_ASSERT(used.step_bytes == info.arena_bytes && used.batch_bytes == info.data_bytes);
    CU_ASSERT_EQUAL(used.step_bytes + used.batch_bytes, used.lane_bytes);
}

/* A call inside the visitor is refused, and does no harm. */
static void call_inside(void *to, const sw_plan_storage *x)
{
    scene *g = to;
    CU_ASSERT_EQUAL(sw_members_run(g->all, &g->args), SW_BUSY);
    CU_ASSERT_EQUAL(sw_members_visit(g->all, &SW_OPTS(sw_plan_visitor)), SW_BUSY);
}

SW_TEST("a visitor may call nothing")
{
    scene g = scene_new(3, 10);
    sw_member member;
    OK(sw_member_new(&member, g.all, 1));
    g.args.members = &member;
    g.args.n = 1;
    const sw_plan_visitor v = SW_OPTS(sw_plan_visitor, .to = &g, .storage = call_inside);
    OK(sw_members_visit(g.all, &v));
    OK(sw_members_visit_step(g.all, &g.args, &v));
    OK(sw_members_run(g.all, &g.args));
}

/* ---- profiles ---------------------------------------------------------------------------- */

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        n++;
    return n;
}

/* Plans are written once each, and numbers of programs do not meet those of a run. */
SW_TEST("a profile has plans and shapes")
{
    scene g = scene_new(7, 48), h = scene_new(9, 50);
    sw_profile *profile;
    const sw_profile_opts opts = SW_OPTS(sw_profile_opts, .path = sw_temp_path("shapes.jsonl"));
    char path[1024];
    uint32_t number[3] = {9, 9, 9};
    snprintf(path, sizeof path, "%s", opts.path);
    const sw_members_args both[] = {g.args, g.args};
    OK(sw_profile_create(&profile, &opts));
    OK(sw_members_profile(g.all, both, 2, profile, "seven", &number[0]));
    OK(sw_members_profile(h.all, &h.args, 1, profile, "nine \"units\"", &number[1]));
    OK(sw_members_profile(h.all, NULL, 0, profile, NULL, &number[2]));
    CU_ASSERT_EQUAL(sw_members_profile(h.all, NULL, 1, profile, "none", &number[2]),
                    SW_INVALID);
    CU_ASSERT_EQUAL(sw_members_profile(h.all, both, 17, profile, "many", &number[2]),
                    SW_INVALID);
    CU_ASSERT(number[0] == 0 && number[1] == 1 && number[2] == 2);
    OK(sw_profile_destroy(profile));
    char *text = sw_file_text(path, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    sw_after(free, text);
    CU_ASSERT_EQUAL(count(text, "\"type\":\"plan\""), 3);
    CU_ASSERT_EQUAL(count(text, "\"type\":\"shape\""), 3);
    CU_ASSERT(strstr(text, "\"name\":\"nine \\\"units\\\"\"") != NULL);
    CU_ASSERT(strstr(text, "\"programs\":[0,1]") != NULL &&
              strstr(text, "\"programs\":[]") != NULL);
    CU_ASSERT_EQUAL(count(text, "\"exec\":1"), 2 + 1); /* two lanes: a plan, and two shapes */
}

/* ---- every allocation -------------------------------------------------------------------- */

static sw_status visit_all(void *arg)
{
    const scene *g = arg;
    const sw_plan_visitor v = SW_OPTS(sw_plan_visitor);
    shares s = {0};
    sw_profile *profile;
    SW_TRY(sw_members_visit(g->all, &v));
    SW_TRY(sw_members_visit_step(g->all, &g->args, &v));
    SW_TRY(sw_members_shares(g->all, &g->args, add_share, &s));
    SW_TRY(sw_profile_create(&profile, &SW_OPTS(sw_profile_opts)));
    const sw_status status = sw_members_profile(g->all, &g->args, 1, profile, "shape", NULL);
    const sw_status ended = sw_profile_destroy(profile);
    return status != SW_OK ? status : ended;
}

/* A group that has no program yet: whatever fails, the group works afterwards. */
SW_TEST("every allocation can fail")
{
    scene base = scene_new(5, 10);
    small *shape = small_new(5);
    sw_exec *exec = small_exec(1);
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = shape->model, .fn = small_step, .user = shape);
    sw_sites sites = {SW_FAULT_MEMORY, .keeps = true};
    while (sw_sites_next(&sites)) {
        scene g = base;
        OK(sw_members_create(&g.all, exec, &opts));
        /* Addresses that cannot be had are asked for again, fewer. */
        (void)SW_AT_SITE(&sites, visit_all(&g));
        OK(visit_all(&g));
        sw_members_destroy(g.all);
    }
    CU_ASSERT(sites.k > 20);
}

SW_TEST("visiting again takes nothing")
{
    scene g = scene_new(5, 10);
    OK(visit_all(&g));
    const uint64_t blocks = sw_heap_blocks();
    OK(visit_all(&g));
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
}
