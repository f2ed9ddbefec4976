/* Crossover: two genomes exchange segments of similar position, and what they train with. */
#include "runtime/base/structs.h"
#include "runtime/population/evolve/mutate.h"
#include <math.h>
#include <string.h>

#define TRIES 16
#define STREAM 0x63726f7373u /* of draws */
#define DEVIATION 0.1

enum { OPTIMIZER = 1, RATE = 2, BATCH = 4 };

typedef struct {
    const sw_genome *of[2];
    sw_genome *lineage[2]; /* copies of them, of which each vertex is its own parent */
    swi_segments segments[2];
    swi_parent_utility utility[2];
    sw_crossover_opts opts;
    swi_draws draws;
} crossing;

/* ---- children ---------------------------------------------------------------------------- */

/* A copy of parent `which`, which is its parent 0. */
static sw_status begin_child(const crossing *x, int which, sw_genome **out)
{
    SW_TRY(sw_genome_copy(out, x->lineage[which]));
    (*out)->n_parents = 2;
    (*out)->parents[0] = swi_genome_hash(x->of[which]);
    (*out)->parents[1] = swi_genome_hash(x->of[!which]);
    return SW_OK;
}

/* *made NULL: it cannot be. */
static sw_status make_child(const crossing *x, int which, const swi_segment *const pair[2],
                            sw_genome **made)
{
    swi_child c = {.parents = {x->utility[which], x->utility[!which]}};
    *made = NULL;
    SW_TRY(begin_child(x, which, &c.genome));
    sw_status status = swi_segment_exchange(&c, x->lineage[!which], pair[!which], pair[which]);
    if (status == SW_OK)
        status = swi_genome_check(c.genome, NULL);
    if (status == SW_OK)
        *made = c.genome;
    else
        swi_genome_free(c.genome);
    swi_child_end(&c);
    return status == SW_UNSUPPORTED || status == SW_INVALID ? SW_OK : status;
}

/* Both, or none. */
static sw_status make_children(const crossing *x, const swi_segment *const pair[2],
                               sw_genome *children[2])
{
    SW_TRY(make_child(x, 0, pair, &children[0]));
    const sw_status status = children[0] != NULL ? make_child(x, 1, pair, &children[1]) : SW_OK;
    if (children[1] == NULL) {
        swi_genome_free(children[0]);
        children[0] = NULL;
    }
    return status;
}

/* ---- pairs ------------------------------------------------------------------------------- */

static bool same_place(const swi_vertex *a, const swi_vertex *b)
{
    return a->height == b->height && a->width == b->width;
}

static bool match(const crossing *x, const swi_segment *a, const swi_segment *b)
{
    const swi_vertex *u = x->of[0]->vertices, *v = x->of[1]->vertices;
    return fabs(a->from - b->from) <= x->opts.deviation &&
           fabs(a->to - b->to) <= x->opts.deviation && same_place(&u[a->entry], &v[b->entry]) &&
           same_place(&u[a->exit], &v[b->exit]);
}

/* One of a, and one of those of b that match it. */
static bool draw_pair(crossing *x, const swi_segment *pair[2])
{
    const swi_segments *a = &x->segments[0], *b = &x->segments[1];
    uint32_t n = 0;
    pair[0] = &a->list[swi_draw_below(&x->draws, a->n)];
    for (uint32_t i = 0; i < b->n; i++)
        n += match(x, pair[0], &b->list[i]);
    if (n == 0)
        return false;
    uint32_t which = swi_draw_below(&x->draws, n), i = 0;
    while (!match(x, pair[0], &b->list[i]) || which-- > 0)
        i++;
    pair[1] = &b->list[i];
    return true;
}

static sw_status cross_vertices(crossing *x, sw_genome *children[2])
{
    for (int which = 0; which < 2; which++)
        SW_TRY(swi_segments_of(&x->segments[which], x->of[which]));
    if (x->segments[0].n == 0 || x->segments[1].n == 0)
        return SW_OK;
    for (int i = 0; i < TRIES && children[0] == NULL; i++) {
        const swi_segment *pair[2];
        if (draw_pair(x, pair))
            SW_TRY(make_children(x, pair, children));
    }
    return SW_OK;
}

/* ---- training ---------------------------------------------------------------------------- */

#define SWAP(type, a, b)                                                                       \
    do {                                                                                       \
        const type swapped = a;                                                                \
        a = b;                                                                                 \
        b = swapped;                                                                           \
    } while (0)

static void swap_training(sw_genome *a, sw_genome *b, unsigned what)
{
    if ((what & OPTIMIZER) != 0) {
        char name[sizeof a->optimizer];
        memcpy(name, a->optimizer, sizeof name);
        memcpy(a->optimizer, b->optimizer, sizeof name);
        memcpy(b->optimizer, name, sizeof name);
        SWAP(float, a->momentum, b->momentum);
        SWAP(float, a->weight_decay, b->weight_decay);
        SWAP(float, a->clip, b->clip);
        SWAP(float, a->clip_norm, b->clip_norm);
        SWAP(sw_update_time, a->update, b->update);
    }
    if ((what & RATE) != 0)
        SWAP(float, a->lr, b->lr);
    if ((what & BATCH) != 0)
        SWAP(int64_t, a->batch, b->batch);
}

/* Vertices that say when they are updated may not go with the other's clip_norm: then each
 * keeps its own. */
static void cross_training(crossing *x, sw_genome *children[2])
{
    const double p[] = {x->opts.optimizer, x->opts.rate, x->opts.batch};
    for (int i = 0; i < 3; i++) {
        if (!swi_draw_happens(&x->draws, p[i]))
            continue;
        swap_training(children[0], children[1], 1u << i);
        if (swi_genome_check(children[0], NULL) != SW_OK ||
            swi_genome_check(children[1], NULL) != SW_OK)
            swap_training(children[0], children[1], 1u << i);
    }
}

/* ---- the call ---------------------------------------------------------------------------- */

static sw_status cross(crossing *x, sw_genome *children[2])
{
    for (int which = 0; which < 2; which++) {
        SW_TRY(sw_genome_copy(&x->lineage[which], x->of[which]));
        SW_TRY(swi_genome_begin_lineage(x->lineage[which]));
    }
    if (swi_draw_happens(&x->draws, x->opts.vertices))
        SW_TRY(cross_vertices(x, children));
    for (int which = 0; which < 2; which++)
        if (children[which] == NULL)
            SW_TRY(begin_child(x, which, &children[which]));
    cross_training(x, children);
    return SW_OK;
}

static sw_status check_share(double p, const char *name, const char *call)
{
    if (!(p >= 0 && p <= 1))
        SW_FAIL(SW_INVALID, "%s: %s must be 0 to 1 (got %g)", call, name, p);
    return SW_OK;
}

static sw_status read_opts(crossing *x, const sw_crossover_opts *given, const char *call)
{
    sw_crossover_opts *o = &x->opts;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_crossover_opts, o, given, call));
    SW_TRY(check_share(o->vertices, "vertices", call));
    SW_TRY(check_share(o->optimizer, "optimizer", call));
    SW_TRY(check_share(o->rate, "rate", call));
    SW_TRY(check_share(o->batch, "batch", call));
    SW_TRY(check_share(o->deviation, "deviation", call));
    SW_TRY(swi_utility_check(x->of[0], o->utilities_a, o->n_utilities_a, call));
    SW_TRY(swi_utility_check(x->of[1], o->utilities_b, o->n_utilities_b, call));
    if (o->vertices == 0 && o->optimizer == 0 && o->rate == 0 && o->batch == 0) {
        o->vertices = 0.5;
        o->optimizer = o->rate = o->batch = 0.25;
    }
    o->deviation = o->deviation != 0 ? o->deviation : DEVIATION;
    x->utility[0] = (swi_parent_utility){o->utilities_a, o->n_utilities_a};
    x->utility[1] = (swi_parent_utility){o->utilities_b, o->n_utilities_b};
    return SW_OK;
}

static sw_status check_task(const sw_genome *a, const sw_genome *b, const char *call)
{
    const swi_vertex *x = &a->vertices[0], *y = &b->vertices[0];
    const int64_t m = a->vertices[a->n - 1].channels, n = b->vertices[b->n - 1].channels;
    if (x->channels != y->channels || !same_place(x, y) || m != n)
        SW_FAIL(SW_INVALID,
                "%s: both genomes must be of one task (got %lld x %lld x %lld to %lld "
                "classes, and %lld x %lld x %lld to %lld)",
                call, (long long)x->channels, (long long)x->height, (long long)x->width,
                (long long)m, (long long)y->channels, (long long)y->height, (long long)y->width,
                (long long)n);
    return SW_OK;
}

static void give(sw_genome **out, sw_genome *child, sw_status status)
{
    if (status == SW_OK && out != NULL)
        *out = child;
    else
        swi_genome_free(child);
}

sw_status sw_genome_crossover(sw_genome **out_a, sw_genome **out_b, const sw_genome *a,
                              const sw_genome *b, const sw_crossover_opts *given)
{
    static const char call[] = "sw_genome_crossover";
    sw_genome *children[2] = {NULL, NULL};
    crossing x = {.of = {a, b}};
    SW_TRY(sw_handle_check(a, SW_HANDLE_GENOME, call));
    SW_TRY(sw_handle_check(b, SW_HANDLE_GENOME, call));
    if (out_a == NULL && out_b == NULL)
        SW_FAIL(SW_INVALID, "%s: out_a and out_b must not both be NULL", call);
    SW_TRY(read_opts(&x, given, call));
    SW_TRY(check_task(a, b, call));
    x.draws = swi_draws_of(x.opts.seed, STREAM);
    const sw_status status = cross(&x, children);
    for (int which = 0; which < 2; which++) {
        swi_genome_free(x.lineage[which]);
        swi_segments_end(&x.segments[which]);
    }
    give(out_a, children[0], status);
    give(out_b, children[1], status);
    return status;
}
