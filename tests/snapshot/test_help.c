/* Changes that would help: each gains, on the trace that lacks it, what a training that has it
 * takes less, to the byte; a change that looks like it but is harmless gains nothing. */
#include "tests/snapshot/made_training.h"
#include "tests/snapshot/replanned.h"
#include "tests/support/suite.h"

SW_TESTS("help")

static const replan_help *help_of(const replan *r, replan_change change)
{
    for (uint32_t i = 0; i < r->n_help; i++)
        if (r->help[i].change == change)
            return &r->help[i];
    return NULL;
}

static const replan *plan_made(const made_run *run)
{
    static made_training m;
    made_train(&m, run);
    return planned(plain_write(m.p, "help.pickle", 0));
}

#define BASE .steps = 3, .layers = 6
static const struct {
    const char *name;
    replan_change change;
    made_run with, without; /* the pattern, and its harmless twin */
} cases[] = {
    {"zero_grad after forward", HELP_ZERO_GRAD, {BASE, .late_zero = true}, {BASE}},
    {"softmax by hand", HELP_SOFTMAX, {BASE, .softmax = 2}, {BASE, .softmax = 1}},
    {"silu by hand", HELP_ACTIVATION, {BASE, .silu = 2}, {BASE, .silu = 1}},
    {"norm by hand", HELP_NORM, {BASE, .norm = 3}, {BASE, .norm = 1}},
    {"attention that keeps scores", HELP_ATTENTION, {BASE, .scores = 2}, {BASE, .scores = -1}},
    {"logits that a loss copies", HELP_LOSS, {BASE, .logits = 3}, {BASE, .logits = 1}},
    {"an optimizer for all at once", HELP_FOREACH, {BASE, .foreach = true}, {BASE}},
};

SW_TEST("each change gains what it gains")
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int native = 0; native < 2; native++) {
            made_run run = cases[i].with, twin = cases[i].without;
            run.native = twin.native = native == 1;
            const replan *with = plan_made(&run);
            const replan *without = plan_made(&twin);
            const replan_help *h = help_of(with, cases[i].change);
            SW_CHECK(h != NULL && h->bytes == with->whole.most - without->whole.most &&
                         h->held >= h->bytes && h->n > 0,
                     "%s (%d): gains %llu, and must gain %llu", cases[i].name, native,
                     h != NULL ? (unsigned long long)h->bytes : 0,
                     (unsigned long long)(with->whole.most - without->whole.most));
            SW_CHECK(help_of(without, cases[i].change) == NULL, "%s (%d): the twin is harmless",
                     cases[i].name, native);
        }
}

/* Functions that are named after something, or have its operators, and are something else; the
 * last two are what they look like. */
SW_TEST("what looks alike gains nothing")
{
    static const replan_change changes[] = {HELP_ATTENTION, HELP_SOFTMAX, HELP_ACTIVATION,
                                            HELP_NORM};
    for (int like = LIKE_FUSED_ATTENTION; like <= LIKE_RMS; like++)
        for (int native = 0; native < 2; native++) {
            const replan *r = plan_made(&(made_run){BASE, .native = native == 1, .like = like});
            for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
                const replan_help *h = help_of(r, changes[i]);
                const bool is =
                    native && ((like == LIKE_SILU && changes[i] == HELP_ACTIVATION) ||
                               (like == LIKE_RMS && changes[i] == HELP_NORM));
                SW_CHECK((h != NULL ? h->held : 0) == (is ? 18 * MADE_SCORES : 0),
                         "like %d, native %d: %s holds %llu", like, native,
                         replan_changes[changes[i]].name,
                         h != NULL ? (unsigned long long)h->held : 0);
            }
        }
}

/* Gradients of a hundred sizes, through thirty steps: more to look at than the search may. */
SW_TEST("a search that ends early claims nothing")
{
    const replan *r =
        plan_made(&(made_run){.steps = 30, .layers = 100, .native = true, .keeps_zero = true});
    CU_ASSERT_PTR_NULL(help_of(r, HELP_ZERO_GRAD));
    r = plan_made(&(made_run){.steps = 4, .layers = 100, .native = true, .keeps_zero = true});
    CU_ASSERT_PTR_NOT_NULL(help_of(r, HELP_ZERO_GRAD));
}

/* A module's forward that attends, and one that has a softmax between no products. */
SW_TEST("attention without a name")
{
    const replan *r =
        plan_made(&(made_run){BASE, .native = true, .nameless = true, .scores = 1});
    const replan *fused =
        plan_made(&(made_run){BASE, .native = true, .nameless = true, .scores = -1});
    const replan_help *h = help_of(r, HELP_ATTENTION);
    CU_ASSERT(h != NULL && h->bytes == r->whole.most - fused->whole.most);
    CU_ASSERT_PTR_NULL(help_of(fused, HELP_ATTENTION));
}

/* Set to zero and kept, they live through all forward passes but the first; gradients that are
 * summed over several passes do so too, and must. */
SW_TEST("gradients that are kept")
{
    const replan *r = plan_made(&(made_run){BASE, .native = true, .keeps_zero = true});
    const replan *early = plan_made(&(made_run){BASE, .native = true});
    const replan_help *h = help_of(r, HELP_ZERO_GRAD);
    CU_ASSERT(h != NULL && h->bytes > 0 && h->bytes <= r->whole.most - early->whole.most);
    r = plan_made(&(made_run){BASE, .native = true, .no_update = true, .keeps_zero = true});
    CU_ASSERT_PTR_NULL(help_of(r, HELP_ZERO_GRAD));
}

/* The largest first, at most five, and where nothing helps the report says so. */
SW_TEST("the largest come first")
{
    const replan *r =
        plan_made(&(made_run){BASE, .native = true, .late_zero = true, .softmax = 3, .silu = 2,
                              .norm = 3, .scores = 2, .logits = 3});
    CU_ASSERT_EQUAL(r->n_help, REPLAN_HELPS);
    for (uint32_t i = 1; i < r->n_help; i++)
        CU_ASSERT(r->help[i].bytes <= r->help[i - 1].bytes);
    const char *text = planned_text(r);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "Changes that help (each tried on this trace alone)"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "fused attention"));
    r = plan_made(&(made_run){BASE, .native = true, .no_backward = true});
    SW_CHECK(r->n_help == 0, "%s", replan_changes[r->help[0].change].name);
    text = planned_text(r);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "Nothing found that would help."));
}

/* Segments with holes that no request fits in; without holes nothing is gained. */
SW_TEST("expandable segments fill holes")
{
    for (int holes = 0; holes < 2; holes++) {
        uint64_t small[8];
        plain_allocator *p = plain_new(3);
        for (int i = 0; i < 8; i++) {
            const uint64_t large = plain_malloc(p, 0, (uint64_t)30 << 20, 1);
            plain_free(p, large, false);
            small[i] = holes ? plain_malloc(p, 0, (uint64_t)12 << 20, 2) : 0;
        }
        (void)plain_malloc(p, 0, (uint64_t)100 << 20, 3);
        const replan *r = planned(plain_write(p, "holes.pickle", 0));
        const replan_help *h = help_of(r, HELP_EXPANDABLE);
        CU_ASSERT((h != NULL) == (r->expandable * 257 < r->reserved * 256));
        CU_ASSERT(holes == 0 || (h != NULL && h->bytes == r->reserved - r->expandable));
        (void)small;
    }
}

/* No simulation of the recording can be compared with memory that was reserved before it and is
 * empty in it. */
SW_TEST("what had grown before is not compared")
{
    uint64_t large[8];
    plain_allocator *p = plain_new(3);
    for (int i = 0; i < 8; i++)
        large[i] = plain_malloc(p, 0, (uint64_t)30 << 20, 1);
    for (int i = 0; i < 8; i++)
        plain_free(p, large[i], false);
    const size_t first = p->n_events;
    (void)plain_malloc(p, 0, (uint64_t)25 << 20, 2);
    const replan *r = planned(plain_write(p, "grown.pickle", first));
    CU_ASSERT(r->reserved_event == TRACE_NONE && r->reserved == (uint64_t)240 << 20);
    CU_ASSERT(help_of(r, HELP_EXPANDABLE) == NULL && r->expandable == 0);
    const char *text = planned_text(r);
    CU_ASSERT_PTR_NULL(strstr(text, "expandable segments"));
}
