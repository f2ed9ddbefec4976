/* Names and figures of a plan: what each phase peaks at, who holds it. */
#include "alloc/base/message.h"
#include "alloc/base/size.h"
#include "runtime/base/op_traits.h"
#include "runtime/base/structs.h"
#include "runtime/model/model.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/tile.h"
#include "runtime/plan/program.h"
#include "runtime/plan/program_internal.h"
#include <stdio.h>
#include <string.h>

/* Is its first result a gradient, as far as the plan knows? */
static bool makes_gradient(const swi_trace *t, const swi_node *node)
{
    if (node->n_out == 0)
        return false;
    const uint32_t out = t->operands[node->first + node->n_in];
    return t->storages[t->values[out].storage].role == SWI_ROLE_GRADIENT;
}

const char *swi_node_name(const swi_trace *t, const swi_node *node, char *to, size_t bytes)
{
    const char *layer = swi_string(t, node->layer);
    char words[SWI_WORDS_BYTES];
    snprintf(to, bytes, "%s%s%s%s%s", layer, layer[0] != '\0' ? " " : "",
             swi_op_words(node->op, makes_gradient(t, node), words),
             node->grad >= 0 ? " backward" : "",
             node->again == SWI_AGAIN_BUDGET    ? " (recomputed, budget)"
             : node->again == SWI_AGAIN_REBUILT ? " (recomputed)"
                                                : "");
    return to;
}

sw_status swi_node_failed(const swi_trace *t, const swi_node *node, sw_status status)
{
    char name[128];
    const char *op = swi_op(node->op)->name, *why = sw_last_error();
    if (strncmp(why, op, strlen(op)) == 0 && strncmp(why + strlen(op), ": ", 2) == 0)
        why += strlen(op) + 2;
    SW_FAIL(status, "%s: %s", swi_node_name(t, node, name, sizeof name), why);
}

/* The largest that live at one time: tensors of the step, inputs, entries of the models. */
typedef struct {
    char name[96];
    swi_role role;
    size_t bytes;
} holder;
#define HOLDERS 3

static void keep_largest(holder *held, swi_role role, size_t bytes, const char *name)
{
    int at = HOLDERS;
    while (at > 0 && bytes > held[at - 1].bytes)
        at--;
    if (at == HOLDERS)
        return;
    memmove(&held[at + 1], &held[at], (size_t)(HOLDERS - 1 - at) * sizeof *held);
    held[at] = (holder){.role = role, .bytes = bytes};
    snprintf(held[at].name, sizeof held[at].name, "%s", name);
}

void swi_program_name_holders(swi_program *p, const sw_run_args *args)
{
    const swi_trace *t = &p->trace;
    const uint32_t at = p->peak_op;
    holder held[HOLDERS] = {0};
    char name[96], shown[SWI_SHOWN_BYTES];
    for (uint32_t s = 0; s < t->n_storages; s++) {
        const swi_storage *x = &t->storages[s];
        const bool input = x->segment >= SWI_SEG_INPUT && x->segment < SWI_SEG_MODEL;
        if (x->rounded > held[HOLDERS - 1].bytes &&
            (input || (swi_takes_part(t, s) && x->birth <= at && x->death >= at)))
            keep_largest(held, x->role, x->rounded, swi_storage_name(t, s, name, sizeof name));
    }
    for (int m = 0; m < args->n_models; m++)
        for (uint32_t e = 1; e < args->models[m]->n_entries; e++) {
            const swi_entry *entry = &args->models[m]->entries[e];
            keep_largest(held, entry->role, sw_size_round(entry->bytes),
                         swi_entry_shown(args, args->models[m], entry->name, shown));
        }
    char *to = p->info.holders;
    size_t capacity = sizeof p->info.holders;
    to[0] = '\0';
    for (int k = 0; k < HOLDERS && held[k].bytes > 0; k++) {
        const int n = sw_message(to, capacity, "%s%s (%s) %zu bytes", k > 0 ? ", " : "",
                                 held[k].name, swi_role_name(held[k].role), held[k].bytes);
        if (n < 0 || (size_t)n >= capacity) {
            to[0] = '\0'; /* no half a name */
            return;
        }
        to += n;
        capacity -= (size_t)n;
    }
}

const char *swi_storage_name(const swi_trace *t, uint32_t storage, char *to, size_t bytes)
{
    return swi_made_name(t, storage, NULL, to, bytes);
}

const char *swi_made_name(const swi_trace *t, uint32_t storage, const swi_node *maker, char *to,
                          size_t bytes)
{
    const swi_storage *s = &t->storages[storage];
    if (s->name != 0) {
        snprintf(to, bytes, "%s%s", swi_string(t, s->name),
                 s->segment == SWI_SEG_STEP && s->role == SWI_ROLE_GRADIENT ? ".grad" : "");
        return to;
    }
    const char *layer = swi_string(t, s->layer), *what = "value", *kind = ".out";
    const uint32_t first = maker != NULL ? (uint32_t)(maker - t->nodes) : 0;
    for (uint32_t n = first; n < t->n_nodes; n++) {
        const swi_node *node = &t->nodes[n];
        bool made = node->scratch == storage;
        if (made)
            kind = ".scratch";
        for (uint32_t i = 0; i < node->n_out && !made && !node->is_view; i++)
            made = swi_operand(t, node, node->n_in + i)->storage == storage;
        if (made) {
            what = swi_op_word(node->op);
            if (node->grad >= 0)
                kind = kind[1] == 's' ? ".backward.scratch" : ".grad";
            break;
        }
    }
    snprintf(to, bytes, "%s%s%s%s", layer, layer[0] != '\0' ? "/" : "", what, kind);
    return to;
}

void swi_program_measure(swi_program *p)
{
    swi_trace *t = &p->trace;
    sw_plan_info *info = &p->info;
    const size_t base = p->model_bytes + p->slot_bytes;
    memset(info->phase, 0, sizeof info->phase);
    /* The batch and the model are there before the first op. */
    info->phase[SW_DATA].peak_bytes = info->phase[SW_DATA].end_bytes = base;
    size_t live = 0, peak = 0;
    info->peak_bytes = 0;
    p->peak_op = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_run_op *op = &p->ops[i];
        for (uint32_t k = 0; k < op->n_births; k++)
            live += t->storages[p->births[op->births + k]].rounded;
        sw_phase_info *phase = &info->phase[op->phase];
        if (base + live > phase->peak_bytes)
            phase->peak_bytes = base + live;
        if (live > peak || i == 0) {
            peak = live;
            p->peak_op = i;
        }
        for (uint32_t k = 0; k < op->n_deaths; k++)
            live -= t->storages[p->deaths[op->deaths + k]].rounded;
        phase->end_bytes = base + live;
    }
    info->peak_bytes = base + peak;
    info->padding_bytes = 0;
    for (uint32_t s = 0; s < t->n_storages; s++) {
        const swi_storage *x = &t->storages[s];
        if (swi_takes_part(t, s) && x->birth <= p->peak_op && x->death >= p->peak_op)
            info->padding_bytes += x->rounded - x->bytes;
    }
    if (p->n_ops > 0)
        swi_node_name(t, &t->nodes[p->ops[p->peak_op].node], info->peak_op,
                      sizeof info->peak_op);
}

void swi_plan_info(const swi_program *p, size_t data_bytes, sw_plan_info *out)
{
    sw_plan_info info = p->info;
    info.model_bytes = p->model_bytes;
    info.slot_bytes = p->slot_bytes;
    info.program_host_bytes = swi_program_host_bytes(p);
    info.data_bytes = data_bytes != 0 ? data_bytes : p->slot_bytes;
    info.total_bytes = info.model_bytes + info.arena_bytes + info.data_bytes;
    swi_struct_write(SWI_STRUCT_sw_plan_info, out, &info);
}

/* ---- op cost ----------------------------------------------------------------------------- */

/* The cost of a node: counted operations, bytes, and an estimate of its time from both.
 *
 * A kernel takes time for its arithmetic and for its bytes; the estimate is the sum of both and
 * of a launch. How fast arithmetic goes depends on the kind of kernel. The rates are constants,
 * measured once: a plan must be the same on every machine and whatever else that runs, and the
 * choice of what to compute twice asks for ratios, not for seconds. */

static bool adds(const swi_node *node, uint32_t out)
{
    return out < 32 && (node->accumulate >> out & 1u) != 0;
}

uint64_t swi_node_operations(const swi_trace *trace, const swi_node *node)
{
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    const sw_op_desc *desc = swi_op(node->op);
    if (node->is_view)
        return 0;
    swi_kernel_info(trace, node, types, &info);
    uint64_t (*count)(const sw_kernel_info *) =
        node->grad >= 0 ? desc->grads[node->grad].operations : desc->operations;
    uint64_t sum = count != NULL ? count(&info) : 0;
    for (uint32_t i = 0; i < node->n_out; i++) {
        const uint64_t each = (count == NULL && !swi_is_null(node, i)) + adds(node, i);
        sum = swi_count_add(sum, swi_count_per_element(&info.out[i], each));
    }
    return sum;
}

uint64_t swi_node_bytes(const swi_trace *trace, const swi_node *node)
{
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    uint64_t sum = 0;
    swi_kernel_info(trace, node, types, &info);
    for (uint32_t i = 0; i < node->n_in + node->n_out && !node->is_view; i++) {
        if (i >= node->n_in && swi_is_null(node, i - node->n_in))
            continue;
        const bool one = i < node->n_in && swi_reads_one_element(node->op, &info, (int)i);
        const uint64_t bytes = one ? sw_dtype_bytes(types[i].dtype) : sw_type_bytes(&types[i]);
        const bool twice = i >= node->n_in && adds(node, i - node->n_in);
        sum = swi_count_add(sum, twice ? swi_count_mul(bytes, 2) : bytes);
    }
    return sum;
}

/* ---- time -------------------------------------------------------------------------------- */

/* Units (sixteenths of a nanosecond) for `n` operations. Measured on one core of a Xeon of 2023
 * with AVX-512, smallest of many runs; `stepwell bench speed --ops` has both. An op in cache
 * and one from memory differ by a factor of two or more. */
typedef struct {
    uint64_t units, n;
} rate;

static const rate matrix = {1, 12}; /* packed products, convolutions: 192 per ns */
static const rate vector = {1, 5};  /* element by element in full vectors: 80 per ns */
static const rate rows = {2, 1};    /* maxima and sums along rows, Philox: 8 per ns */
static const rate plain = {3, 1};   /* loops as compilers make them, float64: 5.3 per ns */
static const rate serial = {32, 1}; /* each waits for the one before: 0.5 per ns */

#define UNITS_PER_LAUNCH 1024u /* 64 ns */

/* Small data are still in the cache: the first MiB goes at 128 bytes per ns. The rest, and all
 * that is laid anew, goes at 48. */
#define NEAR_BYTES ((uint64_t)1 << 20)
#define NEAR_BYTES_PER_UNIT 8u
#define FAR_BYTES_PER_UNIT 3u

static uint64_t units_moved(uint64_t bytes, uint64_t most_near)
{
    const uint64_t near = bytes < most_near ? bytes : most_near;
    return near / NEAR_BYTES_PER_UNIT + (bytes - near) / FAR_BYTES_PER_UNIT;
}

static uint64_t units_of_bytes(const swi_trace *trace, const swi_node *node)
{
    const bool laid_anew = swi_op_traits_of(node->op)->work == SWI_WORK_LAID;
    return units_moved(swi_node_bytes(trace, node), laid_anew ? 0 : NEAR_BYTES);
}

/* An op that goes through its rows in parts reads its weights and lays them for a product twice
 * in each, and reads and writes their gradient: as long as moving them seven times, by measured
 * times of parts of 32 to 512 rows. */
#define MOVES_PER_PART 7u

static uint64_t units_of_parts(const swi_trace *trace, const swi_node *node)
{
    int64_t part;
    if (swi_op_traits_of(node->op)->duty != SWI_DUTY_PARTS || node->grad >= 0)
        return 0;
    memcpy(&part, swi_node_attrs(trace, node), sizeof part);
    const int64_t all = swi_operand(trace, node, 0)->type.shape.dim[0];
    if (part <= 0 || part >= all)
        return 0;
    const uint64_t more = (uint64_t)((all - 1) / part);
    const uint64_t weights = sw_type_bytes(&swi_operand(trace, node, 1)->type);
    return swi_count_mul(more, units_moved(swi_count_mul(weights, MOVES_PER_PART), NEAR_BYTES) +
                                   UNITS_PER_LAUNCH);
}

static const rate *rate_of(const swi_trace *trace, const swi_node *node)
{
    switch (swi_op_traits_of(node->op)->work) {
    case SWI_WORK_MATRIX:
        return node->n_in > 1 ? &matrix : &vector;
    case SWI_WORK_IMAGES:
        return node->n_in > 1 ? &matrix : &plain;
    case SWI_WORK_ROWS:
        return node->grad < 0 ? &rows : &vector;
    case SWI_WORK_LOOPS:
        return &plain;
    case SWI_WORK_LOSS:
        return node->grad < 0 ? &plain : &vector;
    case SWI_WORK_BROADCAST:
        return swi_same_shape(&swi_operand(trace, node, 0)->type.shape,
                              &swi_operand(trace, node, 1)->type.shape)
                   ? &vector
                   : &plain;
    case SWI_WORK_SERIAL:
        return &serial;
    case SWI_WORK_VECTOR:
    case SWI_WORK_LAID:
    case SWI_WORK_TILES: /* units_of_arithmetic */
    case SWI_WORK_STRIPS:
        break;
    }
    return &vector;
}

static uint64_t units_at(uint64_t operations, const rate *r)
{
    return swi_count_mul(operations, r->units) / r->n;
}

/* An op that makes a gradient in tiles is a product; updates by it, and functions in strips, go
 * element by element. */
static uint64_t units_of_arithmetic(const swi_trace *trace, const swi_node *node)
{
    const swi_op_work work = swi_op_traits_of(node->op)->work;
    if (work != SWI_WORK_TILES && work != SWI_WORK_STRIPS)
        return units_at(swi_node_operations(trace, node), rate_of(trace, node));
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    uint64_t make, update;
    swi_kernel_info(trace, node, types, &info);
    (work == SWI_WORK_TILES ? swi_tile_operations : swi_strips_operations)(&info, &make,
                                                                           &update);
    return swi_count_add(units_at(make, &matrix), units_at(update, &vector));
}

uint64_t swi_node_cost(const swi_trace *trace, const swi_node *node)
{
    if (node->is_view)
        return 1;
    const uint64_t arithmetic = units_of_arithmetic(trace, node);
    const uint64_t bytes =
        swi_count_add(units_of_bytes(trace, node), units_of_parts(trace, node));
    const uint64_t sum = swi_count_add(swi_count_add(arithmetic, bytes), UNITS_PER_LAUNCH);
    return sum < SWI_COST_MOST ? sum : SWI_COST_MOST;
}

uint64_t swi_program_sent(const swi_program *p, int ranks)
{
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->n_ops && ranks > 1; i++) {
        const swi_node *node = swi_node_of(p, i);
        swi_kernel_info(&p->trace, node, types, &info);
        bytes += node->grad < 0 ? swi_op_sends(node->op, &info, ranks) : 0;
    }
    return bytes;
}
