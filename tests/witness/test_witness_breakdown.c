/* Roles and layers under the access witness: what it adds up from the touches is what was
 * planned and what a run counted; where a plan is wrong in one storage, the message names
 * the role or layer with other bytes. */
#include "alloc/base/message.h"
#include "runtime/observe/observe.h"
#include "tests/support/seen_breakdown.h"
#include "tests/support/witness_program.h"
#include "tests/witness/fixture.h"
#include "tests/witness/probe.h"

SW_TESTS("witness shares")

static sw_seen_breakdown seen_by(fixture *f)
{
    sw_seen_breakdown seen = {.n = 0};
    SW_CHECK(sw_witness_shares(f->exec, sw_see_share, &seen) == SW_OK, "%s", sw_last_error());
    return seen;
}

/* ---- as planned -------------------------------------------------------------------------- */

static void agree(fixture *f, const char *name)
{
    char why[300];
    sw_witness_info info = SW_OPTS(sw_witness_info);
    sw_seen_breakdown said = {.n = 0}, counted = {.n = 0};
    SW_CHECK(sw_plan_shares(f->exec, &f->args, sw_see_share, &said) == SW_OK, "%s",
             sw_last_error());
    SW_CHECK(sw_witness(f->exec, &f->args, SW_WITNESS_ACCESS, &info) == SW_OK &&
                 info.agreed == SW_WITNESS_ACCESS,
             "%s: %s", name, info.first_fault);
    const sw_seen_breakdown seen = seen_by(f);
    SW_CHECK(sw_same_breakdown(&said, &seen, why, sizeof why), "%s: %s", name, why);
    SW_CHECK(sw_share_sum(&seen, SW_SHARE_ROLE) == info.peak_bytes, "%s", name);
    SW_CHECK(sw_share_sum(&seen, SW_SHARE_LAYER) == info.peak_bytes, "%s", name);
    SW_CHECK(sw_run(f->exec, &f->args) == SW_OK, "%s", sw_last_error());
    SW_CHECK(sw_last_shares(f->exec, sw_see_share, &counted) == SW_OK, "%s", sw_last_error());
    SW_CHECK(sw_same_breakdown(&seen, &counted, why, sizeof why), "%s, run: %s", name, why);
}

/* Every optimizer, several batches and thread counts; in full all of them with each other. */
static void sweep(net_kind net)
{
    static const char *const optimizers[] = {"sgd",   "momentum", "nesterov", "adam",
                                             "adamw", "clip",     "kept",     "release"};
    static const int64_t batches[] = {1, 7, 32, 128};
    for (size_t o = 0; o < 8; o++)
        for (size_t b = 0; b < 4; b++) {
            if (!sw_tests_full() && b != (o + (size_t)net) % 4)
                continue;
            char name[64];
            snprintf(name, sizeof name, "%s batch %d", optimizers[o], (int)batches[b]);
            fixture *f = fixture_create(&(fixture_opts){.net = net,
                                                        .batch = batches[b],
                                                        .optimizer = optimizers[o],
                                                        .threads = 1 + (int)(o + b) % 3,
                                                        .no_inplace = b == 1,
                                                        .shares = 1});
            if (f != NULL)
                agree(f, name);
        }
}

SW_TEST("mlp agrees by role and by layer")
{
    sweep(NET_MLP);
}

SW_TEST("lenet5 agrees by role and by layer")
{
    sweep(NET_LENET5);
}

SW_TEST("storages with padding agree by role and by layer")
{
    sweep(NET_SMALL);
}

SW_TEST("workspaces agree by role and by layer")
{
    probe_does = PROBE_HONEST;
    sweep(NET_PROBES);
}

/* ---- planted faults ---------------------------------------------------------------------- */

static uint32_t first_probe(const swi_program *p)
{
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_node *node = &p->trace.nodes[p->ops[i].node];
        if (node->grad < 0 && strcmp(swi_op(node->op)->name, "test.probe") == 0)
            return i;
    }
    CU_FAIL("no probe");
    return 0;
}

/* The storage that the first probe makes: kept for backward, in no layer. */
static swi_storage *kept(swi_program *p)
{
    swi_trace *t = &p->trace;
    const swi_node *node = &t->nodes[p->ops[first_probe(p)].node];
    uint32_t s = t->values[t->operands[node->first + node->n_in]].storage;
    while (t->storages[s].alias != s)
        s = t->storages[s].alias;
    return &t->storages[s];
}

static swi_storage *scratch(swi_program *p)
{
    return &p->trace.storages[p->trace.nodes[p->ops[first_probe(p)].node].scratch];
}

static void saved_called_activation(swi_program *p)
{
    kept(p)->role = SWI_ROLE_ACTIVATION;
}

static void saved_called_gradient(swi_program *p)
{
    kept(p)->role = SWI_ROLE_GRADIENT;
}

/* The largest: others live while workspaces are not at their most. */
static void scratch_called_gradient(swi_program *p)
{
    swi_storage *largest = scratch(p);
    for (uint32_t s = 0; s < p->trace.n_storages; s++) {
        swi_storage *x = &p->trace.storages[s];
        if (x->role == SWI_ROLE_WORKSPACE && x->rounded > largest->rounded)
            largest = x;
    }
    largest->role = SWI_ROLE_GRADIENT;
}

static void activation_called_scratch(swi_program *p)
{
    kept(p)->role = SWI_ROLE_WORKSPACE;
}

static void other_layer(swi_program *p)
{
    uint32_t fc2 = 0;
    for (uint32_t i = 0; i < p->trace.n_nodes; i++)
        if (strcmp(swi_string(&p->trace, p->trace.nodes[i].layer), "fc2") == 0)
            fc2 = p->trace.nodes[i].layer;
    CU_ASSERT(fc2 != 0);
    kept(p)->layer = fc2;
}

static void rounded_too_far(swi_program *p)
{
    kept(p)->rounded += 64;
}

static void dead_too_early(swi_program *p)
{
    swi_storage *x = kept(p);
    CU_ASSERT_FATAL(x->birth < p->peak_op && x->death >= p->peak_op);
    x->death = p->peak_op - 1;
}

static void dead_too_late(swi_program *p)
{
    kept(p)->death = p->n_ops - 1;
    scratch(p)->death = p->n_ops - 1;
}

static void born_too_late(swi_program *p)
{
    swi_storage *x = kept(p);
    x->birth = x->death;
}

typedef struct {
    const char *name;
    void (*plant)(swi_program *p);
    const char *role, *layer; /* one that differs from the plan; NULL: all of them agree */
} planted;

static const planted faults[] = {
    {"a kept tensor called activation", saved_called_activation, "saved", NULL},
    {"a kept tensor called gradient", saved_called_gradient, "gradient", NULL},
    {"a kept tensor called workspace", activation_called_scratch, "workspace", NULL},
    {"a workspace called gradient", scratch_called_gradient, "workspace", NULL},
    {"a tensor of another layer", other_layer, NULL, "fc2"},
    {"64 bytes of padding too many", rounded_too_far, "saved", ""},
    {"a death before the peak", dead_too_early, "gradient", NULL},
    {"deaths after the peak", dead_too_late, "workspace", NULL},
    {"a birth after the peak", born_too_late, "saved", ""},
};

static bool differs(const sw_seen_breakdown *a, const sw_seen_breakdown *b, sw_share_kind kind,
                    const char *name)
{
    const sw_seen_share x = sw_share_named(a, kind, name), y = sw_share_named(b, kind, name);
    return x.at_peak != y.at_peak || x.peak != y.peak;
}

/* The witness still sees what the honest plan says; the wrong one differs from it where it was
 * made wrong, and the comparison alone says so with both numbers. */
static void report(const planted *x)
{
    char why[300];
    probe_does = PROBE_HONEST;
    fixture *f = fixture_create(
        &(fixture_opts){.net = NET_PROBES, .batch = 20, .optimizer = "sgd", .threads = 1});
    swi_program *p = f != NULL ? fixture_clone(f) : NULL;
    if (p == NULL)
        return;
    sw_seen_breakdown honest = {.n = 0}, said = {.n = 0};
    sw_witness_info info = SW_OPTS(sw_witness_info);
    CU_ASSERT_EQUAL(sw_plan_shares(f->exec, &f->args, sw_see_share, &honest), SW_OK);
    x->plant(p);
    swi_program_bind(p);
    swi_program_measure(p);
    CU_ASSERT_EQUAL(sw_witness_program(f->exec, p, &f->args, SW_WITNESS_ACCESS, &info), SW_OK);
    SW_CHECK(info.agreed == 0 && info.n_faults >= 2, "%s: %u faults", x->name, info.n_faults);
    const sw_seen_breakdown seen = seen_by(f);
    SW_CHECK(sw_same_breakdown(&seen, &honest, why, sizeof why), "%s: %s", x->name, why);
    swi_frame *frame = NULL;
    CU_ASSERT_EQUAL_FATAL(swi_frame_create(&frame, p), SW_OK);
    AFTER(swi_frame_free, frame);
    CU_ASSERT_EQUAL(swi_program_breakdown(frame, &f->args), SW_OK);
    for (uint32_t i = 0; i < frame->breakdown.n; i++) {
        const swi_breakdown_line *line = &frame->breakdown.lines[i];
        sw_see_share(&said,
                     &SW_OPTS(sw_share,
                              .kind = i < SWI_ROLE_COUNT ? SW_SHARE_ROLE : SW_SHARE_LAYER,
                              .name = line->name, .at_peak_bytes = line->at_peak,
                              .peak_bytes = line->peak));
    }
    SW_CHECK(x->role == NULL || differs(&seen, &said, SW_SHARE_ROLE, x->role), "%s", x->name);
    SW_CHECK(x->layer == NULL || differs(&seen, &said, SW_SHARE_LAYER, x->layer), "%s",
             x->name);
    swi_witness again = SW_INIT(.exec = f->exec, .program = p, .frame = frame, .args = &f->args,
                                .breakdown = f->exec->witness_breakdown);
    CU_ASSERT_EQUAL(swi_witness_compare_breakdowns(&again), SW_OK);
    /* "role 'saved': 640 bytes at the peak and ..": the two numbers of both sides. */
    char text[300];
    bool named = false;
    for (uint32_t j = 0; j < said.n; j++) {
        const sw_seen_share *b = &said.at[j];
        const sw_seen_share a = sw_share_named(&seen, b->kind, b->name);
        (void)sw_message(
            text, sizeof text,
            "%s '%s': %zu bytes at the peak and %zu at its own observed, %zu and %zu planned",
            b->kind == SW_SHARE_ROLE ? "role" : "layer", b->name, a.at_peak, a.peak, b->at_peak,
            b->peak);
        named |= strcmp(text, again.info.first_fault) == 0 &&
                 differs(&seen, &said, b->kind, b->name);
    }
    SW_CHECK(named, "%s: '%s'", x->name, again.info.first_fault);
    if (sw_tests_full())
        sw_note("%s: %s", x->name, again.info.first_fault);
}

SW_TEST("wrong roles and layers are reported")
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        report(&faults[i]);
}

/* ---- wrong figures ----------------------------------------------------------------------- */

static swi_breakdown_line *line(swi_frame *p, uint32_t from, const char *name)
{
    for (uint32_t i = from; i < p->breakdown.n; i++)
        if (strcmp(p->breakdown.lines[i].name, name) == 0)
            return &p->breakdown.lines[i];
    CU_FAIL_FATAL("no such line");
    return NULL;
}

/* Storages are right, the sums are not: the witness has nothing else to say. */
SW_TEST("wrong sums are reported")
{
    static const char *const says[] = {"role 'saved'", "role 'parameter'", "layer 'fc2'",
                                       "layer 'fc3'", "layer 'fc9'"};
    probe_does = PROBE_HONEST;
    fixture *f = fixture_create(
        &(fixture_opts){.net = NET_PROBES, .batch = 7, .optimizer = "adam", .threads = 1});
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    for (int i = 0; i < 5; i++) {
        sw_witness_info info = SW_OPTS(sw_witness_info);
        swi_program *clone = fixture_clone(f);
        swi_frame *p = NULL;
        CU_ASSERT_PTR_NOT_NULL_FATAL(clone);
        CU_ASSERT_EQUAL_FATAL(swi_frame_create(&p, clone), SW_OK);
        AFTER(swi_frame_free, p);
        CU_ASSERT_EQUAL_FATAL(swi_program_breakdown(p, &f->args), SW_OK);
        if (i == 0)
            line(p, 0, "saved")->at_peak += 64;
        else if (i == 1)
            line(p, 0, "parameter")->peak -= 64;
        else if (i == 2)
            line(p, SWI_ROLE_COUNT, "fc2")->peak += 64;
        else
            snprintf(line(p, SWI_ROLE_COUNT, i == 3 ? "fc3" : "fc1")->name, 8, "fc9");
        CU_ASSERT_EQUAL(swi_witness_frame(f->exec, p, &f->args, SW_WITNESS_ACCESS, &info),
                        SW_OK);
        CU_ASSERT_EQUAL(info.agreed, 0);
        SW_CHECK(strstr(info.first_fault, i == 3 ? "layer 'fc9'" : says[i]) != NULL,
                 "'%s' does not say '%s'", info.first_fault, says[i]);
        SW_CHECK(info.n_faults == (i < 3 ? 1u : 2u), "%s: %u faults", says[i], info.n_faults);
    }
}
