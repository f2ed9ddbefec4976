/* Edits of genomes, and mutations of one's own: against what their definition says, worked
 * out by the names of neurons. */
#include "tests/evolve/evolution_scene.h"
#include "tests/evolve/inherit_plain.h"
#include "tests/evolve/mutants.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("edit")

#define ALL UINT32_MAX

/* ---- the plain check --------------------------------------------------------------------- */

/* Each output of each vertex has a name: that of the layer that made it before the edit, on
 * its way through joins and flattened images. An edited vertex reads by column j what has
 * the name that its column cols[j] read before. 0: no neuron that was there. */
typedef struct {
    uint64_t *name;
    int64_t n;
} outputs;

static uint64_t mixed(uint64_t a, uint64_t b)
{
    a = (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu;
    return (a ^ a >> 29) | 1;
}

static uint64_t hashed(const char *text)
{
    uint64_t h = 7;
    for (; *text != '\0'; text++)
        h = mixed(h, (unsigned char)*text);
    return h;
}

/* A call that was drawn: 0 add, 1 remove, 2 rewire, 3 resize, 4 and 5 numbers, 6 words. */
typedef struct {
    int call;
    char cut[SWI_VERTEX_NAME]; /* it lost input k; "": none did */
    uint32_t k;
} drawn;

/* An edited genome (or one that was not: `was` is itself). */
typedef struct {
    const sw_genome *was, *now;
    const outputs *before;
    outputs of[64];
    const drawn *edit;
} traced;

static outputs room(int64_t n)
{
    return (outputs){scene_block((size_t)n * sizeof(uint64_t)), n};
}

static int64_t place_of(const outputs *o, uint64_t name, int64_t from)
{
    for (int64_t i = from; i < o->n; i++)
        if (o->name[i] == name)
            return i;
    return -1;
}

/* The vertex whose outputs input k of v had before, by name; NULL: there was no such input. */
static const swi_vertex *stands_for(const traced *t, const swi_vertex *v, uint32_t k)
{
    const swi_vertex *old = mutant_vertex(t->was, v->name);
    const swi_vertex *reads = &t->now->vertices[v->in[k]];
    const bool cut = strcmp(v->name, t->edit->cut) == 0;
    if (old == NULL) /* a new one has what its first input had */
        return k == 0 ? reads : NULL;
    if (old->n_in > v->n_in && !cut)
        return mutant_vertex(t->was, reads->name);
    k += cut && k >= t->edit->k;
    return k < old->n_in ? &t->was->vertices[old->in[k]] : NULL;
}

/* The names of what v reads as its input k, as they were there. */
static outputs names_read(const traced *t, const swi_vertex *v, uint32_t k)
{
    const uint32_t x = v->in[k];
    const swi_vertex *reads = &t->now->vertices[x], *old = stands_for(t, v, k);
    outputs o = room(reads->channels);
    const swi_vertex *same = mutant_vertex(t->was, reads->name);
    int64_t fresh = 0, last = -1, end = o.n; /* new ones at the end have the others' numbers */
    while (end > 0 && t->of[x].name[end - 1] == 0)
        end--;
    for (int64_t i = 0; i < o.n; i++) {
        o.name[i] = old == NULL ? 0 : t->of[x].name[i];
        if (old == NULL || same == NULL || strcmp(old->name, reads->name) == 0)
            continue; /* it reads what it read, or a new vertex in its place */
        while (old->kind == SW_VERTEX_ADD) /* it had the names of its first */
            old = &t->was->vertices[old->in[0]];
        const outputs *its = &t->before[same - t->was->vertices];
        const outputs *in_place = &t->before[old - t->was->vertices];
        if (old->kind == SW_VERTEX_CONCAT && mutant_vertex(t->now, old->name) == NULL &&
            (t->edit->call == 1 || t->edit->cut[0] != '\0')) {
            o.name[i] = o.name[i] != 0 ? mixed(o.name[i], hashed(reads->name)) : 0;
            continue;
        }
        const int64_t place = o.name[i] != 0 ? place_of(its, o.name[i], last + 1)
                              : i >= end     ? its->n + fresh++
                                             : -1;
        last = o.name[i] != 0 ? place : last;
        o.name[i] = place >= 0 && place < in_place->n ? in_place->name[place] : 0;
    }
    return o;
}

static void trace_vertex(traced *t, uint32_t i)
{
    const swi_vertex *v = &t->now->vertices[i], *old = mutant_vertex(t->was, v->name);
    outputs *o = &t->of[i];
    *o = room(v->channels);
    int64_t at = 0;
    if (i == 0 || (swi_vertex_is_sized(v) && old != NULL)) {
        for (; at < o->n; at++) {
            const int64_t row = i == 0 || t->now == t->was ? at : v->rows[at];
            o->name[at] = row < 0 ? 0 : mixed(hashed(v->name), (uint64_t)row);
        }
        return;
    }
    for (uint32_t k = 0; k < (v->kind == SW_VERTEX_CONCAT ? v->n_in : 1); k++) {
        const outputs in = names_read(t, v, k);
        const swi_vertex *part = stands_for(t, v, k);
        const int64_t each = v->kind == SW_VERTEX_FLATTEN ? v->channels / in.n : 1;
        for (int64_t j = 0; j < in.n * each && at < o->n; j++, at++) {
            o->name[at] = in.name[j / each];
            if (o->name[at] != 0 && v->kind == SW_VERTEX_CONCAT && old != NULL)
                o->name[at] = mixed(o->name[at], hashed(part->name));
            if (o->name[at] != 0 && v->kind == SW_VERTEX_FLATTEN)
                o->name[at] = mixed(o->name[at], (uint64_t)(j % each));
        }
    }
}

static bool is_map(const int32_t *map, const outputs *now, const outputs *was)
{
    bool *used = scene_block((size_t)was->n);
    for (int64_t i = 0; i < now->n; i++) {
        int64_t place = -1;
        for (int64_t j = 0; j < was->n && now->name[i] != 0 && place < 0; j++)
            place = was->name[j] == now->name[i] && !used[j] ? j : -1;
        if (map[i] < 0 ? place >= 0
                       : (map[i] >= was->n || used[map[i]] ||
                          was->name[map[i]] != now->name[i] || now->name[i] == 0))
            return false;
        if (map[i] >= 0)
            used[map[i]] = true;
    }
    return true;
}

/* `now` was made of `was`, whose copy it is by lineage, by one edit that moved no image. */
static bool follows(const sw_genome *now, const sw_genome *was, const drawn *edit)
{
    static traced before, t;
    before = (traced){.was = was, .now = was, .edit = &(drawn){.call = 0}};
    t = (traced){.was = was, .now = now, .before = before.of, .edit = edit};
    before.before = before.of;
    for (uint32_t i = 0; i < was->n; i++)
        trace_vertex(&before, i);
    for (uint32_t i = 0; i < now->n; i++) {
        const swi_vertex *v = &now->vertices[i], *old = mutant_vertex(was, v->name);
        trace_vertex(&t, i);
        if (!SW_CHECK((old == NULL) == (v->parent == SWI_NO_PARENT), "'%s'", v->name))
            return false;
        if (old == NULL || !swi_vertex_has_parameters(v))
            continue;
        const uint32_t w = (uint32_t)(old - was->vertices);
        const outputs reads = names_read(&t, v, 0);
        for (uint32_t r = 1; r < v->n_rows; r++)
            if (!SW_CHECK(v->rows[r] < 0 || v->rows[r] > v->rows[r - 1], "'%s': order",
                          v->name))
                return false;
        if (!SW_CHECK(v->was == w && is_map(v->rows, &t.of[i], &before.of[w]), "'%s': rows",
                      v->name) ||
            !SW_CHECK(!swi_vertex_is_sized(v) ||
                          is_map(v->cols, &reads, &before.of[old->in[0]]),
                      "'%s': columns", v->name))
            return false;
    }
    return true;
}

/* ---- edits at random --------------------------------------------------------------------- */

/* v, or the next one that has the field. */
static uint32_t having(const sw_genome *g, uint32_t v, const char *name)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (swi_vertex_has_field(&g->vertices[(v + i) % g->n], name))
            return (v + i) % g->n;
    return v;
}

/* Groups gain and lose neurons at the end of each: the plain check does not know them. */
static bool has_groups(const sw_genome *g)
{
    bool has = false;
    for (uint32_t i = 0; i < g->n; i++)
        has = has || (g->vertices[i].kind == SW_VERTEX_CONV2D && g->vertices[i].groups > 1);
    return has;
}

static sw_status add_drawn(sw_genome *g, swi_draws *d)
{
    static const sw_vertex_kind kinds[] = {
        SW_VERTEX_CONV2D,     SW_VERTEX_LINEAR,  SW_VERTEX_BATCH_NORM, SW_VERTEX_MAX_POOL,
        SW_VERTEX_ACTIVATION, SW_VERTEX_DROPOUT, SW_VERTEX_ADD,        SW_VERTEX_CONCAT};
    const uint32_t in[2] = {swi_draw_below(d, g->n), swi_draw_below(d, g->n)};
    const sw_vertex_kind kind = kinds[swi_draw_below(d, 8)];
    sw_vertex v = SW_OPTS(sw_vertex, .kind = kind, .inputs = in, .activation = "tanh");
    v.n_inputs = kind == SW_VERTEX_ADD || kind == SW_VERTEX_CONCAT ? 2 : 1;
    v.kernel = kind == SW_VERTEX_MAX_POOL ? 1 : 3;
    v.groups = (int)swi_draw_below(d, 3);
    v.channels = v.groups != 1 || has_groups(g) || swi_draw_happens(d, 0.5)
                     ? 0
                     : 1 + swi_draw_below(d, 20);
    v.identity = swi_draw_happens(d, 0.3);
    const uint32_t readers[2] = {ALL, swi_draw_below(d, g->n)};
    uint32_t at = 77;
    const sw_status status =
        sw_genome_add_vertex(g, &v, readers[swi_draw_happens(d, 0.3)], &at);
    CU_ASSERT_EQUAL(status == SW_OK, at != 77);
    CU_ASSERT(at == 77 || g->vertices[at].kind == kind);
    return status;
}

static sw_status edit_drawn(sw_genome *g, swi_draws d, drawn *what)
{
    static const char *const whole[] = {"lr", "batch", "weight_decay", "momentum", "clip"};
    static const char *const windows[] = {"kernel", "groups", "stride", "dilation"};
    static const char *const words[][2] = {
        {"optimizer", "sgd"},   {"optimizer", "adamw"},      {"activation", "relu"},
        {"activation", "tanh"}, {"kind", "max_pool"},        {"kind", "avg_pool"},
        {"update", "after"},    {"kind", "global_avg_pool"}, {"kind", "global_max_pool"},
        {"update", "release"}};
    uint32_t v = swi_draw_below(&d, g->n);
    const uint32_t k = swi_draw_below(&d, g->vertices[v].n_in + 1);
    const bool often = swi_draw_happens(&d, 0.8);
    *what = (drawn){.call = (int)swi_draw_below(&d, 7), .k = k};
    switch (what->call) {
    case 0:
        return add_drawn(g, &d);
    case 1:
        return sw_genome_remove_vertex(g, v, k);
    case 2: {
        const bool cut = swi_draw_happens(&d, 0.3);
        if (cut)
            snprintf(what->cut, sizeof what->cut, "%s", g->vertices[v].name);
        const uint32_t to = swi_draw_below(&d, often && v > 0 ? v : g->n);
        return sw_genome_rewire(g, v, k, cut ? ALL : to);
    }
    case 3:
        return sw_genome_resize(g, v, swi_draw_below(&d, 24));
    case 4: {
        const char *name = windows[swi_draw_below(&d, 4)];
        return sw_genome_set_number(g, having(g, v, name), name, 1 + swi_draw_below(&d, 5));
    }
    case 5:
        return sw_genome_set_number(g, ALL, whole[swi_draw_below(&d, 5)],
                                    swi_draw_below(&d, 9));
    default: {
        const uint32_t i = swi_draw_below(&d, 10);
        return sw_genome_set_word(g, i < 2 ? ALL : having(g, v, words[i][0]), words[i][0],
                                  words[i][1]);
    }
    }
}

typedef struct {
    uint64_t made[7], refused[7], checked;
    int edits; /* of a callback */
} tally;

static bool composes(const sw_genome *now, const sw_genome *step, const sw_genome *was)
{
    bool all = now->n == step->n;
    for (uint32_t i = 0; all && i < now->n; i++) {
        const swi_vertex *v = &now->vertices[i], *s = &step->vertices[i];
        const swi_vertex *w = s->parent == 0 ? &was->vertices[s->was] : NULL;
        for (uint32_t r = 0; all && r < v->n_rows; r++)
            all = v->rows[r] == (w == NULL || s->rows[r] < 0 ? SWI_NEW : w->rows[s->rows[r]]);
        for (uint32_t r = 0; all && r < v->n_cols; r++)
            all = v->cols[r] == (w == NULL || s->cols[r] < 0 ? SWI_NEW : w->cols[s->cols[r]]);
        all = all && v->parent == (w == NULL ? SWI_NO_PARENT : w->parent);
    }
    return all;
}

static bool images_stay(const sw_genome *now, const sw_genome *was)
{
    for (uint32_t i = 0; i < now->n; i++) {
        const swi_vertex *v = &now->vertices[i], *old = mutant_vertex(was, v->name);
        for (uint32_t k = 0; old != NULL && k < v->n_in && k < old->n_in; k++)
            if (now->vertices[v->in[k]].height != was->vertices[old->in[k]].height ||
                now->vertices[v->in[k]].width != was->vertices[old->in[k]].width)
                return false;
    }
    return true;
}

/* Each edit is made of a child first, where the check sees it alone, then of the genome:
 * with the same bits, and the lineage of both in one. */
static sw_status edit_some(sw_genome *g, uint64_t seed, void *user)
{
    tally *all = user;
    for (int i = 0; i < all->edits && g->n < 48; i++) {
        const swi_draws d = swi_draws_of(seed, (uint64_t)i);
        sw_genome *was = NULL, *step = NULL, *bare = NULL; /* bare: of no parents */
        drawn what, again;
        if (sw_genome_copy(&was, g) != SW_OK || sw_genome_child(&step, was) != SW_OK ||
            sw_genome_copy(&bare, was) != SW_OK)
            return SW_NOMEM;
        swi_genome_forget(bare);
        scene_later(ENDS(sw_genome_destroy, was), was);
        scene_later(ENDS(sw_genome_destroy, step), step);
        step->next = g->next; /* of new names */
        const sw_status status = edit_drawn(step, d, &again);
        CU_ASSERT_EQUAL(edit_drawn(bare, d, &again), status);
        CU_ASSERT_STRING_EQUAL(genome_print(bare), genome_print(step));
        sw_genome_destroy(bare);
        CU_ASSERT_EQUAL(edit_drawn(g, d, &what), status);
        (status == SW_OK ? all->made : all->refused)[what.call]++;
        CU_ASSERT_STRING_EQUAL(genome_print(g), genome_print(step));
        if (status != SW_OK) {
            CU_ASSERT(status == SW_INVALID || status == SW_UNSUPPORTED);
            CU_ASSERT(aligned_same(g, was));
        }
        const bool plain = images_stay(step, was) && (what.call == 0 || !has_groups(was));
        all->checked += status == SW_OK && plain;
        if (status == SW_OK && plain &&
            !SW_CHECK(follows(step, was, &what), "call %d of seed %llu: %s%s", what.call,
                      (unsigned long long)seed, genome_print(was), genome_print(step)))
            return SW_STOPPED;
        SW_CHECK(composes(g, step, was), "call %d: lineage", what.call);
    }
    return SW_OK;
}

static sw_genome *custom_child(const sw_genome *parent, sw_edit_fn *fn, void *user,
                               uint64_t seed, mutant_notes *notes)
{
    const sw_mutation own = {
        .kind = SW_MUTATE_CUSTOM, .probability = 1, .fn = fn, .user = user};
    const sw_mutate_opts opts =
        SW_OPTS(sw_mutate_opts, .mutations = &own, .n_mutations = 1, .seed = seed,
                .record = mutant_note, .record_user = notes);
    sw_genome *child = NULL;
    *notes = (mutant_notes){.n = 0};
    CU_ASSERT_FATAL(OK(sw_genome_mutate(&child, parent, &opts)));
    scene_later(ENDS(sw_genome_destroy, child), child);
    return child;
}

/* Its net has the bytes that its lineage says. */
static void inherits(sw_exec *exec, const sw_genome *child, const sw_genome *parent,
                     uint64_t seed)
{
    const sw_net_opts with = SW_OPTS(sw_net_opts, .utility = 1);
    sw_dice dice = {seed};
    const sw_net *from = scene_net(parent, &with), *to = scene_net(child, &with);
    const unsigned char *bytes = scene_random_bytes(from, &dice);
    unsigned char *got = scene_block(to->model->bytes);
    OK(swi_net_inherit(to, got, from, bytes, NULL, NULL, seed));
    const char *name =
        scene_differs(to, got, scene_inherited(exec, to, from, bytes, NULL, NULL, seed));
    SW_CHECK(name == NULL, "seed %llu: '%s'", (unsigned long long)seed, name);
}

SW_TEST("edits of a callback keep every neuron's descent")
{
    static const sw_task tasks[2] = {{sizeof(sw_task), 1, 14, 14, 10},
                                     {sizeof(sw_task), 20, 0, 0, 10}};
    sw_exec *exec = scene_exec(1);
    tally all = {.edits = 6};
    const uint64_t n = sw_tests_full() ? 6000 : 300;
    for (uint64_t i = 0; i < n; i++) {
        mutant_notes notes, again;
        sw_dice dice = {i + 1};
        sw_genome *parent = NULL;
        if (i % 3 < 2) {
            OK(sw_genome_draw(&parent, genome_space(&tasks[i % 3]), &tasks[i % 3], i));
            scene_later(ENDS(sw_genome_destroy, parent), parent);
        } else {
            parent = scene_random(&dice);
        }
        swi_draws d = swi_draws_of(i, 3);
        for (uint32_t v = 1; i % 5 == 0 && v < parent->n; v++)
            if (swi_draw_happens(&d, 0.2))
                parent->vertices[v].shield = swi_draw_below(&d, SW_SHIELD_ALL + 1);
        sw_genome *child = custom_child(parent, edit_some, &all, i, &notes);
        CU_ASSERT_FATAL(mutant_is_sound(child, parent, NULL));
        CU_ASSERT_EQUAL(notes.n, swi_genome_hash(child) != swi_genome_hash(parent));
        CU_ASSERT(mutant_keeps_shields(child, parent));
        if (i % 8 == 0) {
            const sw_genome *twin = custom_child(parent, edit_some, &all, i, &again);
            CU_ASSERT_STRING_EQUAL(genome_print(twin), genome_print(child));
            CU_ASSERT_STRING_EQUAL(notes.list[0].text, again.list[0].text);
            CU_ASSERT(aligned_same(child, twin));
        }
        inherits(exec, child, parent, i);
        scene_sweep();
    }
    sw_note("%llu checked by the names of neurons", (unsigned long long)all.checked);
    for (int k = 0; k < 7; k++) {
        sw_note("call %d: %llu edits, %llu refused", k, (unsigned long long)all.made[k],
                (unsigned long long)all.refused[k]);
        CU_ASSERT(all.made[k] > n / 5);
    }
}

/* Of one edit each: where the record says so, a net that was trained a step computes what it
 * did. */
SW_TEST("edits that are said to be exact compute the same")
{
    sw_exec *exec = scene_exec(1);
    tally all = {.edits = 1};
    int exact = 0, others = 0;
    for (uint64_t i = 0; i < (sw_tests_full() ? 6000u : 400u); i++) {
        mutant_notes notes;
        sw_dice dice = {i + 1};
        sw_genome *parent = scene_random(&dice);
        const sw_genome *child = custom_child(parent, edit_some, &all, i, &notes);
        const scene_batch data = scene_data(parent, SW_F32, 5, i);
        sw_net *from = scene_ready(parent, NULL, exec, i),
               *to = scene_ready(child, NULL, exec, 2);
        OK(sw_run(exec, &SCENE_ARGS(from, &data, SW_TRAIN)));
        OK(sw_net_inherit(to, from, NULL, i));
        const float *x = scene_run_logits(exec, from, &data);
        const float *y = scene_run_logits(exec, to, &data);
        double most = 0, largest = 1e-30;
        for (int k = 0; k < 50; k++) {
            most = fmax(most, fabs((double)x[k] - (double)y[k]));
            largest = fmax(largest, fabs((double)x[k]));
        }
        if (notes.n > 0 && notes.all_exact)
            SW_CHECK(most <= 1e-6 * largest, "%s: %g", notes.list[0].text, most / largest);
        exact += notes.n > 0 && notes.all_exact;
        others += most > 1e-3 * largest;
        scene_sweep();
    }
    sw_note("%d exact, %d compute something else", exact, others);
    CU_ASSERT(exact > 50 && others > 30);
}

/* ---- one by one -------------------------------------------------------------------------- */

static const char texts[] = CONV("c1", "input", 8, "") RELU("r1", "c1") V(
    "pool", "max_pool", "\"r1\"") ", \"kernel\": 2, \"stride\": 2" END CONV("c2", "pool", 8, "")
    V("sum", "add", "\"pool\", \"c2\"") END CONV("c3", "sum", 6, "")
        V("both", "concat", "\"c3\", \"sum\"")
            END CONV("held", "both", 4, ", \"shield\": [\"all\"]")
                V("flat", "flatten", "\"held\"")
                    END V("out", "linear", "\"flat\"") ", \"size\": 3" LAST;

static sw_genome *base_child(void)
{
    sw_genome *child = NULL;
    OK(sw_genome_child(&child, mutant_base("[2, 8, 8]", texts)));
    CU_ASSERT_PTR_NOT_NULL_FATAL(child);
    scene_later(ENDS(sw_genome_destroy, child), child);
    return child;
}

static uint32_t at(const sw_genome *g, const char *name)
{
    return sw_genome_find(g, name);
}

static sw_status conv_after(sw_genome *g, const char *after, int64_t channels, int groups,
                            uint32_t reader, const char *name)
{
    const uint32_t in = at(g, after);
    const sw_vertex v =
        SW_OPTS(sw_vertex, .name = name, .kind = SW_VERTEX_CONV2D, .inputs = &in, .n_inputs = 1,
                .channels = channels, .kernel = 3, .groups = groups);
    return sw_genome_add_vertex(g, &v, reader, NULL);
}

static sw_status join(sw_genome *g, sw_vertex_kind kind, const char *a, const char *b)
{
    const uint32_t in[] = {at(g, a), at(g, b)};
    const sw_vertex v =
        SW_OPTS(sw_vertex, .name = "join", .kind = kind, .inputs = in, .n_inputs = 2);
    return sw_genome_add_vertex(g, &v, ALL, NULL);
}

SW_TEST("what cannot be is refused, and changes nothing")
{
    sw_genome *g = base_child(), *was = base_child();
    const uint32_t none = g->n;
    sw_vertex many = SW_OPTS(sw_vertex, .kind = SW_VERTEX_ADD, .n_inputs = 17);
    const uint32_t in = at(g, "c1");
    sw_vertex relu = SW_OPTS(sw_vertex, .kind = SW_VERTEX_ACTIVATION, .inputs = &in,
                             .n_inputs = 1, .activation = "sine");
#define BAD_IS(call, status, part)                                                             \
    do {                                                                                       \
        REFUSED(call, status, part);                                                           \
        CU_ASSERT_STRING_EQUAL(genome_print(g), genome_print(was));                            \
        CU_ASSERT(aligned_same(g, was));                                                       \
    } while (0)
    BAD_IS(sw_genome_add_vertex(g, &many, ALL, NULL), SW_INVALID, "n_inputs must be 1 to 16");
    BAD_IS(sw_genome_add_vertex(g, &relu, ALL, NULL), SW_INVALID, "'sine' is no activation");
    relu.kind = (sw_vertex_kind)77;
    BAD_IS(sw_genome_add_vertex(g, &relu, ALL, NULL), SW_INVALID, "kind 77 is none");
    BAD_IS(conv_after(g, "c1", 8, 1, ALL, "c2"), SW_INVALID, "the same name");
    BAD_IS(conv_after(g, "c1", 8, 1, ALL, "a b"), SW_INVALID, "letters");
    BAD_IS(conv_after(g, "c1", 8, 1, at(g, "out"), "x"), SW_INVALID, "must read 'c1'");
    BAD_IS(conv_after(g, "c1", 9, 0, ALL, "x"), SW_INVALID,
           "groups 0 is depthwise, with the 8");
    BAD_IS(conv_after(g, "c1", 1 << 21, 1, ALL, "x"), SW_INVALID, "1 to 1048576");
    BAD_IS(conv_after(g, "c1", 8, 3, ALL, "x"), SW_INVALID, "groups must divide");
    BAD_IS(conv_after(g, "out", 8, 1, ALL, "x"), SW_INVALID, "stand after it");
    BAD_IS(conv_after(g, "held", 8, 1, ALL, "x"), SW_UNSUPPORTED,
           "'held': its shield 'outputs'");
    BAD_IS(conv_after(g, "both", 8, 1, ALL, "x"), SW_UNSUPPORTED,
           "'held': its shield 'inputs'");
    BAD_IS(join(g, SW_VERTEX_ADD, "pool", "r1"), SW_INVALID, "must have one shape");
    BAD_IS(join(g, SW_VERTEX_CONCAT, "pool", "r1"), SW_INVALID, "one height and width");
    BAD_IS(sw_genome_remove_vertex(g, none, 0), SW_INVALID, "11 vertices (got 11)");
    BAD_IS(sw_genome_remove_vertex(g, 0, 0), SW_UNSUPPORTED, "the input and the last");
    BAD_IS(sw_genome_remove_vertex(g, at(g, "flat"), 0), SW_UNSUPPORTED, "shield");
    BAD_IS(sw_genome_remove_vertex(g, at(g, "held"), 0), SW_UNSUPPORTED, "'remove'");
    BAD_IS(sw_genome_remove_vertex(g, at(g, "sum"), 2), SW_INVALID, "reads 2 vertices (got");
    BAD_IS(sw_genome_rewire(g, at(g, "c2"), 0, at(g, "c3")), SW_INVALID, "before it");
    BAD_IS(sw_genome_rewire(g, at(g, "c2"), 1, at(g, "c1")), SW_UNSUPPORTED,
           "may read one more");
    BAD_IS(sw_genome_rewire(g, at(g, "c2"), 0, ALL), SW_UNSUPPORTED, "must read one");
    BAD_IS(sw_genome_rewire(g, at(g, "both"), 1, ALL), SW_UNSUPPORTED, "keeps its readers");
    BAD_IS(sw_genome_rewire(g, at(g, "c2"), 1, ALL), SW_INVALID, "reads 1 vertices");
    BAD_IS(sw_genome_rewire(g, at(g, "sum"), 0, at(g, "r1")), SW_INVALID,
           "must have one shape");
    BAD_IS(sw_genome_rewire(g, at(g, "out"), 0, at(g, "c1")), SW_INVALID, "one is an image");
    BAD_IS(sw_genome_rewire(g, at(g, "held"), 0, at(g, "c1")), SW_UNSUPPORTED, "'inputs'");
    BAD_IS(sw_genome_resize(g, at(g, "out"), 4), SW_UNSUPPORTED, "4 outputs in the place of 3");
    BAD_IS(sw_genome_resize(g, at(g, "held"), 5), SW_UNSUPPORTED, "'held': its shield 'size'");
    BAD_IS(sw_genome_resize(g, at(g, "both"), 5), SW_UNSUPPORTED, "concat has no size");
    BAD_IS(sw_genome_resize(g, at(g, "c1"), 0), SW_INVALID, "1 to 1048576 (got 0)");
    BAD_IS(sw_genome_set_number(g, in, "kernel", 4), SW_INVALID, "must be odd (got 4)");
    BAD_IS(sw_genome_set_number(g, in, "kernel", 2.5), SW_INVALID, "whole number");
    BAD_IS(sw_genome_set_number(g, in, "kernel", (double)NAN), SW_INVALID, "whole number");
    BAD_IS(sw_genome_set_number(g, in, "groups", 0), SW_UNSUPPORTED, "depthwise");
    BAD_IS(sw_genome_set_number(g, in, "rate", 0.5), SW_INVALID, "'c1' (conv2d) has no number");
    BAD_IS(sw_genome_set_number(g, at(g, "held"), "kernel", 5), SW_UNSUPPORTED, "'kernel'");
    BAD_IS(sw_genome_set_number(g, ALL, "kernel", 3), SW_INVALID, "a genome has no number");
    BAD_IS(sw_genome_set_number(g, ALL, "lr", -1), SW_INVALID, "lr");
    BAD_IS(sw_genome_set_number(g, ALL, "lr", 1e300), SW_INVALID, "lr");
    BAD_IS(sw_genome_set_number(g, ALL, "batch", 65537), SW_INVALID,
           "batch must be 1 to 65536");
    BAD_IS(sw_genome_set_number(g, ALL, "momentum", 0.5), SW_INVALID, "momentum");
    BAD_IS(sw_genome_set_number(g, ALL, "clip_norm", 1), SW_INVALID, "clip_norm");
    BAD_IS(sw_genome_set_word(g, ALL, "optimizer", "newton"), SW_INVALID, "'newton'");
    BAD_IS(sw_genome_set_word(g, ALL, "loss", "a loss"), SW_INVALID, "loss");
    BAD_IS(sw_genome_set_word(g, ALL, "update", "never"), SW_INVALID, "release or after");
    BAD_IS(sw_genome_set_word(g, at(g, "r1"), "activation", "sine"), SW_INVALID, "'sine'");
    BAD_IS(sw_genome_set_word(g, at(g, "pool"), "kind", "flatten"), SW_UNSUPPORTED,
           "'flatten'");
    BAD_IS(sw_genome_set_word(g, in, "name", "c9"), SW_INVALID, "no word 'name'");
    CU_ASSERT_EQUAL(at(g, "c9"), ALL);
}

/* ---- failing allocations ----------------------------------------------------------------- */

static sw_status call_of(sw_genome *g, int which)
{
    switch (which) {
    case 0:
        return conv_after(g, "r1", 12, 1, ALL, NULL);
    case 1:
        return join(g, SW_VERTEX_CONCAT, "c3", "c2");
    case 2:
        return join(g, SW_VERTEX_ADD, "c3", "c2");
    case 3:
        return sw_genome_remove_vertex(g, at(g, "c2"), 0);
    case 4:
        return sw_genome_remove_vertex(g, at(g, "pool"), 0);
    case 5:
        return sw_genome_rewire(g, at(g, "sum"), 0, ALL);
    case 6:
        return sw_genome_rewire(g, at(g, "both"), 0, at(g, "pool"));
    case 7:
        return sw_genome_resize(g, at(g, "sum"), 11);
    case 8:
        return sw_genome_set_number(g, at(g, "pool"), "stride", 1);
    default:
        return sw_genome_set_word(g, ALL, "optimizer", "sgd");
    }
}

SW_TEST("no memory leaves the genome as it was")
{
    uint64_t failed = 0;
    for (int which = 0; which < 10; which++) {
        const sw_genome *was = base_child();
        sw_sites s = {SW_FAULT_MEMORY, .exact = true};
        while (sw_sites_next(&s)) {
            sw_genome *g = NULL;
            OK(sw_genome_child(&g, was));
            const char *text = genome_print(g);
            const sw_status status = SW_AT_SITE(&s, call_of(g, which));
            CU_ASSERT_EQUAL(strcmp(genome_print(g), text) == 0, status != SW_OK);
            OK(status == SW_OK ? SW_OK : call_of(g, which));
            CU_ASSERT(mutant_is_sound(g, was, NULL));
            sw_genome_destroy(g);
        }
        failed += s.failed;
        CU_ASSERT(s.failed > 5);
    }
    sw_note("%llu failures", (unsigned long long)failed);
}

/* ---- outside of a mutation --------------------------------------------------------------- */

/* By the public calls alone: grown, deeper and with a second path, a trained net computes
 * what it did; with another word it does not. */
SW_TEST("a copy that is edited inherits")
{
    sw_exec *exec = scene_exec(1);
    const sw_genome *g = scene_lenet();
    const scene_batch data = scene_data(g, SW_F32, 6, 3);
    sw_net *from = scene_ready(g, NULL, exec, 1);
    OK(sw_run(exec, &SCENE_ARGS(from, &data, SW_TRAIN)));
    sw_genome *child = NULL;
    OK(sw_genome_child(&child, g));
    CU_ASSERT_PTR_NOT_NULL_FATAL(child);
    scene_later(ENDS(sw_genome_destroy, child), child);
    uint32_t in[2] = {at(child, "fc1"), 0}, where = 0;
    const sw_vertex same = SW_OPTS(sw_vertex, .name = "more", .kind = SW_VERTEX_LINEAR,
                                   .inputs = in, .n_inputs = 1, .identity = 1);
    OK(sw_genome_add_vertex(child, &same, ALL, &where));
    CU_ASSERT_EQUAL(at(child, "more"), where);
    OK(sw_genome_resize(child, at(child, "conv1"), 9));
    OK(sw_genome_resize(child, at(child, "fc2"), 100));
    OK(sw_genome_set_number(child, at(child, "conv2"), "kernel", 7));
    in[0] = at(child, "fc2"), in[1] = at(child, "fc1");
    const sw_vertex path =
        SW_OPTS(sw_vertex, .kind = SW_VERTEX_CONCAT, .inputs = in, .n_inputs = 2);
    OK(sw_genome_add_vertex(child, &path, ALL, NULL));
    CU_ASSERT(mutant_is_sound(child, g, NULL));
    const float *logits = scene_run_logits(exec, from, &data);
    for (int other = 0; other < 2; other++) {
        sw_net *to = scene_ready(child, NULL, exec, 2);
        OK(sw_net_inherit(to, from, NULL, 7));
        const float *its = scene_run_logits(exec, to, &data);
        double most = 0;
        for (int i = 0; i < 60; i++)
            most = fmax(most, fabs((double)(its[i] - logits[i])));
        SW_CHECK(other ? most > 1e-4 : most <= 1e-6, "%g", most);
        OK(sw_run(exec, &SCENE_ARGS(to, &data, SW_TRAIN)));
        OK(sw_genome_set_word(child, at(child, "act1"), "activation", "tanh"));
    }
}

/* Weights read the same numbers of another vertex; those after the last are new, and no
 * other size changes. */
SW_TEST("rewired weights stay in their places")
{
    static const struct {
        uint32_t input;
        const char *to;
        int32_t n, cols[16];
    } cases[] = {{0, "pool", 16, {0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, 12, 13}},
                 {1, "c3", 12, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}};
    for (int i = 0; i < 2; i++) {
        sw_genome *g = base_child();
        OK(sw_genome_rewire(g, at(g, "both"), cases[i].input, at(g, cases[i].to)));
        const swi_vertex *held = mutant_vertex(g, "held");
        CU_ASSERT_FATAL((int32_t)held->n_cols == cases[i].n);
        CU_ASSERT(memcmp(held->cols, cases[i].cols, held->n_cols * sizeof *held->cols) == 0);
        CU_ASSERT_EQUAL(mutant_vertex(g, "c3") == NULL, i == 0); /* none reads it */
        CU_ASSERT_EQUAL(mutant_vertex(g, "c1")->size, 8);
        CU_ASSERT_EQUAL(mutant_vertex(g, "c2")->size, 8);
    }
}

/* Images that become larger: elements keep their columns, as in a mutation. */
SW_TEST("windows that move images move columns")
{
    sw_genome *g = base_child();
    OK(sw_genome_set_number(g, at(g, "pool"), "stride", 1));
    const swi_vertex *out = mutant_vertex(g, "out");
    CU_ASSERT_EQUAL_FATAL(out->n_cols, 4 * 7 * 7);
    for (int32_t y = 0; y < 7; y++)
        for (int32_t x = 0; x < 7; x++) {
            int32_t was = -1; /* old line k is at 7 k / 4 */
            for (int32_t k = 0; k < 4; k++)
                for (int32_t l = 0; l < 4; l++)
                    was = y == k * 7 / 4 && x == l * 7 / 4 ? k * 4 + l : was;
            CU_ASSERT_EQUAL(out->cols[y * 7 + x], was);
            CU_ASSERT_EQUAL(out->cols[49 * 3 + y * 7 + x], was < 0 ? -1 : was + 48);
        }
}

/* ---- callbacks --------------------------------------------------------------------------- */

/* An edit, then a status; a genome that it may not destroy. */
static sw_status grow_c3(sw_genome *g, uint64_t seed, void *user)
{
    (void)seed;
    SW_TRY(sw_genome_resize(g, at(g, "c3"), 9));
    CU_ASSERT_EQUAL(sw_genome_resize(g, at(g, "c3"), 129), SW_INVALID); /* above max_size */
    sw_genome_destroy(g);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "in use by sw_genome_mutate"));
    SW_TRY(sw_genome_set_number(g, ALL, "lr", 0.5));
    return *(sw_status *)user;
}

static int never(const sw_genome *g, void *user)
{
    CU_ASSERT_EQUAL(g->lr, 0.5f);
    return 0;
}

SW_TEST("a mutation of one's own stays, or leaves no trace")
{
    sw_status answer = SW_OK;
    const sw_genome *g = mutant_base("[2, 8, 8]", texts);
    mutant_notes notes = {.n = 0};
    const sw_mutation own = {
        .kind = SW_MUTATE_CUSTOM, .probability = 1, .fn = grow_c3, .user = &answer};
    sw_mutate_opts opts =
        SW_OPTS(sw_mutate_opts, .mutations = &own, .n_mutations = 1, .max_size = 128,
                .record = mutant_note, .record_user = &notes);
    for (answer = SW_OK; answer <= SW_STOPPED; answer++) {
        sw_genome *child = NULL;
        const bool passes = answer == SW_OK || answer == SW_INVALID || answer == SW_UNSUPPORTED;
        notes.n = 0;
        CU_ASSERT_EQUAL(sw_genome_mutate(&child, g, &opts), passes ? SW_OK : answer);
        CU_ASSERT_EQUAL(child != NULL, passes);
        CU_ASSERT_EQUAL(notes.n, answer == SW_OK);
        if (child != NULL)
            CU_ASSERT_EQUAL(mutant_vertex(child, "c3")->size, answer == SW_OK ? 9 : 6);
        sw_genome_destroy(child);
    }
    CU_ASSERT_STRING_EQUAL(notes.list[0].text, "custom: c3: 6 to 9 outputs; lr 0.01 to 0.5");
    CU_ASSERT(notes.list[0].exact && notes.list[0].kind == SW_MUTATE_CUSTOM);
    answer = SW_OK;
    opts.fits = never;
    sw_genome *child = NULL;
    OK(sw_genome_mutate(&child, g, &opts));
    CU_ASSERT_EQUAL(swi_genome_hash(child), swi_genome_hash(g));
    sw_genome_destroy(child);
}

/* Units that go are those with the least utility, in a callback too; vertices have a bound. */
static sw_status halve_c3(sw_genome *g, uint64_t seed, void *user)
{
    (void)user, (void)seed;
    CU_ASSERT_EQUAL(conv_after(g, "c3", 0, 1, ALL, NULL), SW_UNSUPPORTED);
    return sw_genome_resize(g, at(g, "c3"), 3);
}

SW_TEST("bounds and utilities of the mutation hold in a callback")
{
    static const float of_c3[] = {3, 0, 2, 1, 5, 1};
    const sw_genome *g = mutant_base("[2, 8, 8]", texts);
    const sw_neuron_utility utility = {.vertex = at(g, "c3"), .n = 6, .values = of_c3};
    const sw_mutation own = {.kind = SW_MUTATE_CUSTOM, .probability = 1, .fn = halve_c3};
    sw_genome *child = NULL;
    OK(sw_genome_mutate(&child, g,
                        &SW_OPTS(sw_mutate_opts, .mutations = &own, .n_mutations = 1,
                                 .utilities = &utility, .n_utilities = 1,
                                 .max_vertices = g->n)));
    CU_ASSERT_PTR_NOT_NULL_FATAL(child);
    AFTER(sw_genome_destroy, child);
    const swi_vertex *c3 = mutant_vertex(child, "c3");
    CU_ASSERT_FATAL(c3->n_rows == 3);
    CU_ASSERT(c3->rows[0] == 0 && c3->rows[1] == 2 && c3->rows[2] == 4);
}

static sw_status edit_any(sw_genome *g, uint64_t seed, void *made)
{
    drawn what;
    for (uint64_t i = 0; i < 12; i++)
        *(int *)made += edit_drawn(g, swi_draws_of(seed, i), &what) == SW_OK;
    return SW_OK;
}

/* In a search: for any threads the same bits. */
SW_TEST("a search has mutations of one's own")
{
    const evo_data data = evo_digits(300, 60);
    int made = 0;
    const sw_mutation own = {
        .kind = SW_MUTATE_CUSTOM, .probability = 1, .fn = edit_any, .user = &made};
    const sw_evolution_opts opts =
        EVO_OPTS(&data, .mutations = &own, .n_mutations = 1, .candidate_bytes = 1 << 20);
    uint64_t sum[2];
    for (int k = 0; k < 2; k++) {
        sw_evolution *e = evo_evolution(evo_exec(k + 1, NULL), &opts);
        evo_run(e, UINT64_MAX);
        sum[k] = evo_sum(e);
    }
    CU_ASSERT_EQUAL(sum[0], sum[1]);
    CU_ASSERT(made > 20);
}

/* Programs that were built before it had `fn` see the same struct. */
SW_TEST("fn is of the kind custom alone")
{
    const sw_genome *g = mutant_base("[2, 8, 8]", texts);
    const sw_mutation bad[] = {
        {.kind = SW_MUTATE_CUSTOM, .probability = 1},
        {.kind = SW_MUTATE_SIZE, .probability = 1, .fn = halve_c3},
        {.kind = SW_MUTATE_CUSTOM, .probability = 1, .fn = halve_c3, .high = 1},
        SW_INIT(.kind = SW_MUTATE_CUSTOM, .probability = 1, .fn = halve_c3,
                .weigh = SW_WEIGH_LOW)};
    static const char *const parts[] = {"fn must not be NULL", "fn must be NULL", "no range",
                                        "weigh"};
    sw_genome *child = NULL;
    for (int i = 0; i < 4; i++)
        REFUSED(
            sw_genome_mutate(&child, g,
                             &SW_OPTS(sw_mutate_opts, .mutations = &bad[i], .n_mutations = 1)),
            SW_INVALID, parts[i]);
    typedef struct {
        sw_mutation_kind kind;
        sw_weigh weigh;
        double probability, low, high;
        const sw_search_space *space;
        uint32_t min_vertices;
        uint64_t max_parameters;
        sw_vertex_filter *filter;
        void *user;
        uint64_t reserved[2];
    } as_before;
    CU_ASSERT_EQUAL(sizeof(sw_mutation), sizeof(as_before));
    CU_ASSERT_EQUAL(offsetof(sw_mutation, fn), offsetof(as_before, reserved));
    CU_ASSERT_STRING_EQUAL(sw_mutation_kind_name(SW_MUTATE_CUSTOM), "custom");
}
