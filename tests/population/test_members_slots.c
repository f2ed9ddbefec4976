/* Slots: members that come, go, are copied and kept elsewhere, against a plain model. */
#include "alloc/base/mem.h"
#include "tests/population/small_net.h"

SW_TESTS("slots of members")

/* ---- progress and packs ------------------------------------------------------------------ */

SW_TEST("a copy takes the donor's progress")
{
    sw_members *all = small_group(small_exec(1), small_new(5), NULL);
    sw_member member[3];
    small_members(member, 3, all, 1);
    small_progress(member[0], 0, 0);
    OK(sw_member_progress_set(member[0], 12, UINT64_MAX));
    OK(sw_member_copy(member[1], member[0]));
    small_progress(member[1], 12, UINT64_MAX);
    small_progress(member[2], 0, 0);
    OK(sw_member_progress(member[0], NULL, NULL));
    sw_member_end(member[0]);
    OK(sw_member_new(&member[0], all, 4)); /* of the same slot */
    small_progress(member[0], 0, 0);
}

/* A member that moves to another group goes on there, with its seed and its data. */
SW_TEST("a packed member goes on elsewhere")
{
    enum { BATCH = 8, STEPS = 9 };
    const sw_dataset *data = small_data(30);
    const sw_feed *feed = small_feed(data, BATCH, 0);
    sw_exec *exec = small_exec(2);
    sw_members *from = small_group(exec, small_new(7), NULL);
    sw_members *to = small_group(exec, small_new(7), NULL);
    sw_member a[2], b[2];
    double last, sum;
    small_members(a, 2, from, 30);
    small_members(b, 2, to, 90);
    const size_t bytes = sw_members_packed_bytes(from);
    unsigned char *kept = sw_block(bytes);
    sw_members_args args = SW_OPTS(sw_members_args, .members = a, .n = 2, .feed = feed,
                                   .mode = SW_TRAIN, .own_steps = 1, .steps = 4);
    OK(sw_members_run(from, &args));
    OK(sw_member_pack(a[1], kept, bytes));
    OK(sw_member_unpack(b[0], kept, bytes));
    args.members = b;
    args.steps = STEPS - 4;
    OK(sw_members_run(to, &args));
    const small *t = small_alone(7, data, BATCH, 0, 31, 31, STEPS, &last, &sum);
    CU_ASSERT(small_is(b[0], t->model));
    small_progress(b[0], STEPS, STEPS);
    small_progress(b[1], STEPS - 4, STEPS - 4);
    small_progress(a[1], 4, 4);
}

static sw_status fails(sw_member_view *view, void *user)
{
    return SW_IO;
}

/* A pack of a member that failed is of one that failed. */
SW_TEST("a pack keeps the damage")
{
    small *shape = small_new(5);
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = shape->model, .callback = fails, .state_bytes = 70);
    sw_members *all = NULL;
    sw_member member[2];
    sw_status ended[2];
    OK(sw_members_create(&all, small_exec(1), &opts));
    small_members(member, 2, all, 1);
    sw_members_args args = SW_OPTS(sw_members_args, .members = member, .n = 1);
    OK(sw_members_run(all, &args));
    const size_t bytes = sw_members_packed_bytes(all);
    unsigned char *kept = sw_block(bytes);
    OK(sw_member_pack(member[0], kept, bytes));
    OK(sw_member_unpack(member[1], kept, bytes));
    args.members = &member[1];
    OK(sw_members_run(all, &args));
    OK(sw_members_status(all, ended, 1));
    CU_ASSERT_EQUAL(ended[0], SW_STALE);
    sw_members_destroy(all);
}

SW_TEST("packs of other layouts are refused")
{
    sw_exec *exec = small_exec(1);
    sw_members *a = small_group(exec, small_new(5), NULL), *b;
    sw_member from, to;
    small *walk = small_new(5);
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = walk->model, .callback = fails, .state_bytes = 64);
    b = small_group(exec, small_new(21), NULL);
    sw_members *c = NULL;
    OK(sw_members_create(&c, exec, &opts));
    OK(sw_member_new(&from, a, 1));
    OK(sw_member_new(&to, b, 2));
    const size_t bytes = sw_members_packed_bytes(a);
    unsigned char *kept = sw_block(sw_members_packed_bytes(b)), *before = sw_block(bytes);
    OK(sw_member_pack(from, kept, bytes));
    REFUSED(sw_member_unpack(to, kept, bytes), SW_INVALID, "packed in");
    REFUSED(sw_member_unpack(to, kept, sw_members_packed_bytes(b)), SW_INVALID, "layout");
    REFUSED(sw_member_copy(to, from), SW_INVALID, "different layouts");
    REFUSED(sw_member_pack(from, kept, bytes - 1), SW_INVALID, "packed in");
    REFUSED(sw_member_pack(from, NULL, bytes), SW_INVALID, "(got 0)");
    REFUSED(sw_member_unpack(from, NULL, bytes), SW_INVALID, "(got 0)");
    OK(sw_member_pack(from, before, bytes));
    memset(kept, 0xa5, bytes);
    REFUSED(sw_member_unpack(from, kept, bytes), SW_INVALID, "layout");
    OK(sw_member_pack(from, kept, bytes));
    CU_ASSERT(memcmp(kept, before, bytes) == 0);
    sw_member walker;
    OK(sw_member_new(&walker, c, 1));
    REFUSED(sw_member_copy(walker, from), SW_INVALID, "different layouts"); /* its state */
    sw_members_destroy(c);
}

/* ---- a schedule against a plain model ---------------------------------------------------- */

enum { MOST = 300 };

typedef struct {
    bool there;
    sw_member member;
    uint64_t seed, steps;
    float mark; /* in the knob */
} plain;

typedef struct {
    sw_members *all;
    sw_knob knob;
    plain at[MOST];
    int n;
} schedule;

static void check_plain(const schedule *s, const plain *p)
{
    float mark = 0.0f;
    OK(sw_member_knob_get(p->member, s->knob, &mark));
    small_progress(p->member, p->steps, 0);
    SW_CHECK(mark == p->mark, "mark %g, not %g", (double)mark, (double)p->mark);
}

static void begin(schedule *s, plain *p, sw_dice *dice)
{
    if (p->there)
        return;
    *p = (plain){true, {NULL, 0, 0}, sw_dice_next(dice), 0, 1.0f};
    OK(sw_member_new(&p->member, s->all, p->seed));
    s->n++;
}

static void end(schedule *s, plain *p)
{
    if (!p->there)
        return;
    const sw_member gone = p->member;
    check_plain(s, p);
    sw_member_end(gone);
    sw_member_end(gone); /* the second time it is no member */
    SW_CHECK(sw_member_progress(gone, NULL, NULL) == SW_INVALID, "it is there");
    p->there = false;
    s->n--;
}

static void change(schedule *s, plain *p, sw_dice *dice)
{
    if (!p->there)
        return;
    p->mark = (float)sw_dice_below(dice, 1000);
    p->steps = sw_dice_below(dice, 1000);
    OK(sw_member_knob_set(p->member, s->knob, p->mark));
    OK(sw_member_progress_set(p->member, p->steps, 0));
}

static void copy(schedule *s, plain *to, const plain *from)
{
    if (!to->there || !from->there)
        return;
    OK(sw_member_copy(to->member, from->member));
    to->mark = from->mark;
    to->steps = from->steps;
}

SW_TEST("members come and go in any order")
{
    static schedule s;
    sw_dice dice = {4};
    const small *shape = small_new(3);
    s = (schedule){.all = small_group(small_exec(1), shape, NULL), .knob = shape->factor};
    for (int i = 0; i < 100000; i++) {
        plain *p = &s.at[sw_dice_below(&dice, MOST)];
        switch (sw_dice_below(&dice, 4)) {
        case 0:
            begin(&s, p, &dice);
            break;
        case 1:
            end(&s, p);
            break;
        case 2:
            change(&s, p, &dice);
            break;
        default:
            copy(&s, p, &s.at[sw_dice_below(&dice, MOST)]);
        }
        if (sw_members_count(s.all) != (size_t)s.n)
            SW_CHECK(false, "%zu members, not %d", sw_members_count(s.all), s.n);
    }
    uint32_t highest = 0;
    for (int i = 0; i < MOST; i++)
        if (s.at[i].there) {
            check_plain(&s, &s.at[i]);
            highest = s.at[i].member.index > highest ? s.at[i].member.index : highest;
            for (int k = 0; k < i; k++)
                SW_CHECK(!s.at[k].there || s.at[k].member.index != s.at[i].member.index,
                         "two have slot %u", s.at[i].member.index);
        }
    CU_ASSERT(highest < MOST); /* slots are used again */
}

/* ---- saved: ranges that lie among each other, and that move before the load -------------- */

enum { N = 3, ROWS = 8 };

static unsigned char *packed(sw_member member)
{
    const size_t bytes = sw_members_packed_bytes(member.of);
    unsigned char *to = sw_block(bytes);
    OK(sw_member_pack(member, to, bytes));
    return to;
}

static void train(sw_members *of, const sw_member *member, const sw_feed *feed)
{
    OK(sw_members_run(of, &SW_OPTS(sw_members_args, .members = member, .n = N, .feed = feed,
                                   .mode = SW_TRAIN, .own_steps = 1, .steps = 2)));
}

SW_TEST("ranges that lie among each other are kept")
{
    const sw_feed *feed = small_feed(small_data(20), ROWS, 0);
    for (int no_copy = 0; no_copy < 2; no_copy++) {
        sw_exec *exec = small_exec(2);
        sw_members *of[2] = {small_group(exec, small_new(5), NULL),
                             small_group(exec, small_new(14), NULL)};
        sw_member member[2][N], gone;
        unsigned char *was[2][N];
        sw_checkpoint *c = NULL;
        const sw_checkpoint_opts opts =
            SW_OPTS(sw_checkpoint_opts, .path = sw_temp_path("ranges"), .no_copy = no_copy);
        OK(sw_checkpoint_create(&c, exec, &opts));
        OK(sw_member_new(&gone, of[1], 9));
        for (int k = 0; k < N; k++)
            for (int g = 0; g < 2; g++)
                OK(sw_member_new(&member[g][k], of[g], (uint64_t)(k + 3 * g)));
        for (int g = 0; g < 2; g++) {
            train(of[g], member[g], feed);
            OK(sw_checkpoint_members(c, of[g], member[g], N));
            for (int k = 0; k < N; k++)
                was[g][k] = packed(member[g][k]);
        }
        OK(sw_checkpoint_save(c, 1));
        sw_member_end(gone);
        for (int k = 0; k < 9; k++) /* holes close while the arena grows */
            OK(sw_member_new(&gone, of[k % 2], 77));
        for (int g = 0; g < 2; g++)
            train(of[g], member[g], feed);
        OK(sw_checkpoint_find(c, NULL, &SW_OPTS(sw_checkpoint_found)));
        OK(sw_checkpoint_load(c));
        for (int g = 0; g < 2; g++)
            for (int k = 0; k < N; k++)
                SW_CHECK(memcmp(was[g][k], packed(member[g][k]),
                                sw_members_packed_bytes(of[g])) == 0,
                         "no_copy %d: member %d of group %d", no_copy, k, g);
        sw_checkpoint_destroy(c);
    }
}

SW_TEST("a hundred thousand members, or twenty")
{
    const uint64_t many = sw_tests_full() ? 100000 : 20000;
    sw_members *all = small_group(small_exec(2), small_new(3), NULL);
    sw_member *member = sw_block(many * sizeof *member);
    double *loss = sw_block(many * sizeof *loss), last, sum;
    sw_heap_stats before, after;
    const sw_dataset *data = small_data(30);
    sw_heap_read(SW_HEAP_RECORDS, &before);
    small_members(member, many, all, 0);
    OK(sw_members_run(all, &SW_OPTS(sw_members_args, .members = member, .n = many,
                                    .feed = small_feed(data, 8, 0), .mode = SW_TRAIN,
                                    .own_steps = 1, .steps = 2)));
    sw_heap_read(SW_HEAP_RECORDS, &after);
    const double each = (double)(after.bytes - before.bytes) / (double)many;
    sw_note("%.0f bytes of records and results each, beside %zu", each, sw_members_bytes(all));
    CU_ASSERT(each <= 2048.0);
    OK(sw_members_metric(all, "loss", loss, many));
    for (uint64_t k = 0; k < many; k += many / 4 - 1) {
        const small *t = small_alone(3, data, 8, 0, k, k, 2, &last, &sum);
        SW_CHECK(small_is(member[k], t->model) && loss[k] == last, "member %d", (int)k);
    }
    for (size_t k = 0; k < many; k += 2)
        sw_member_end(member[k]);
    CU_ASSERT_EQUAL(sw_members_count(all), many / 2);
}
