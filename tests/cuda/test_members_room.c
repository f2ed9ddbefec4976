/* Members on a card: what they take of its memory and of a budget, and what fails. */
#include "alloc/base/sys.h"
#include "tests/cuda/members_card.h"
#include "tests/support/heap_sweep.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

SW_TESTS("memory of members on a card")

enum { LAUNCH_FAILURE = 719 };

/* ---- memory ------------------------------------------------------------------------------ */

static size_t whole(size_t bytes, size_t of)
{
    return (bytes + of - 1) / of * of;
}

/* The bytes planned, taken, charged to the budget, and given by the card. */
SW_TEST("a budget counts what the card gives")
{
    const sw_feed *feed = member_pool_feed();
    sw_fake_live live;
    sw_plan_info info = SW_OPTS(sw_plan_info);
    sw_members_memory used = SW_OPTS(sw_members_memory);
    size_t lanes = 0;
    for (int plain = 0; plain < 2; plain++) {
        sw_fake_card_new(&(sw_fake_card){.cannot_map = plain != 0}, 1);
        sw_budget *budget = member_pool_budget((size_t)4 << 20);
        member_pool g = member_pool_on("cuda", budget, true);
        sw_members_args args = member_pool_args(g.member, N, feed);
        sw_members_args test = args;
        test.mode = SW_EVAL;
        OK(sw_members_look(g.all, &args, &info));
        const size_t steps = info.arena_bytes;
        OK(sw_members_look(g.all, &test, &info));
        CU_ASSERT_EQUAL(info.model_bytes, sw_members_bytes(g.all));
        CU_ASSERT_EQUAL(sw_budget_used(budget), N * info.model_bytes);
        OK(sw_members_plan(g.all, &args, NULL));
        OK(sw_members_plan(g.all, &test, &lanes));
        CU_ASSERT_EQUAL(lanes, steps + info.data_bytes);
        CU_ASSERT_EQUAL(sw_budget_used(budget), N * info.model_bytes + lanes);
        OK(sw_members_run(g.all, &args));
        OK(sw_members_run(g.all, &test));
        OK(sw_members_used(g.all, &used));
        CU_ASSERT(used.lanes == 1 && used.lane_bytes == lanes);
        CU_ASSERT_EQUAL(used.range_bytes, N * info.model_bytes);
        CU_ASSERT_EQUAL(sw_budget_used(budget), used.range_bytes + used.lane_bytes);
        sw_device_info d = SW_OPTS(sw_device_info);
        OK(sw_exec_device(g.exec, &d));
        sw_fake_card_api()->live(&live);
        const size_t given = d.model_bytes + d.arena_bytes + d.data_bytes;
        sw_note("%zu bytes, the card gave %zu (%zu live)", sw_budget_used(budget), given,
                live.device_bytes);
        const size_t step = plain != 0 ? sw_page_bytes() : SW_FAKE_GRANULARITY;
        CU_ASSERT_EQUAL(given, whole(used.range_bytes, step) + whole(steps, step) +
                                   whole(lanes - steps, step));
        CU_ASSERT_EQUAL(given, live.device_bytes);
    }
}

SW_TEST("a budget that is too small says so")
{
    const sw_feed *feed = member_pool_feed();
    sw_member more;
    sw_fake_card_new(NULL, 0);
    small *shape = small_new(HIDDEN);
    size_t bytes = 0;
    OK(sw_model_bytes(shape->model, &bytes));
    member_pool g = member_pool_on("cuda", member_pool_budget(N * bytes), true);
    sw_members_args args = member_pool_args(g.member, N, feed);
    REFUSED(sw_member_new(&more, g.all, 1), SW_NOMEM, "members");
    REFUSED(sw_members_run(g.all, &args), SW_NOMEM, "step");
    CU_ASSERT_EQUAL(sw_members_count(g.all), N);
    uint64_t made = 1;
    OK(sw_member_progress(g.member[0], &made, NULL));
    CU_ASSERT_EQUAL(made, 0);
}

SW_TEST("steps bring no allocation")
{
    double loss[N];
    sw_fake_counts before, after;
    sw_fake_card_new(NULL, 0);
    member_pool g = member_pool_on("cuda", NULL, true);
    sw_members_args args = member_pool_args(g.member, N, member_pool_feed());
    args.steps = 3; /* an epoch: the program of its last batch, too */
    for (int i = 0; i < 2; i++)
        OK(sw_members_run(g.all, &args));
    const uint64_t calls = sw_mem_calls();
    sw_fake_card_api()->counts(&before);
    for (int i = 0; i < 10; i++) {
        OK(sw_members_run(g.all, &args));
        OK(sw_members_metric(g.all, "loss", loss, N));
        OK(sw_member_knob_set(g.member[i % N], g.shape->factor, 0.5f));
        OK(sw_member_copy(g.member[i % N], g.member[(i + 1) % N]));
    }
    sw_fake_card_api()->counts(&after);
    CU_ASSERT_EQUAL(sw_mem_calls(), calls);
    CU_ASSERT_EQUAL(after.captures, before.captures);
    CU_ASSERT_EQUAL(after.graph_launches - before.graph_launches, 10 * N * 3);
    CU_ASSERT_EQUAL(after.launches, before.launches);
    CU_ASSERT_EQUAL(after.pageable - before.pageable, 0);
}

/* ---- what fails -------------------------------------------------------------------------- */

/* A member whose input is not a number skips its updates, and fails alone. */
SW_TEST("a member that fails fails alone")
{
    static float numbers[N][ROWS * SMALL_WIDTH];
    sw_array own[N * 2];
    double loss[N];
    sw_status ended[N];
    for (int k = 0; k < N; k++)
        for (int i = 0; i < ROWS * SMALL_WIDTH; i++) {
            numbers[k][i] = (float)(i % 5) * 0.1f;
            own[2 * k] = own[2 * k + 1] =
                (sw_array){SW_F32, SW_SHAPE(ROWS, SMALL_WIDTH), numbers[k]};
        }
    numbers[3][7] = NAN;
    sw_fake_card_new(NULL, 1);
    member_pool g = {.shape = small_new(HIDDEN), .exec = member_pool_exec("cuda", NULL, true)};
    sw_model_destroy(g.shape->model);
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "adam", .lr = 0.02f, .max_skipped = 2);
    OK(sw_model_create(&g.shape->model, "careful"));
    g.shape->f1 = sw_linear_new(g.shape->model, "f1", SMALL_WIDTH, HIDDEN);
    g.shape->f2 = sw_linear_new(g.shape->model, "f2", HIDDEN, SMALL_WIDTH);
    g.shape->seen = sw_state_new(g.shape->model, "seen", SW_F32, SW_SHAPE(1));
    g.shape->factor = sw_knob_new(g.shape->model, "factor", 1.0f);
    OK(sw_optimizer_create(&g.shape->opt, g.shape->model, &opts));
    g.all = small_group(g.exec, g.shape, NULL);
    small_members(g.member, N, g.all, 1);
    sw_members_args args = SW_OPTS(sw_members_args, .members = g.member, .n = N, .inputs = own,
                                   .n_inputs = 2, .own_inputs = 1, .mode = SW_TRAIN);
    for (args.step = 0; args.step < 3; args.step++) {
        OK(sw_members_run(g.all, &args));
        OK(sw_members_status(g.all, ended, N));
        for (int k = 0; k < N; k++)
            CU_ASSERT_EQUAL(ended[k], k == 3 && args.step > 0 ? SW_INVALID : SW_OK);
        OK(sw_members_metric(g.all, "loss", loss, N));
        CU_ASSERT(isnan(loss[3]) && !isnan(loss[2]) && !isnan(loss[4]));
    }
    CU_ASSERT(strstr(sw_last_note(), "member 3") != NULL);
    numbers[3][7] = 0.0f;
    OK(sw_member_copy(g.member[3], g.member[2]));
    OK(sw_members_run(g.all, &args));
    OK(sw_members_status(g.all, ended, N));
    CU_ASSERT_EQUAL(ended[3], SW_OK);
}

/* A fault ends the work on the card, as it does for models: that call and all later ones say
 * so. */
SW_TEST("a fault ends the work on the card")
{
    for (int way = 0; way < 3; way++) {
        double loss[N];
        sw_status ended[N];
        sw_fake_card_new(NULL, 1);
        member_pool g = member_pool_on("cuda", NULL, true);
        sw_members_args args = member_pool_args(g.member, N, member_pool_feed());
        OK(sw_members_run(g.all, &args));
        if (way == 0)
            sw_fake_card_api()->fail("cudaGraphLaunch", 3, LAUNCH_FAILURE);
        else
            sw_fake_card_api()->fail_work(way == 1 ? 11 : 200, LAUNCH_FAILURE);
        REFUSED(sw_members_run(g.all, &args), SW_DEVICE, "cuda");
        REFUSED(sw_members_run(g.all, &args), SW_DEVICE, "failed before");
        REFUSED(sw_members_metric(g.all, "loss", loss, N), SW_INVALID, "nothing has run yet");
        REFUSED(sw_members_status(g.all, ended, N), SW_INVALID, "nothing has run yet");
        REFUSED(sw_member_copy(g.member[0], g.member[5]), SW_DEVICE, "failed before");
        sw_fake_card_api()->fail(NULL, UINT64_MAX, -1);
        sw_fake_card_api()->reset(NULL);
    }
}

static sw_status whole_life(void *feed)
{
    sw_exec *exec = NULL;
    sw_members *all = NULL;
    small t = {NULL};
    sw_member one[2];
    const sw_exec_opts exec_opts = SW_OPTS(sw_exec_opts, .device = "cuda");
    const sw_optimizer_opts adam = SW_OPTS(sw_optimizer_opts, .kind = "adam");
    sw_status status = sw_exec_create(&exec, &exec_opts);
    if (status == SW_OK)
        status = sw_model_create(&t.model, "life");
    if (status == SW_OK) {
        t.f1 = sw_linear_new(t.model, "f1", SMALL_WIDTH, 3);
        t.f2 = sw_linear_new(t.model, "f2", 3, SMALL_WIDTH);
        t.seen = sw_state_new(t.model, "seen", SW_F32, SW_SHAPE(1));
        t.factor = sw_knob_new(t.model, "factor", 1.0f);
        status = sw_optimizer_create(&t.opt, t.model, &adam);
    }
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = t.model, .fn = small_step, .user = &t);
    if (status == SW_OK)
        status = sw_members_create(&all, exec, &opts);
    for (int k = 0; k < 2 && status == SW_OK; k++)
        status = sw_member_new(&one[k], all, 1);
    sw_members_args args = member_pool_args(one, 2, feed);
    args.steps = 2;
    sw_status ended[2] = {SW_OK, SW_OK};
    if (status == SW_OK)
        status = sw_members_run(all, &args);
    if (status == SW_OK)
        status = sw_members_status(all, ended, 2);
    sw_members_destroy(all);
    sw_model_destroy(t.model);
    sw_exec_destroy(exec);
    return status != SW_OK ? status : ended[0] != SW_OK ? ended[0] : ended[1];
}

SW_TEST("every allocation can fail")
{
    const sw_feed *feed = member_pool_feed();
    sw_fake_card_new(NULL, 0);
    OK(whole_life((void *)(uintptr_t)feed));
    uint64_t k = 0, failed = 0;
    for (bool hit = true; hit; k++) {
        const uint64_t blocks = sw_heap_blocks();
        sw_fault_plan(SW_FAULT_MEMORY, k, SW_FAULT_ONCE);
        const sw_status status = whole_life((void *)(uintptr_t)feed);
        hit = sw_fault_hits(SW_FAULT_MEMORY) > 0;
        sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
        failed += status == SW_NOMEM;
        SW_CHECK(status == SW_NOMEM || status == SW_OK, "call %llu: %s", (unsigned long long)k,
                 sw_last_error());
        SW_CHECK(sw_heap_blocks() == blocks, "call %llu leaves blocks", (unsigned long long)k);
    }
    sw_note("%llu calls, of which %llu fail", (unsigned long long)k,
            (unsigned long long)failed);
    CU_ASSERT(failed > 100 && k - failed < 30);
}

static sw_status a_callback(sw_member_view *view, void *user)
{
    (void)user;
    view->score = 0.0;
    return SW_OK;
}

SW_TEST("what is of the CPU is refused")
{
    sw_members *none = NULL;
    sw_fake_card_new(NULL, 0);
    sw_exec *exec = member_pool_exec("cuda", NULL, true);
    const small *shape = small_new(HIDDEN);
    sw_members_opts opts = SW_OPTS(sw_members_opts, .shape = shape->model,
                                   .callback = a_callback, .state_bytes = 8);
    REFUSED(sw_members_create(&none, exec, &opts), SW_UNSUPPORTED, "callbacks are of the CPU");
    opts = SW_OPTS(sw_members_opts, .shape = shape->model, .fn = small_step, .threads = 2);
    REFUSED(sw_members_create(&none, exec, &opts), SW_UNSUPPORTED, "threads of a member");
    CU_ASSERT_PTR_NULL(none);
    member_pool g = member_pool_on("cuda", NULL, true);
    sw_checkpoint *checkpoint = NULL;
    const sw_checkpoint_opts kept =
        SW_OPTS(sw_checkpoint_opts, .path = sw_temp_path("members"));
    OK(sw_checkpoint_create(&checkpoint, g.exec, &kept));
    REFUSED(sw_checkpoint_members(checkpoint, g.all, g.member, N), SW_UNSUPPORTED,
            "sw_checkpoint_put");
    sw_checkpoint_destroy(checkpoint);
}
