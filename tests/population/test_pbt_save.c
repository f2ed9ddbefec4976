/* A saved population goes on as the one that was saved; other options and damaged bytes are
 * refused; every allocation fails once; one exploit can be left out. */
#include "runtime/population/pbt_internal.h"
#include "tests/population/pbt_help.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("pbt save")

static const char *const three[] = {"lr=log:1e-4..1", "net.width=int:4..40",
                                    "net.act=choice:relu,tanh,gelu"};

#define OPTS_OF(s_, k_)                                                                        \
    SW_OPTS(sw_pbt_opts, .space = s_, .members = 12, .seed = 9, .interval = 10,                \
            .synch = (k_) % 2, .exploit = (sw_exploit)((k_) / 2), .stop_time = 400)

/* Reports of the round that is on; then events up to one that says where to stop. */
static int events_up_to(sw_pbt *p, int most, help_run *r)
{
    int n = 0;
    for (sw_pbt_event e; n < most; n++) {
        e.size = sizeof e;
        OK(sw_pbt_next_event(p, &e));
        if (e.what == SW_PBT_NONE)
            break;
        help_add(p, &r->sum, &e);
    }
    return n;
}

static void report_all(sw_pbt *p)
{
    int who[16], n;
    double until;
    OK(sw_pbt_next(p, who, 16, &n, &until));
    for (int i = 0; i < n; i++)
        if (who[i] == 5 && until > 150)
            OK(sw_pbt_leave(p, 5));
        else
            OK(sw_pbt_report(p, who[i], until, help_random(p, who[i], until, NULL)));
}

/* Saved after round `at` and `part` events of it, restored into a new one: the same sum. */
static void restore_at(sw_pbt_opts *o, int rounds, int at, int part, uint64_t sum)
{
    sw_pbt *p = NULL, *q = NULL;
    help_run r = {0};
    void *bytes = NULL;
    size_t n = 0;
    OK(sw_pbt_create(&p, o));
    for (int round = 0; round < at; round++) {
        report_all(p);
        (void)events_up_to(p, 1000, &r);
    }
    report_all(p);
    (void)events_up_to(p, part, &r);
    OK(sw_pbt_save(p, &bytes, &n));
    sw_pbt_destroy(p);
    OK(sw_pbt_create(&q, o));
    help_rounds(q, 3, &(help_run){0}, help_index, NULL, NULL); /* forgotten by the restore */
    OK(sw_pbt_restore(q, bytes, n));
    sw_pbt_free(bytes, n);
    (void)events_up_to(q, 1000, &r);
    for (int round = at + 1; round < rounds; round++) {
        report_all(q);
        (void)events_up_to(q, 1000, &r);
    }
    SW_CHECK(r.sum == sum, "synch %d, exploit %d: restored at round %d, event %d", o->synch,
             (int)o->exploit, at, part);
    sw_pbt_destroy(q);
}

SW_TEST("a saved population goes on with the same decisions")
{
    sw_space *s = help_space(three, 3);
    sw_dice dice = {2};
    for (int k = 0; k < 6; k++) {
        sw_pbt_opts o = OPTS_OF(s, k);
        sw_pbt *p;
        uint64_t sums[2];
        const int rounds = 40;
        for (int twice = 0; twice < 2; twice++) { /* the same bits twice, too */
            help_run r = {0};
            OK(sw_pbt_create(&p, &o));
            for (int round = 0; round < rounds; round++) {
                report_all(p);
                (void)events_up_to(p, 1000, &r);
            }
            sums[twice] = r.sum;
            sw_pbt_destroy(p);
        }
        CU_ASSERT(sums[0] == sums[1] && sums[0] != 0);
        for (int i = 0; i < 12; i++)
            restore_at(&o, rounds, (int)sw_dice_below(&dice, (uint64_t)rounds - 1),
                       (int)sw_dice_below(&dice, 5), sums[0]);
    }
}

/* ---- what is refused --------------------------------------------------------------------- */

static sw_status no_change(int member, const double *donors, double *values, int n, void *user)
{
    return SW_OK;
}

SW_TEST("other options are refused by name")
{
    static const char *const other[] = {"lr=log:1e-4..2", "net.width=int:4..40",
                                        "net.act=choice:relu,tanh,gelu"};
    static const char *const words[] = {"lr=log:1e-4..1", "net.width=int:4..40",
                                        "net.act=choice:relu,tanh,mish"};
    sw_space *s = help_space(three, 3), *t = help_space(other, 3), *u = help_space(words, 3),
             *v = help_space(three, 2);
    sw_pbt_opts o = OPTS_OF(s, 0);
    void *bytes = NULL;
    size_t n = 0;
    OK(sw_pbt_save(help_pbt(&o), &bytes, &n));
#define NOT(change, says)                                                                      \
    do {                                                                                       \
        o = OPTS_OF(s, 0);                                                                     \
        o.change;                                                                              \
        REFUSED(sw_pbt_restore(help_pbt(&o), bytes, n), SW_INVALID, says);                     \
    } while (0)
    NOT(members = 13, "members is another");
    NOT(seed = 10, "seed is another");
    NOT(interval = 11, "interval is another");
    NOT(minimize = 1, "minimize is another");
    NOT(burn_in = 1, "burn_in is another");
    NOT(quantile = 0.3, "quantile is another");
    NOT(replaced = 0.3, "replaced is another");
    NOT(resample_probability = 0.3, "resample_probability is another");
    NOT(synch = 1, "synch is another");
    NOT(exploit = SW_T_TEST, "exploit is another");
    NOT(stop_time = 300, "stop_time is another");
    NOT(without = 3, "without is another");
    NOT(custom = no_change, "custom is another");
    NOT(space = t, "'lr' is another");
    NOT(space = u, "'net.act' is another");
    NOT(space = v, "has 2 hyper-parameters, and had 3");
    sw_pbt_free(bytes, n);
}

/* Cut anywhere, or with any byte changed: refused, or a state in which nothing can go wrong. */
SW_TEST("damaged bytes do no harm")
{
    sw_space *s = help_space(three, 3);
    sw_dice dice = {4};
    for (int k = 0; k < 6; k++) {
        sw_pbt_opts o = OPTS_OF(s, k);
        sw_pbt *p = help_pbt(&o), *q;
        void *bytes = NULL;
        size_t n = 0;
        help_run r = {0};
        help_rounds(p, 9, &r, help_random, NULL, NULL);
        report_all(p);
        (void)events_up_to(p, 1, &r);
        OK(sw_pbt_save(p, &bytes, &n));
        for (int i = 0; i < 20; i++)
            CU_ASSERT_NOT_EQUAL(sw_pbt_restore(p, bytes, sw_dice_below(&dice, n)), SW_OK);
        for (int i = 0; i < (sw_tests_full() ? 300 : 100); i++) {
            const size_t at = sw_dice_below(&dice, n < 6000 ? n : 6000);
            unsigned char *byte = (unsigned char *)bytes + at, was = *byte;
            *byte = (unsigned char)(was ^ (1u << sw_dice_below(&dice, 8)));
            OK(sw_pbt_create(&q, &o));
            if (sw_pbt_restore(q, bytes, n) == SW_OK) { /* times and scores may be others */
                sw_pbt_event e = SW_OPTS(sw_pbt_event);
                for (int m = 0; m < 40; m++)
                    (void)!sw_pbt_next_event(q, &e);
            }
            sw_pbt_destroy(q);
            *byte = was;
        }
        OK(sw_pbt_restore(p, bytes, n));
        sw_pbt_free(bytes, n);
    }
}

/* ---- allocations ------------------------------------------------------------------------- */

typedef struct {
    sw_pbt_opts o;
    const char *dir;
} sweep;

static sw_status run_one(sw_pbt *p, const sweep *w)
{
    int who[16], n;
    double until;
    sw_pbt_event e = SW_OPTS(sw_pbt_event, .what = SW_PBT_KEEP);
    void *bytes = NULL;
    size_t size = 0;
    SW_TRY(sw_pbt_log(p, w->dir));
    SW_TRY(sw_pbt_next(p, who, 16, &n, &until));
    for (int i = 0; i < n; i++)
        SW_TRY(sw_pbt_report(p, who[i], until, i));
    SW_TRY(sw_pbt_save(p, &bytes, &size));
    sw_status status = SW_OK;
    while (status == SW_OK && e.what != SW_PBT_NONE)
        status = sw_pbt_next_event(p, &e);
    if (status == SW_OK)
        status = sw_pbt_restore(p, bytes, size);
    sw_pbt_free(bytes, size);
    return status;
}

static sw_status create_and_run(void *arg)
{
    const sweep *w = arg;
    sw_pbt *p;
    SW_TRY(sw_pbt_create(&p, &w->o));
    const sw_status status = run_one(p, w);
    sw_pbt_destroy(p);
    return status;
}

static void fill_handles(const sw_pbt_opts *o)
{
    sw_pbt *kept[70];
    for (int i = 0; i < 70; i++)
        OK(sw_pbt_create(&kept[i], o));
    for (int i = 0; i < 70; i++)
        sw_pbt_destroy(kept[i]);
}

SW_TEST("every allocation and every call of a file fails once")
{
    sweep w = {.o = OPTS_OF(help_space(three, 3), 1)};
    char dir[1024];
    strcpy(dir, sw_temp_path(""));
    w.dir = dir;
    fill_handles(&w.o);
    const uint64_t memory = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, create_and_run, &w);
    const uint64_t files = sw_sweep(SW_FAULT_FILE, SW_OK, create_and_run, &w);
    sw_note("%d allocations, %d calls of files", (int)memory, (int)files);
    CU_ASSERT(memory > 30 && files > 60);
}

/* The same run up to there; then number k is missing, and its target keeps values and time. */
SW_TEST("one exploit is left out")
{
    sw_space *s = help_space(three, 3);
    for (int synch = 0; synch < 2; synch++) {
        sw_pbt_opts o = OPTS_OF(s, synch);
        help_list with = {.n = 0}, without = {.n = 0};
        help_rounds(help_pbt(&o), synch ? 10 : 40, &(help_run){0}, help_random, help_note,
                    &with);
        o.without = 5;
        sw_pbt *p = help_pbt(&o);
        help_rounds(p, synch ? 10 : 40, &(help_run){0}, help_random, help_note, &without);
        CU_ASSERT(with.n > 8 && without.n > 8);
        for (int i = 0; i < 4; i++)
            CU_ASSERT(with.e[i].member == without.e[i].member &&
                      with.e[i].donor == without.e[i].donor && without.e[i].number == i + 1u);
        CU_ASSERT(with.e[4].number == 5 && without.e[4].number == 6);
        if (synch) /* of the same turn: everything else is as it was */
            CU_ASSERT(with.e[5].member == without.e[4].member &&
                      with.e[5].donor == without.e[4].donor);
    }
}
