/* Explores with widths and batches as values, thousands of them in one budget: members are
 * packed, wait, come back, and are resized; nothing fails, and at every step the bytes that are
 * taken are those that were predicted, to the byte. */
#include "tests/population/small_net.h"

SW_TESTS("explores")

enum { N = 6, WIDTHS = 24, BATCHES = 4, MOST_THREADS = 3 };
static const int64_t batch_of[BATCHES] = {4, 8, 13, 32};

typedef struct {
    int width, rows;  /* of the lists */
    sw_member member; /* .of NULL: it waits */
    void *waiting;
    size_t bytes;
    uint64_t seed;
} one;

typedef struct {
    sw_exec *exec;
    sw_budget *budget;
    sw_members *group[WIDTHS];
    const sw_feed *feed[BATCHES];
    size_t arena[WIDTHS][BATCHES], member[WIDTHS], rows[BATCHES]; /* looked at, ahead */
    one member_of[N];
    int threads;
    size_t limit; /* of the budget; what is refused is more, alone, than `most` */
    size_t most;
    size_t live, high, lane_arena, lane_batch; /* as predicted */
    size_t largest_arena, largest_batch, largest_member;
    uint64_t refused, resized, waited, failed;
} scene;

#define ARGS_OF(s_, rows_)                                                                     \
    SW_OPTS(sw_members_args, .feed = (s_)->feed[(rows_)], .mode = SW_TRAIN, .own_steps = 1,    \
            .steps = 1)

static size_t alone(const scene *s, int width, int rows)
{
    return s->arena[width][rows] + s->rows[rows] + s->member[width];
}

/* ---- what is counted --------------------------------------------------------------------- */

static void ok(scene *s, sw_status status)
{
    s->failed += status != SW_OK;
    SW_CHECK(status == SW_OK, "%s", sw_last_error());
}

static sw_member begin(scene *s, int width, uint64_t seed)
{
    sw_member m = {.of = NULL};
    ok(s, sw_member_new(&m, s->group[width], seed));
    s->live += s->member[width];
    s->high = s->live > s->high ? s->live : s->high;
    return m;
}

static void end(scene *s, sw_member *m, int width)
{
    sw_member_end(*m);
    m->of = NULL;
    s->live -= s->member[width];
}

static void measured(scene *s, uint64_t step)
{
    sw_members_memory is = SW_OPTS(sw_members_memory);
    const size_t lanes = (size_t)s->threads * (s->lane_arena + s->lane_batch);
    ok(s, sw_members_used(s->group[0], &is));
    const bool same = is.live_bytes == s->live && is.range_bytes == s->high &&
                      is.lane_bytes == lanes && is.range_bytes + is.lane_bytes <= s->limit &&
                      sw_budget_used(s->budget) == is.range_bytes + is.lane_bytes;
    s->failed += !same;
    SW_CHECK(same,
             "step %llu: lanes %zu, predicted %zu; ranges %zu, predicted %zu; live %zu, "
             "predicted %zu; budget %zu of %zu",
             (unsigned long long)step, is.lane_bytes, lanes, is.range_bytes, s->high,
             is.live_bytes, s->live, sw_budget_used(s->budget), s->limit);
}

/* ---- in and out -------------------------------------------------------------------------- */

static void out(scene *s, one *m)
{
    if (m->member.of == NULL)
        return;
    m->bytes = sw_members_packed_bytes(s->group[m->width]);
    m->waiting = malloc(m->bytes);
    ok(s, sw_member_pack(m->member, m->waiting, m->bytes));
    end(s, &m->member, m->width);
    s->waited++;
}

static void in(scene *s, one *m)
{
    if (m->member.of != NULL)
        return;
    m->member = begin(s, m->width, m->seed);
    ok(s, sw_member_unpack(m->member, m->waiting, m->bytes));
    ok(s, sw_member_seed_set(m->member, m->seed));
    free(m->waiting);
    m->waiting = NULL;
}

/* ---- one step ---------------------------------------------------------------------------- */

/* Who stays, by the packing of the sizes there are; lanes for the largest shape there can be,
 * and one member beside them that is resized. */
static void arrange(scene *s)
{
    sw_pack_shape shapes[N];
    size_t resident[N];
    sw_packing packing = SW_OPTS(sw_packing);
    for (int k = 0; k < N; k++)
        shapes[k] = (sw_pack_shape){.member_bytes = s->member[s->member_of[k].width],
                                    .arena_bytes = s->largest_arena,
                                    .batch_bytes = s->largest_batch,
                                    .members = 1};
    ok(s, sw_pack(shapes, N, s->limit - s->largest_member, s->threads, resident, &packing));
    s->failed += packing.threads != s->threads;
    CU_ASSERT_EQUAL(packing.threads, s->threads);
    for (int k = 0; k < N; k++)
        if (resident[k] == 0)
            out(s, &s->member_of[k]);
    for (int k = 0; k < N; k++)
        if (resident[k] > 0)
            in(s, &s->member_of[k]);
}

static void run(scene *s, one *m)
{
    sw_members_args args = ARGS_OF(s, m->rows);
    args.members = &m->member;
    args.n = 1;
    ok(s, sw_members_run(s->group[m->width], &args));
    const size_t arena = s->arena[m->width][m->rows], rows = s->rows[m->rows];
    s->lane_arena = arena > s->lane_arena ? arena : s->lane_arena;
    s->lane_batch = rows > s->lane_batch ? rows : s->lane_batch;
}

static void step(scene *s, sw_dice *dice, uint64_t number)
{
    const int k = (int)sw_dice_below(dice, N);
    const int donor = (k + 1 + (int)sw_dice_below(dice, N - 1)) % N;
    const int width = (int)sw_dice_below(dice, WIDTHS),
              rows = (int)sw_dice_below(dice, BATCHES);
    if (alone(s, width, rows) > s->most) {
        s->refused++;
    } else {
        for (int i = 0; i < N; i++) /* the widest of both and what stays need the most */
            if (i == k || i == donor)
                out(s, &s->member_of[i]);
        /* The target goes on as the donor, with other values; both wait. */
        const sw_resize_opts opts = SW_OPTS(sw_resize_opts, .seed = s->member_of[k].seed);
        const sw_shape shape = SW_SHAPE(batch_of[rows], SMALL_WIDTH);
        const sw_array inputs[2] = {{SW_F32, shape, NULL}, {SW_F32, shape, NULL}};
        const sw_members_args args =
            SW_OPTS(sw_members_args, .inputs = inputs, .n_inputs = 2, .mode = SW_TRAIN);
        sw_member from = begin(s, s->member_of[donor].width, s->member_of[donor].seed);
        ok(s, sw_member_unpack(from, s->member_of[donor].waiting, s->member_of[donor].bytes));
        if (width == s->member_of[donor].width) {
            out(s, &s->member_of[k]);
            free(s->member_of[k].waiting);
            s->member_of[k].member = from;
            ok(s, sw_member_seed_set(from, s->member_of[k].seed));
        } else {
            sw_member wide = begin(s, width, s->member_of[k].seed);
            ok(s, sw_member_resize(wide, from, &args, &opts));
            end(s, &from, s->member_of[donor].width);
            free(s->member_of[k].waiting);
            s->member_of[k].member = wide;
            s->resized++;
        }
        s->member_of[k].waiting = NULL;
        s->member_of[k].width = width;
        s->member_of[k].rows = rows;
        measured(s, number);
        out(s, &s->member_of[k]); /* lanes have one slot each, not this one */
    }
    arrange(s);
    measured(s, number);
    /* Each member makes a step; those that wait come in one after the other. */
    for (int j = 0; j < N; j++) {
        one *m = &s->member_of[j];
        const bool waits = m->member.of == NULL;
        in(s, m);
        run(s, m);
        if (waits)
            out(s, m);
    }
    measured(s, number);
}

/* ---- the scene --------------------------------------------------------------------------- */

/* `states` receives N states to free. */
static void explores(int threads, int members, uint64_t steps, void **states, size_t *bytes)
{
    sw_dice dice = {.state = 5};
    scene s = {.threads = threads};
    /* As large as no run needs: the limit is checked at every step. */
    s.budget = made_budget((size_t)1 << 40);
    s.exec = net_exec(&SW_OPTS(sw_exec_opts, .threads = threads, .budget = s.budget));
    const sw_dataset *data = small_data(100);
    for (int b = 0; b < BATCHES; b++) {
        s.feed[b] = small_feed(data, batch_of[b], 0);
        s.rows[b] = sw_feed_bytes(s.feed[b]);
    }
    for (int w = 0; w < WIDTHS; w++) {
        s.group[w] = small_group(s.exec, small_new(w + 2), NULL);
        s.member[w] = sw_members_bytes(s.group[w]);
        for (int b = 0; b < BATCHES; b++) {
            const sw_members_args args = ARGS_OF(&s, b);
            sw_plan_info info = SW_OPTS(sw_plan_info);
            ok(&s, sw_members_look(s.group[w], &args, &info));
            s.arena[w][b] = info.arena_bytes;
            s.rows[b] = info.data_bytes > s.rows[b] ? info.data_bytes : s.rows[b];
        }
    }
    /* All shapes but the largest few fit; `members` members beside the lanes fit too. */
    s.most = alone(&s, WIDTHS - 1, BATCHES - 1) - 1;
    for (int w = 0; w < WIDTHS; w++)
        for (int b = 0; b < BATCHES; b++) {
            if (alone(&s, w, b) > s.most)
                continue;
            if (s.arena[w][b] > s.largest_arena)
                s.largest_arena = s.arena[w][b];
            if (s.rows[b] > s.largest_batch)
                s.largest_batch = s.rows[b];
            if (s.member[w] > s.largest_member)
                s.largest_member = s.member[w];
        }
    s.limit = (size_t)s.threads * (s.largest_arena + s.largest_batch) +
              (size_t)(s.threads + 1 + members) * s.largest_member;
    for (int k = 0; k < N; k++) {
        one *m = &s.member_of[k];
        *m = (one){.width = 3 * k, .rows = k % BATCHES, .seed = 70 + (uint64_t)k};
        m->member = begin(&s, m->width, m->seed);
        out(&s, m);
    }
    for (uint64_t i = 0; i < steps && s.failed == 0; i++)
        step(&s, &dice, i);
    for (int k = 0; k < N; k++) {
        out(&s, &s.member_of[k]);
        states[k] = s.member_of[k].waiting;
        bytes[k] = s.member_of[k].bytes;
    }
    sw_note("%d threads: %llu explores, %llu resized, %llu refused, %llu times out of the "
            "budget, %llu failed; at most %zu of %zu bytes",
            threads, (unsigned long long)steps, (unsigned long long)s.resized,
            (unsigned long long)s.refused, (unsigned long long)s.waited,
            (unsigned long long)s.failed,
            s.high + (size_t)threads * (s.lane_arena + s.lane_batch), s.limit);
    CU_ASSERT(s.failed == 0 && s.resized > steps / 2 && s.refused > 0 && s.waited > steps);
}

SW_TEST("explores of widths and batches take what was predicted")
{
    const uint64_t steps = sw_tests_full() ? 10000 : 400;
    void *a[N] = {NULL}, *b[N] = {NULL};
    size_t n[N], m[N];
    explores(1, 1, steps, a, n);
    explores(MOST_THREADS, N, steps, b, m);
    for (int k = 0; k < N; k++) {
        SW_CHECK(n[k] == m[k] && memcmp(a[k], b[k], n[k]) == 0,
                 "member %d has other bytes with other threads and more that stay", k);
        free(a[k]);
        free(b[k]);
    }
}
