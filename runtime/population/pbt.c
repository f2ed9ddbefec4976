/* Population based training: options, members and their values, who runs next. Decisions are in
 * pbt_turn.c. */
#include "alloc/base/size.h"
#include "runtime/base/owner.h"
#include "runtime/population/pbt_internal.h"
#include <math.h>
#include <string.h>

/* ---- options ----------------------------------------------------------------------------- */

static sw_status positive(double x, const char *what)
{
    if (!(x > 0) || !isfinite(x))
        SW_FAIL(SW_INVALID, "sw_pbt_create: %s must be above 0 and finite (got %g)", what, x);
    return SW_OK;
}

/* Negative: none. */
static sw_status share(double *x, double otherwise, double most, const char *what)
{
    if (isnan(*x) || *x > most)
        SW_FAIL(SW_INVALID, "sw_pbt_create: %s must be at most %g (got %g)", what, most, *x);
    *x = *x == 0 ? otherwise : *x < 0 ? 0 : *x;
    return SW_OK;
}

/* Shares of their own; 0 stays and means the quantile. */
static sw_status check_shares(const sw_pbt_opts *o)
{
    if (!(o->replaced >= 0 && o->replaced <= 1) || !(o->donors >= 0 && o->donors <= 1))
        SW_FAIL(SW_INVALID, "sw_pbt_create: replaced and donors must be 0 to 1 (got %g and %g)",
                o->replaced, o->donors);
    if (o->replaced + o->donors > 1)
        SW_FAIL(SW_INVALID,
                "sw_pbt_create: replaced and donors must be at most 1 together (got %g and %g)",
                o->replaced, o->donors);
    return SW_OK;
}

static sw_status check_factors(sw_pbt_opts *o)
{
    if (o->factors[0] == 0 && o->factors[1] == 0) {
        o->factors[0] = 1.2;
        o->factors[1] = 0.8;
    }
    SW_TRY(positive(o->factors[0], "the first factor"));
    return positive(o->factors[1], "the second factor");
}

static sw_status check_opts(sw_pbt_opts *o)
{
    if (o->members < 1 || o->members > 1000000)
        SW_FAIL(SW_INVALID, "sw_pbt_create: members must be 1 to 1,000,000 (got %d)",
                o->members);
    SW_TRY(sw_handle_check(o->space, SW_HANDLE_SPACE, "sw_pbt_create"));
    if (o->space->n == 0)
        SW_FAIL(SW_INVALID, "sw_pbt_create: the space must have a hyper-parameter");
    SW_TRY(positive(o->interval, "interval"));
    if (!(o->burn_in >= 0) || !isfinite(o->burn_in))
        SW_FAIL(SW_INVALID, "sw_pbt_create: burn_in must be 0 or more and finite (got %g)",
                o->burn_in);
    SW_TRY(share(&o->quantile, 0.25, 0.5, "quantile"));
    SW_TRY(share(&o->resample_probability, 0.25, 1, "resample_probability"));
    SW_TRY(check_shares(o));
    SW_TRY(check_factors(o));
    if (o->explore == SW_PB2)
        SW_FAIL(SW_UNSUPPORTED,
                "sw_pbt_create: SW_PB2 is gone: SW_PERTURB or `custom` explores values");
    if ((unsigned)o->exploit > SW_T_TEST || o->explore != SW_PERTURB)
        SW_FAIL(SW_INVALID, "sw_pbt_create: exploit %d or explore %d is none", (int)o->exploit,
                (int)o->explore);
    if (!(o->stop_time >= 0))
        SW_FAIL(SW_INVALID, "sw_pbt_create: stop_time must be 0 or more (got %g)",
                o->stop_time);
    if (o->has_stop_score && isnan(o->stop_score))
        SW_FAIL(SW_INVALID, "sw_pbt_create: stop_score must be a number");
    return SW_OK;
}

/* ---- making ------------------------------------------------------------------------------ */

/* Bytes of all arrays, and where each begins. Bounded by 1,000,000 members of 1,024 numbers. */
size_t swi_pbt_lay_out(sw_pbt *p, char *base)
{
    size_t at = 0;
    const size_t n = p->n, numbers = n * p->h * sizeof(double);
    const bool synch = p->opts.synch != 0, scores = p->opts.exploit == SW_T_TEST;
#define TAKE(to, bytes)                                                                        \
    do {                                                                                       \
        const size_t from = sw_size_part(&at, (bytes));                                        \
        if (base != NULL)                                                                      \
            p->to = (void *)(base + from);                                                     \
    } while (0)
    TAKE(one, n * sizeof *p->one);
    TAKE(values, numbers);
    TAKE(first, numbers);
    TAKE(scores, scores ? n * SWI_SCORES * sizeof *p->scores : 0);
    TAKE(heap, synch ? 0 : n * sizeof *p->heap);
    TAKE(heap_at, synch ? 0 : n * sizeof *p->heap_at);
    TAKE(rank, n * sizeof *p->rank);
    TAKE(queue, synch ? n * sizeof *p->queue : 0);
    TAKE(fresh, p->h * sizeof *p->fresh);
#undef TAKE
    return at;
}

static sw_status first_values(sw_pbt *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        swi_pbt_one *m = &p->one[i];
        m->seen = m->score = (double)NAN;
        for (uint32_t k = 0; k < p->h; k++)
            SW_TRY(sw_space_draw(p->space, (int)k, p->opts.seed, i, &swi_pbt_values(p, i)[k]));
    }
    return SW_OK;
}

static sw_status make(sw_pbt *p, const sw_pbt_opts *o)
{
    p->opts = *o;
    SW_TRY(swi_space_copy(&p->space, o->space));
    p->opts.space = p->space;
    p->n = (uint32_t)o->members;
    p->h = p->space->n;
    p->block_bytes = swi_pbt_lay_out(p, NULL);
    SW_TRY(sw_heap_alloc(&p->block, SW_HEAP_RECORDS, p->block_bytes));
    (void)swi_pbt_lay_out(p, p->block);
    SW_TRY(first_values(p));
    p->s.n_go_on = p->n;
    p->s.target = p->s.donor = -1;
    if (!o->synch)
        swi_pbt_heap_fill(p);
    return SW_OK;
}

static void end(sw_pbt *p)
{
    swi_pbt_log_end(p);
    sw_heap_free(p->block, SW_HEAP_RECORDS, p->block_bytes);
    swi_space_free(p->space);
    sw_handle_give(p, SW_HANDLE_PBT, sizeof *p);
}

sw_status sw_pbt_create(sw_pbt **out, const sw_pbt_opts *given)
{
    static const char call[] = "sw_pbt_create";
    sw_pbt_opts o;
    void *block;
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_pbt_opts, &o, given, call));
    SW_TRY(check_opts(&o));
    SW_TRY(sw_handle_take(&block, SW_HANDLE_PBT, sizeof(sw_pbt)));
    const sw_status status = make(block, &o);
    if (status != SW_OK)
        end(block);
    else
        *out = block;
    return status;
}

void sw_pbt_destroy(sw_pbt *p)
{
    static const char call[] = "sw_pbt_destroy";
    if (sw_handle_ends(p, SW_HANDLE_PBT, call))
        end(p);
}

/* ---- members ----------------------------------------------------------------------------- */

sw_status swi_pbt_check(const sw_pbt *p, const char *call)
{
    SW_TRY(sw_handle_check(p, SW_HANDLE_PBT, call));
    if (p->busy)
        SW_FAIL(SW_BUSY, "%s: its explore function is being called", call);
    return SW_OK;
}

sw_status swi_pbt_member_check(const sw_pbt *p, int member, const char *call)
{
    SW_TRY(swi_pbt_check(p, call));
    if (member < 0 || (uint32_t)member >= p->n)
        SW_FAIL(SW_INVALID, "%s: member must be 0 to %u (got %d)", call, p->n - 1, member);
    return SW_OK;
}

static sw_status check_hyper(const sw_pbt *p, int member, int hyper, const char *call)
{
    SW_TRY(swi_pbt_member_check(p, member, call));
    if (hyper < 0 || (uint32_t)hyper >= p->h)
        SW_FAIL(SW_INVALID, "%s: the space has %u hyper-parameters (got %d)", call, p->h,
                hyper);
    return SW_OK;
}

sw_status sw_pbt_value(const sw_pbt *p, int member, int hyper, double *out)
{
    static const char call[] = "sw_pbt_value";
    SW_TRY(check_hyper(p, member, hyper, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    *out = swi_pbt_values(p, (uint64_t)member)[hyper];
    return SW_OK;
}

sw_status sw_pbt_value_set(sw_pbt *p, int member, int hyper, double value)
{
    static const char call[] = "sw_pbt_value_set";
    SW_TRY(check_hyper(p, member, hyper, call));
    if (!swi_hyper_has(&p->space->hypers[hyper].is, value))
        SW_FAIL(SW_INVALID, "%s: %.17g is outside of what '%s' may be", call, value,
                p->space->hypers[hyper].is.name);
    swi_pbt_values(p, (uint64_t)member)[hyper] = value;
    return SW_OK;
}

sw_status sw_pbt_describe(const sw_pbt *p, int member, sw_pbt_member *out)
{
    static const char call[] = "sw_pbt_describe";
    SW_TRY(swi_pbt_member_check(p, member, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_pbt_member, out->size, call));
    const swi_pbt_one *m = &p->one[member];
    const sw_pbt_member is =
        SW_OPTS(sw_pbt_member, .time = m->time, .score = swi_pbt_sign(p, m->seen),
                .ended = m->ended || m->leaving, .kept = m->kept, .exploits = m->exploits);
    swi_struct_write(SWI_STRUCT_sw_pbt_member, out, &is);
    return SW_OK;
}
