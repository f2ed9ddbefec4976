/* A member of the run again, from its history: who its ancestors were, and how long each was
 * trained, say the lines; genomes and weights are drawn, trained, crossed and mutated anew,
 * generation by generation. Ancestors rest in files between their generations. */
#include "alloc/base/mem.h"
#include "runtime/base/owner.h"
#include "runtime/population/evolve/evolution_files.h"
#include <string.h>

/* An ancestor, or the member itself. */
typedef struct {
    const swi_line *line; /* of its first generation */
    uint64_t until;       /* generation after which no other line needs it */
    swi_one one;
} ancestor;

typedef struct {
    sw_evolution *e;
    swi_lines lines;
    ancestor *all; /* the youngest first while they are found; then by birth */
    uint32_t n, cap;
    uint64_t now; /* generation */
} rebuild;

/* ---- who is needed ----------------------------------------------------------------------- */

static ancestor *find(rebuild *r, uint64_t id)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->all[i].line->id == id)
            return &r->all[i];
    return NULL;
}

static sw_status add(rebuild *r, uint64_t id, uint64_t until)
{
    void *all = r->all;
    ancestor *known = find(r, id);
    if (known != NULL) {
        known->until = until > known->until ? until : known->until;
        return SW_OK;
    }
    const swi_line *line = swi_lines_birth(&r->lines, id);
    if (line == NULL || line->generation != line->birth.generation)
        SW_FAIL(
            SW_FORMAT,
            "sw_evolution_rebuild: %s/history.jsonl has no line of the birth of member %llu",
            r->e->opts.dir, (unsigned long long)id);
    SW_TRY(sw_heap_reserve(&all, SW_HEAP_RECORDS, &r->cap, r->n + 1, sizeof *r->all));
    r->all = all;
    r->all[r->n] = (ancestor){.line = line, .until = until};
    swi_one_begin(&r->all[r->n++].one);
    return SW_OK;
}

/* Parents are older than their children, so this ends. */
static sw_status find_ancestors(rebuild *r, uint64_t id)
{
    SW_TRY(add(r, id, 0));
    for (uint32_t i = 0; i < r->n; i++) {
        const swi_line *line = r->all[i].line;
        for (int k = 0; k < 2; k++) {
            if (line->parents[k] == 0)
                continue;
            if (line->parents[k] >= line->id || line->generation == 0)
                SW_FAIL(SW_FORMAT,
                        "sw_evolution_rebuild: %s/history.jsonl: member %llu has a parent that "
                        "is not older",
                        r->e->opts.dir, (unsigned long long)line->id);
            SW_TRY(add(r, line->parents[k], line->generation - 1));
        }
    }
    return SW_OK;
}

/* ---- a birth ----------------------------------------------------------------------------- */

static sw_status bytes_of(rebuild *r, uint64_t id, bool fresh, swi_parent *out, void **block)
{
    const ancestor *parent = find(r, id);
    if (id == 0)
        return SW_OK;
    out->one = &parent->one;
    if (fresh)
        return SW_OK;
    const size_t n = parent->one.need.member;
    SW_TRY(swi_charged_take(r->e, block, n, &r->e->scratch_bytes));
    return swi_one_bytes(r->e, &parent->one, *block, &out->bytes);
}

static void give(rebuild *r, uint64_t id, void *block)
{
    if (block != NULL)
        swi_charged_give(r->e, block, find(r, id)->one.need.member, &r->e->scratch_bytes);
}

static sw_status put_to_rest(rebuild *r, swi_one *one, swi_brood *b)
{
    void *to;
    const size_t n = one->need.member;
    SW_TRY(swi_charged_take(r->e, &to, n, &r->e->scratch_bytes));
    sw_status status = b != NULL ? swi_breed_weights(b, to)
                                 : swi_net_begin(one->net, to, swi_member_seed(r->e, one->id));
    if (status == SW_OK)
        status = swi_rest_end(r->e, one, to, r->now);
    swi_charged_give(r->e, to, n, &r->e->scratch_bytes);
    return status;
}

static sw_status make_child(rebuild *r, ancestor *a)
{
    const uint64_t *parents = a->line->parents;
    const bool fresh = a->line->birth.fresh;
    void *blocks[2] = {NULL, NULL};
    swi_brood b = {.e = r->e, .child = &a->one, .again = true};
    sw_status status = bytes_of(r, parents[0], fresh, &b.parent, &blocks[0]);
    if (status == SW_OK)
        status = bytes_of(r, parents[1], fresh, &b.mate, &blocks[1]);
    if (status == SW_OK)
        status = swi_breed_child(&b);
    if (status == SW_OK)
        status = put_to_rest(r, &a->one, &b);
    a->one.steps = fresh ? 0 : b.parent.one->steps;
    swi_brood_end(&b);
    give(r, parents[0], blocks[0]);
    give(r, parents[1], blocks[1]);
    return status;
}

static sw_status make(rebuild *r, ancestor *a)
{
    swi_one *one = &a->one;
    one->id = a->line->id;
    memcpy(one->parents, a->line->parents, sizeof one->parents);
    one->birth = a->line->birth;
    if (one->birth.how == SWI_BORN_CHILD && one->parents[0] == 0)
        SW_FAIL(SW_FORMAT, "sw_evolution_rebuild: member %llu has no parents in the history",
                (unsigned long long)one->id);
    if (one->birth.how == SWI_BORN_FIRST && one->birth.index >= r->e->opts.n_first)
        SW_FAIL(SW_INVALID,
                "sw_evolution_rebuild: member %llu was given as `first`, which has "
                "fewer now",
                (unsigned long long)one->id);
    if (one->birth.how == SWI_BORN_CHILD) {
        SW_TRY(make_child(r, a));
    } else {
        SW_TRY(swi_first_again(r->e, one));
        SW_TRY(put_to_rest(r, one, NULL));
    }
    if (one->genome == NULL || swi_genome_hash(one->genome) != a->line->genome)
        SW_FAIL(SW_FORMAT,
                "sw_evolution_rebuild: member %llu became another genome than the history has: "
                "options, data or the program are not those of the run",
                (unsigned long long)one->id);
    return SW_OK;
}

/* ---- generations ------------------------------------------------------------------------- */

static sw_status train(rebuild *r, ancestor *a)
{
    sw_evolution *e = r->e;
    swi_one *one = &a->one;
    const swi_line *line = swi_lines_find(&r->lines, one->id, r->now);
    if (line == NULL)
        SW_FAIL(SW_FORMAT,
                "sw_evolution_rebuild: %s/history.jsonl has no line of member %llu in "
                "generation %llu",
                e->opts.dir, (unsigned long long)one->id, (unsigned long long)r->now);
    swi_one before = *one;
    SW_TRY(swi_one_load(e, one));
    sw_status status = swi_evolution_train_alone(e, one, r->now, line->made);
    if (status == SW_OK)
        status = swi_one_store(e, one, r->now + 1);
    sw_member_end(one->member);
    one->member = (sw_member){.of = NULL};
    if (status == SW_OK)
        swi_rest_remove(e, &before);
    return status;
}

static void drop(rebuild *r, ancestor *a)
{
    swi_rest_remove(r->e, &a->one);
    swi_one_free(r->e, &a->one);
}

/* Those that are born, those that are not needed any more, and then training. */
static sw_status one_generation(rebuild *r)
{
    for (uint32_t i = r->n; i-- > 0;)
        if (r->all[i].line->generation == r->now)
            SW_TRY(make(r, &r->all[i]));
    if (r->all[0].one.rest.there)
        return SW_OK;
    for (uint32_t i = 1; i < r->n; i++) {
        ancestor *a = &r->all[i];
        if (!a->one.rest.there)
            continue;
        if (a->until < r->now)
            drop(r, a);
        else
            SW_TRY(train(r, a));
    }
    return swi_evolution_trim(r->e);
}

static sw_status take_net(rebuild *r, sw_net **out)
{
    sw_evolution *e = r->e;
    const swi_one *one = &r->all[0].one;
    const size_t n = one->need.member;
    void *bytes;
    sw_net *net;
    SW_TRY(sw_net_create(&net, one->genome, &e->net_opts));
    sw_status status = swi_charged_take(e, &bytes, n, &e->scratch_bytes);
    if (status == SW_OK) {
        status = swi_rest_read(e, one, bytes);
        if (status == SW_OK)
            status = sw_model_ready(net->model, e->exec, 0);
        if (status == SW_OK)
            status = swi_net_fill(net, bytes, n);
        swi_charged_give(e, bytes, n, &e->scratch_bytes);
    }
    if (status != SW_OK) {
        swi_genome_net_free(net);
        return status;
    }
    *out = net;
    return SW_OK;
}

SW_FRAME_OWN static sw_status run(rebuild *r, uint64_t id, sw_net **out)
{
    SW_TRY(swi_lines_read(r->e, &r->lines));
    if (swi_lines_birth(&r->lines, id) == NULL)
        SW_FAIL(SW_INVALID,
                "sw_evolution_rebuild: %s/history.jsonl has no member %llu (one has its first "
                "line when its first generation has ended)",
                r->e->opts.dir, (unsigned long long)id);
    SW_TRY(find_ancestors(r, id));
    SW_TRY(swi_states_open(r->e));
    for (r->now = 0; !r->all[0].one.rest.there; r->now++)
        SW_TRY(one_generation(r));
    return take_net(r, out);
}

sw_status sw_evolution_rebuild(sw_evolution *e, uint64_t id, sw_net **out)
{
    static const char call[] = "sw_evolution_rebuild";
    SW_TRY(sw_handle_check(e, SW_HANDLE_EVOLUTION, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    if (e->opts.dir == NULL)
        SW_FAIL(SW_INVALID, "%s: the run has no dir, so it has no history", call);
    const uint64_t counts[] = {e->steps, e->mutants, e->refused};
    rebuild r = {.e = e};
    const void *const kept[] = {e->exec, e->space};
    sw_call of = {.name = call, .uses = SW_CALL_ONE(e), .keeps = {{kept, 2}}};
    SW_TRY(sw_call_begin(&of, SW_FRAME));
    e->rebuilding = true;
    swi_evolution_use_lanes(e, 1);
    const sw_status status = sw_call_end(&of, run(&r, id, out));
    for (uint32_t i = 0; i < r.n; i++)
        drop(&r, &r.all[i]);
    e->rebuilding = false;
    swi_evolution_use_lanes(e, e->lanes);
    sw_heap_free(r.all, SW_HEAP_RECORDS, r.cap * sizeof *r.all);
    swi_lines_free(&r.lines);
    e->steps = counts[0];
    e->mutants = counts[1];
    e->refused = counts[2];
    return status;
}
