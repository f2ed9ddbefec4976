/* An evolution as callers see it: members, the best, nets of them, bytes. */
#include "alloc/base/mem.h"
#include "runtime/model/model_bytes.h"
#include "runtime/population/member_pool.h"
#include "runtime/population/evolve/evolution.h"
#include <string.h>

uint32_t sw_evolution_count(const sw_evolution *e)
{
    return sw_handle_look(e, SW_HANDLE_EVOLUTION, "sw_evolution_count") == SW_OK
               ? e->opts.population
               : 0;
}

static sw_status check_out(const sw_evolution *e, const sw_candidate *out, const char *call)
{
    SW_TRY(sw_handle_check(e, SW_HANDLE_EVOLUTION, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    return swi_struct_check(SWI_STRUCT_sw_candidate, out->size, call);
}

static sw_status check_position(const sw_evolution *e, uint32_t i, const char *call)
{
    if (i == UINT32_MAX && !e->has_best)
        SW_FAIL(SW_INVALID, "%s: no member was evaluated yet, or none is valid", call);
    if (i != UINT32_MAX && i >= e->opts.population)
        SW_FAIL(SW_INVALID, "%s: the position must be below %u (got %u)", call,
                e->opts.population, i);
    return SW_OK;
}

sw_status sw_evolution_member(sw_evolution *e, uint32_t i, sw_candidate *out)
{
    static const char call[] = "sw_evolution_member";
    SW_TRY(check_out(e, out, call));
    if (i == UINT32_MAX)
        SW_FAIL(SW_INVALID, "%s: the position must be below %u (got %u)", call,
                e->opts.population, i);
    SW_TRY(check_position(e, i, call));
    const sw_candidate view = swi_one_view(&e->members[i]);
    swi_struct_write(SWI_STRUCT_sw_candidate, out, &view);
    return SW_OK;
}

sw_status sw_evolution_best(sw_evolution *e, sw_candidate *out)
{
    static const char call[] = "sw_evolution_best";
    SW_TRY(check_out(e, out, call));
    SW_TRY(check_position(e, UINT32_MAX, call));
    const sw_candidate view = swi_one_view(&e->best);
    swi_struct_write(SWI_STRUCT_sw_candidate, out, &view);
    return SW_OK;
}

/* ---- nets -------------------------------------------------------------------------------- */

static sw_status fill_from(sw_evolution *e, const swi_one *one, sw_net *net, void *scratch)
{
    const bool begun = one->rest.there || one->member.of != NULL;
    const unsigned char *bytes = scratch;
    if (begun)
        SW_TRY(swi_one_bytes(e, one, scratch, &bytes));
    else
        SW_TRY(swi_net_begin(one->net, scratch, swi_member_seed(e, one->id)));
    return swi_net_fill(net, bytes, one->need.member);
}

static sw_status fill(sw_evolution *e, const swi_one *one, sw_net *net)
{
    const size_t n = one->need.member;
    const bool there = one->member.of != NULL || one->rest.block != NULL;
    void *scratch = NULL;
    SW_TRY(sw_model_ready(net->model, e->exec, 0));
    if (!there)
        SW_TRY(swi_charged_take(e, &scratch, n, &e->scratch_bytes));
    const sw_status status = fill_from(e, one, net, scratch);
    swi_charged_give(e, scratch, n, &e->scratch_bytes);
    return status;
}

sw_status sw_net_copy(sw_net **out, sw_evolution *e, uint32_t i)
{
    static const char call[] = "sw_net_copy";
    sw_net *net;
    SW_TRY(sw_handle_check(e, SW_HANDLE_EVOLUTION, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(check_position(e, i, call));
    const swi_one *one = i == UINT32_MAX ? &e->best : &e->members[i];
    SW_TRY(sw_net_create(&net, one->genome, &e->net_opts));
    const sw_status status = fill(e, one, net);
    if (status != SW_OK) {
        swi_genome_net_free(net);
        return status;
    }
    *out = net;
    return SW_OK;
}

/* ---- memory ------------------------------------------------------------------------------ */

sw_status sw_evolution_used(const sw_evolution *e, sw_evolution_memory *out)
{
    static const char call[] = "sw_evolution_used";
    SW_TRY(sw_handle_look(e, SW_HANDLE_EVOLUTION, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_evolution_memory, out->size, call));
    const swi_member_pool *member_pool = e->exec->member_pool;
    const size_t now = swi_evolution_bytes(e);
    sw_evolution_memory used = {.size = out->size,
                                .bytes = now,
                                .peak_bytes = now > e->peak_bytes ? now : e->peak_bytes};
    if (member_pool != NULL) {
        used.lane_bytes = swi_lanes_bytes(member_pool);
        used.member_bytes = sw_arena_height(member_pool->ranges);
    }
    for (uint32_t i = 0; i < e->opts.population; i++) {
        used.resident += e->members[i].member.of != NULL;
        used.resting += e->members[i].member.of == NULL;
    }
    swi_struct_write(SWI_STRUCT_sw_evolution_memory, out, &used);
    return SW_OK;
}

sw_status sw_evolution_rebuild(sw_evolution *e, uint64_t id, sw_net **out)
{
    (void)id;
    SW_TRY(sw_handle_check(e, SW_HANDLE_EVOLUTION, "sw_evolution_rebuild"));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_evolution_rebuild: out must not be NULL");
    SW_FAIL(SW_UNSUPPORTED, "sw_evolution_rebuild: members are not rebuilt; sw_net_copy() "
                            "copies one that is there");
}
