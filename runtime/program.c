/* Programs: what a trace leaves. Order of ops, lifetimes, in-place results, offsets, and the
 * figures of the plan.
 *
 * Positions count the ops that run; views have none. A storage is live from the op that first
 * writes it to the last op that touches it, both included; metrics and outputs to one past the
 * last op, where they are read out. */
#include "alloc/place.h"
#include "alloc/size.h"
#include "alloc/sys.h"
#include "runtime/runtime_internal.h"
#include <stdio.h>
#include <string.h>

#define ROLE_NAME(id, name) name,
static const char *const role_names[] = {SWI_ROLES(ROLE_NAME)};

const char *swi_role_name(swi_role role)
{
    return (unsigned)role < SWI_ROLE_COUNT ? role_names[role] : "?";
}

const char *swi_node_name(const swi_trace *t, const swi_node *node, char *to, size_t bytes)
{
    const char *layer = swi_string(t, node->layer);
    snprintf(to, bytes, "%s%s%s%s", layer, layer[0] != '\0' ? "/" : "", swi_op(node->op)->name,
             node->grad >= 0 ? " backward" : "");
    return to;
}

/* ---- comparing traces -------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * 0x100000001b3ull;
    return hash;
}

/* A finished program is compared with a fresh trace: what passes have changed (the phase of a
 * released update, what an in-place result's root must outlive) is not looked at; names_differ
 * has the latter. */
static bool node_differs(const swi_trace *a, const swi_trace *b, uint32_t n)
{
    const swi_node *x = &a->nodes[n], *y = &b->nodes[n];
    if (x->op != y->op || x->grad != y->grad || x->n_in != y->n_in || x->n_out != y->n_out ||
        x->accumulate != y->accumulate || (x->phase != y->phase && !x->release) ||
        x->stream != y->stream || x->kernel != y->kernel || x->is_update != y->is_update ||
        x->release != y->release ||
        strcmp(swi_string(a, x->layer), swi_string(b, y->layer)) != 0 ||
        (swi_op(x->op)->attrs_bytes > 0 &&
         memcmp(a->attrs + x->attrs, b->attrs + y->attrs, swi_op(x->op)->attrs_bytes) != 0) ||
        memcmp(a->operands + x->first, b->operands + y->first,
               (x->n_in + x->n_out) * sizeof(uint32_t)) != 0)
        return true;
    for (uint32_t i = 0; i < x->n_in + x->n_out; i++) {
        const swi_value *v = &a->values[a->operands[x->first + i]];
        const swi_value *w = &b->values[b->operands[y->first + i]];
        const swi_storage *s = &a->storages[v->storage], *r = &b->storages[w->storage];
        if (v->storage != w->storage || v->offset != w->offset || v->version != w->version ||
            memcmp(&v->type, &w->type, sizeof v->type) != 0 ||
            memcmp(v->stride, w->stride, sizeof v->stride) != 0 || s->bytes != r->bytes ||
            s->segment != r->segment || s->entry != r->entry)
            return true;
    }
    return false;
}

static bool names_differ(const swi_named *a, uint32_t n, const swi_named *b, uint32_t m)
{
    if (n != m)
        return true;
    for (uint32_t i = 0; i < n; i++)
        if (a[i].value != b[i].value || strcmp(a[i].name, b[i].name) != 0)
            return true;
    return false;
}

uint32_t swi_trace_differs(const swi_trace *a, const swi_trace *b)
{
    const uint32_t n = a->n_nodes < b->n_nodes ? a->n_nodes : b->n_nodes;
    for (uint32_t i = 0; i < n; i++)
        if (node_differs(a, b, i))
            return i;
    if (a->n_nodes != b->n_nodes ||
        names_differ(a->metrics, a->n_metrics, b->metrics, b->n_metrics) ||
        names_differ(a->outputs, a->n_outputs, b->outputs, b->n_outputs))
        return n;
    return SWI_NONE;
}

uint64_t swi_trace_hash(const swi_trace *t)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        const swi_node *n = &t->nodes[i];
        const uint32_t words[] = {n->op, (uint32_t)n->grad, n->n_in, n->n_out, n->accumulate};
        hash = mix(hash, words, sizeof words);
        for (uint32_t k = 0; k < n->n_in + n->n_out; k++) {
            const swi_value *v = &t->values[t->operands[n->first + k]];
            hash = mix(hash, v->type.shape.dim, (size_t)v->type.shape.rank * sizeof(int64_t));
        }
    }
    return hash;
}

/* ---- order ------------------------------------------------------------------------------- */

/* Order of the nodes that run, views left out. */
static uint32_t plain_order(const swi_trace *t, uint32_t *order)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_nodes; i++)
        if (!t->nodes[i].is_view)
            order[n++] = i;
    return n;
}

static uint64_t latest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Stable insertion by key; released nodes are few and move little more than their own number.
 */
static void sort_by_key(uint32_t *order, uint64_t *key, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        const uint32_t node = order[i];
        const uint64_t k = key[i];
        uint32_t j = i;
        for (; j > 0 && key[j - 1] > k; j--) {
            order[j] = order[j - 1];
            key[j] = key[j - 1];
        }
        order[j] = node;
        key[j] = k;
    }
}

/* The release pass: an update moves up to right behind the last op that it depends on: what it
 * reads must be written, and what it overwrites must have been read by all who need the old
 * version. Only inside the backward part. Keys are (position, sequence), so that moved ops keep
 * their order. */
static void release(swi_trace *t, uint32_t *order, uint32_t n, uint64_t *scratch)
{
    uint64_t *key = scratch, *read = scratch + n, *written = read + t->n_storages;
    memset(read, 0, 2 * (size_t)t->n_storages * sizeof *read);
    uint64_t backward = 0;
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        swi_node *node = &t->nodes[order[i]];
        const uint32_t *in = t->operands + node->first, *out = in + node->n_in;
        key[i] = (uint64_t)(i + 1) << 32;
        if (node->is_backward && backward == 0)
            backward = key[i];
        if (node->release && backward != 0) {
            uint64_t k = backward;
            for (uint32_t j = 0; j < node->n_in; j++)
                k = latest(k, written[t->values[in[j]].storage]);
            for (uint32_t j = 0; j < node->n_out; j++) {
                const uint32_t s = t->values[out[j]].storage;
                k = latest(k, latest(read[s], written[s]));
            }
            key[i] = k + 1;
            node->phase = SW_BACKWARD;
            any = true;
        }
        for (uint32_t j = 0; j < node->n_in; j++) {
            uint64_t *r = &read[t->values[in[j]].storage];
            *r = latest(*r, key[i]);
        }
        for (uint32_t j = 0; j < node->n_out; j++) {
            uint64_t *w = &written[t->values[out[j]].storage];
            *w = latest(*w, key[i]);
        }
    }
    if (any)
        sort_by_key(order, key, n);
}

/* ---- lifetimes and in-place results ------------------------------------------------------ */

static void touch(swi_trace *t, uint32_t storage, uint32_t at)
{
    swi_storage *s = &t->storages[storage];
    if (s->birth == SWI_NONE)
        s->birth = at;
    s->death = at;
}

static bool is_read(const bool *read, uint32_t value)
{
    return read[value];
}

/* First writes and last touches; an extra that nobody reads gets no bytes. */
static void lifetimes(swi_trace *t, const uint32_t *order, uint32_t n, bool *read)
{
    memset(read, 0, t->n_values);
    for (uint32_t i = 0; i < n; i++) {
        const swi_node *node = &t->nodes[order[i]];
        for (uint32_t j = 0; j < node->n_in; j++)
            read[t->operands[node->first + j]] = true;
    }
    for (uint32_t i = 0; i < n; i++) {
        const swi_node *node = &t->nodes[order[i]];
        const uint32_t *operands = t->operands + node->first;
        const sw_op_desc *desc = swi_op(node->op);
        for (uint32_t j = 0; j < node->n_in; j++) {
            touch(t, t->values[operands[j]].storage, i);
            swi_storage *s = &t->storages[t->values[operands[j]].storage];
            if (node->is_backward && s->role == SWI_ROLE_ACTIVATION)
                s->role = SWI_ROLE_SAVED;
        }
        for (uint32_t j = 0; j < node->n_out; j++) {
            const bool extra = node->grad < 0 && (int)j >= desc->n_out;
            if (!extra || is_read(read, operands[node->n_in + j]))
                touch(t, t->values[operands[node->n_in + j]].storage, i);
        }
        if (node->scratch != SWI_NONE)
            touch(t, node->scratch, i);
    }
    for (uint32_t i = 0; i < t->n_storages; i++)
        if (t->storages[i].pinned && t->storages[i].birth != SWI_NONE)
            t->storages[i].death = n;
}

static uint32_t root_of(const swi_trace *t, uint32_t s)
{
    while (t->storages[s].alias != s)
        s = t->storages[s].alias;
    return s;
}

/* May output 0 of this node take the bytes of its operand k? Its storage must die here, hold
 * nothing but this operand, and no other operand may look at it in another way. */
static bool may_take(const swi_trace *t, const swi_node *node, uint32_t k, uint32_t at)
{
    const uint32_t *operands = t->operands + node->first;
    const swi_value *in = &t->values[operands[k]], *out = &t->values[operands[node->n_in]];
    const swi_storage *from = &t->storages[root_of(t, in->storage)];
    const swi_storage *to = &t->storages[out->storage];
    if (from->segment != SWI_SEG_STEP || from->pinned || from->death != at ||
        from->birth == at || to->birth != at || to->segment != SWI_SEG_STEP ||
        !in->contiguous || in->offset != 0 || from->bytes != to->bytes ||
        sw_type_bytes(&in->type) != from->bytes || in->type.layout != out->type.layout)
        return false;
    for (uint32_t j = 0; j < node->n_in; j++) {
        const swi_value *other = &t->values[operands[j]];
        if (j != k && root_of(t, other->storage) == root_of(t, in->storage) &&
            (other->offset != 0 || !other->contiguous ||
             sw_type_bytes(&other->type) != from->bytes))
            return false;
    }
    return true;
}

void swi_pass_inplace(swi_trace *t, const uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const swi_node *node = &t->nodes[order[i]];
        const sw_op_desc *desc = swi_op(node->op);
        const uint32_t mask = node->grad < 0 ? desc->inplace : desc->grads[node->grad].inplace;
        if (mask == 0 || node->n_out == 0 || (node->accumulate & 1u) != 0)
            continue;
        const uint32_t out = t->values[t->operands[node->first + node->n_in]].storage;
        for (uint32_t k = 0; k < node->n_in && k < 32; k++) {
            if ((mask >> k & 1u) == 0 || !may_take(t, node, k, i))
                continue;
            swi_storage *root =
                &t->storages[root_of(t, t->values[t->operands[node->first + k]].storage)];
            swi_storage *taken = &t->storages[out];
            taken->alias = root_of(t, t->values[t->operands[node->first + k]].storage);
            root->death = taken->death;
            root->pinned |= taken->pinned;
            if (root->role == SWI_ROLE_ACTIVATION)
                root->role = taken->role;
            break;
        }
    }
}

/* ---- placement --------------------------------------------------------------------------- */

static bool takes_part(const swi_trace *t, uint32_t s)
{
    return t->storages[s].segment == SWI_SEG_STEP && t->storages[s].alias == s &&
           t->storages[s].birth != SWI_NONE && t->storages[s].rounded > 0;
}

static sw_status place(swi_program *p)
{
    swi_trace *t = &p->trace;
    void *block;
    const size_t bytes = (size_t)t->n_storages * sizeof(sw_place_item);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    sw_place_item *items = block;
    size_t n = 0;
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (takes_part(t, s))
            items[n++] = (sw_place_item){.lower = t->storages[s].birth,
                                         .upper = t->storages[s].death + 1,
                                         .bytes = t->storages[s].rounded};
    sw_place_result result = {0};
    sw_status status = n > 0 ? sw_place_solve(items, n, &result) : SW_OK;
    n = 0;
    for (uint32_t s = 0; status == SW_OK && s < t->n_storages; s++)
        if (takes_part(t, s))
            t->storages[s].offset = items[n++].offset;
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    p->height = result.height;
    p->info.arena_bytes = result.height;
    p->info.lower_bound_bytes = result.lower_bound;
    return status;
}

/* Storages that took another's place share its offset. */
static void follow_aliases(swi_trace *t)
{
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (t->storages[s].alias != s)
            t->storages[s].offset = t->storages[root_of(t, s)].offset;
}

/* ---- figures ----------------------------------------------------------------------------- */

static void name_holders(swi_program *p, uint32_t at)
{
    const swi_trace *t = &p->trace;
    size_t below = SIZE_MAX;
    uint32_t last = SWI_NONE;
    size_t used = 0;
    for (int k = 0; k < 3; k++) {
        uint32_t best = SWI_NONE;
        for (uint32_t s = 0; s < t->n_storages; s++) {
            const swi_storage *x = &t->storages[s];
            if (!takes_part(t, s) || x->birth > at || x->death < at || x->rounded > below ||
                (x->rounded == below && s <= last && last != SWI_NONE))
                continue;
            if (best == SWI_NONE || x->rounded > t->storages[best].rounded)
                best = s;
        }
        if (best == SWI_NONE)
            return;
        const swi_storage *x = &t->storages[best];
        char name[96];
        const int n = snprintf(p->info.holders + used, sizeof p->info.holders - used,
                               "%s%s (%s) %zu bytes", k > 0 ? ", " : "",
                               swi_storage_name(t, best, name, sizeof name),
                               swi_role_name(x->role), x->rounded);
        if (n < 0 || (size_t)n >= sizeof p->info.holders - used)
            return;
        used += (size_t)n;
        below = x->rounded;
        last = best;
    }
}

const char *swi_storage_name(const swi_trace *t, uint32_t storage, char *to, size_t bytes)
{
    const swi_storage *s = &t->storages[storage];
    if (s->name != 0) {
        snprintf(to, bytes, "%s%s", swi_string(t, s->name),
                 s->segment == SWI_SEG_STEP && s->role == SWI_ROLE_GRADIENT ? ".grad" : "");
        return to;
    }
    const char *layer = swi_string(t, s->layer), *what = "value", *kind = ".out";
    for (uint32_t n = 0; n < t->n_nodes; n++) {
        const swi_node *node = &t->nodes[n];
        bool made = node->scratch == storage;
        if (made)
            kind = ".scratch";
        for (uint32_t i = 0; i < node->n_out && !made && !node->is_view; i++)
            made = t->values[t->operands[node->first + node->n_in + i]].storage == storage;
        if (made) {
            what = swi_op(node->op)->name;
            if (node->grad >= 0)
                kind = kind[1] == 's' ? ".backward.scratch" : ".grad";
            break;
        }
    }
    snprintf(to, bytes, "%s%s%s%s", layer, layer[0] != '\0' ? "/" : "", what, kind);
    return to;
}

sw_status swi_program_measure(swi_program *p)
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
        if (takes_part(t, s) && x->birth <= p->peak_op && x->death >= p->peak_op)
            info->padding_bytes += x->rounded - x->bytes;
    }
    if (p->n_ops > 0)
        swi_node_name(t, &t->nodes[p->ops[p->peak_op].node], info->peak_op,
                      sizeof info->peak_op);
    info->holders[0] = '\0';
    name_holders(p, p->peak_op);
    return SW_OK;
}

void swi_plan_info(const swi_program *p, size_t data_bytes, sw_plan_info *out)
{
    sw_plan_info info = p->info;
    const size_t size = out->size;
    info.size = size;
    info.model_bytes = p->model_bytes;
    info.slot_bytes = p->slot_bytes;
    info.data_bytes = data_bytes != 0 ? data_bytes : p->slot_bytes;
    info.total_bytes = info.model_bytes + info.arena_bytes + info.data_bytes;
    memcpy(out, &info, size < sizeof info ? size : sizeof info);
}

/* ---- building ---------------------------------------------------------------------------- */

static sw_status copy_array(void **to, const void *from, uint32_t n, size_t element)
{
    *to = NULL;
    SW_TRY(sw_heap_alloc(to, SW_HEAP_PROGRAMS, n * element));
    if (n > 0)
        memcpy(*to, from, n * element);
    return SW_OK;
}

#define COPY(field)                                                                            \
    do {                                                                                       \
        void *block;                                                                           \
        SW_TRY(copy_array(&block, from->field, from->n_##field, sizeof *from->field));         \
        to->field = block;                                                                     \
        to->n_##field = to->cap_##field = from->n_##field;                                     \
    } while (0)

/* Exactly as large as it is; `to` is empty before. A part that was copied is freed by the
 * caller. */
static sw_status copy_trace(swi_trace *to, const swi_trace *from)
{
    COPY(nodes);
    COPY(operands);
    COPY(values);
    COPY(storages);
    COPY(attrs);
    COPY(strings);
    COPY(metrics);
    COPY(outputs);
    return SW_OK;
}

static sw_status heap_array(void **out, swi_program *p, int slot, size_t bytes)
{
    SW_TRY(sw_heap_alloc(out, SW_HEAP_PROGRAMS, bytes));
    p->heap_bytes[slot] = bytes;
    return SW_OK;
}

/* Slots of heap_bytes. */
enum { H_OPS, H_BUFFERS, H_BINDS, H_BIRTHS, H_DEATHS, H_LAUNCHES, H_METRICS };

static sw_status take_arrays(swi_program *p, uint32_t n_ops)
{
    const swi_trace *t = &p->trace;
    void *b;
    p->n_ops = n_ops;
    p->n_buffers = t->n_operands;
    p->n_binds = t->n_operands + n_ops;
    SW_TRY(heap_array(&b, p, H_OPS, n_ops * sizeof *p->ops));
    p->ops = b;
    SW_TRY(heap_array(&b, p, H_BUFFERS, p->n_buffers * sizeof *p->buffers));
    p->buffers = b;
    SW_TRY(heap_array(&b, p, H_BINDS, p->n_binds * sizeof *p->binds));
    p->binds = b;
    SW_TRY(heap_array(&b, p, H_BIRTHS, t->n_storages * sizeof *p->births));
    p->births = b;
    SW_TRY(heap_array(&b, p, H_DEATHS, t->n_storages * sizeof *p->deaths));
    p->deaths = b;
    SW_TRY(heap_array(&b, p, H_LAUNCHES, n_ops * sizeof *p->launches));
    p->launches = b;
    SW_TRY(heap_array(&b, p, H_METRICS, t->n_metrics * sizeof *p->metrics));
    p->metrics = b;
    return SW_OK;
}

static swi_bind bind_of(const swi_trace *t, uint32_t storage, size_t offset)
{
    const swi_storage *s = &t->storages[storage];
    if (s->birth == SWI_NONE)
        return (swi_bind){SWI_SEG_COUNT, 0}; /* nobody reads it: a NULL pointer */
    return (swi_bind){s->segment, s->offset + offset};
}

/* Births and deaths by op: counting sort, so that each op has one run of each list. */
static void list_lifetimes(swi_program *p)
{
    swi_trace *t = &p->trace;
    for (uint32_t i = 0; i < p->n_ops; i++)
        p->ops[i].n_births = p->ops[i].n_deaths = 0;
    for (uint32_t s = 0; s < t->n_storages; s++) {
        if (!takes_part(t, s))
            continue;
        p->ops[t->storages[s].birth].n_births++;
        if (t->storages[s].death < p->n_ops)
            p->ops[t->storages[s].death].n_deaths++;
    }
    uint32_t births = 0, deaths = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        p->ops[i].births = births;
        p->ops[i].deaths = deaths;
        births += p->ops[i].n_births;
        deaths += p->ops[i].n_deaths;
        p->ops[i].n_births = p->ops[i].n_deaths = 0;
    }
    for (uint32_t s = 0; s < t->n_storages; s++) {
        if (!takes_part(t, s))
            continue;
        swi_run_op *b = &p->ops[t->storages[s].birth];
        p->births[b->births + b->n_births++] = s;
        if (t->storages[s].death < p->n_ops) {
            swi_run_op *d = &p->ops[t->storages[s].death];
            p->deaths[d->deaths + d->n_deaths++] = s;
        }
    }
    p->n_births = births;
}

void swi_program_bind(swi_program *p)
{
    swi_trace *t = &p->trace;
    uint32_t buffer = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        swi_run_op *op = &p->ops[i];
        const swi_node *node = &t->nodes[op->node];
        op->first = buffer;
        op->n_buffers = node->n_in + node->n_out;
        op->phase = node->phase;
        op->is_update = node->is_update || node->writes_model;
        for (uint32_t k = 0; k < op->n_buffers; k++) {
            const swi_value *v = &t->values[t->operands[node->first + k]];
            p->buffers[buffer + k] = (sw_buffer){.type = v->type};
            memcpy(p->buffers[buffer + k].stride, v->stride, sizeof v->stride);
            p->binds[buffer + i + k] = bind_of(t, v->storage, v->offset);
        }
        p->binds[buffer + i + op->n_buffers] = node->scratch != SWI_NONE
                                                   ? bind_of(t, node->scratch, 0)
                                                   : (swi_bind){SWI_SEG_COUNT, 0};
        p->launches[i] = (sw_launch){
            .size = sizeof(sw_launch),
            .in = p->buffers + buffer,
            .n_in = (int)node->n_in,
            .out = p->buffers + buffer + node->n_in,
            .n_out = (int)node->n_out,
            .scratch_bytes = node->scratch != SWI_NONE ? t->storages[node->scratch].bytes : 0,
            .attrs = t->attrs + node->attrs,
            .accumulate = node->accumulate,
            .stream = node->stream};
        buffer += op->n_buffers;
    }
    p->n_buffers = buffer;
    list_lifetimes(p);
}

/* Height of the bump in immediate mode: every storage, one above the other. */
static size_t bump_height(const swi_trace *t)
{
    size_t sum = 0;
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (t->storages[s].segment == SWI_SEG_STEP)
            sum += t->storages[s].rounded;
    return sum;
}

static sw_status build(swi_program *p, const sw_ctx *ctx)
{
    const uint64_t start = sw_clock_ns();
    swi_trace *t = &p->trace;
    SW_TRY(copy_trace(t, &ctx->trace));
    p->hash = swi_trace_hash(t);
    p->n_models = ctx->args->n_models;
    p->n_inputs = ctx->args->n_inputs;
    for (int i = 0; i < p->n_models; i++)
        if (!sw_size_add(p->model_bytes, ctx->args->models[i]->bytes, &p->model_bytes))
            SW_FAIL(SW_NOMEM, "the models' bytes overflow");
    for (int i = 0; i < p->n_inputs; i++)
        if (!sw_size_add(p->slot_bytes, t->storages[i].rounded, &p->slot_bytes))
            SW_FAIL(SW_NOMEM, "the inputs' bytes overflow");

    void *scratch;
    const size_t order_bytes = (size_t)t->n_nodes * sizeof(uint32_t);
    const size_t key_bytes =
        ((size_t)t->n_nodes + 2 * (size_t)t->n_storages) * sizeof(uint64_t);
    const size_t scratch_bytes = key_bytes + order_bytes + t->n_values;
    SW_TRY(sw_heap_alloc(&scratch, SW_HEAP_PROGRAMS, scratch_bytes));
    uint64_t *keys = scratch;
    uint32_t *order = (uint32_t *)(void *)((unsigned char *)scratch + key_bytes);
    bool *read = (bool *)((unsigned char *)scratch + key_bytes + order_bytes);
    const uint32_t n_ops = plain_order(t, order);
    release(t, order, n_ops, keys);
    lifetimes(t, order, n_ops, read);
    if (!ctx->exec->no_inplace)
        swi_pass_inplace(t, order, n_ops);
    sw_status status = take_arrays(p, n_ops);
    for (uint32_t i = 0; status == SW_OK && i < n_ops; i++)
        p->ops[i].node = order[i];
    sw_heap_free(scratch, SW_HEAP_PROGRAMS, scratch_bytes);
    SW_TRY(status);
    SW_TRY(place(p));
    follow_aliases(t);
    swi_program_bind(p);
    SW_TRY(swi_program_measure(p));
    p->info.immediate_bytes = bump_height(t);
    p->info.n_ops = n_ops;
    p->info.n_values = t->n_values;
    p->info.n_storages = t->n_storages;
    p->info.plan_ns = sw_clock_ns() - start;
    return SW_OK;
}

sw_status swi_program_create(swi_program **out, const sw_ctx *ctx)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, sizeof(swi_program)));
    swi_program *p = block;
    p->refs = 1;
    const sw_status status = build(p, ctx);
    if (status != SW_OK) {
        swi_program_free(p);
        return status;
    }
    *out = p;
    return SW_OK;
}

void swi_program_free(swi_program *p)
{
    if (p == NULL)
        return;
    sw_heap_free(p->ops, SW_HEAP_PROGRAMS, p->heap_bytes[H_OPS]);
    sw_heap_free(p->buffers, SW_HEAP_PROGRAMS, p->heap_bytes[H_BUFFERS]);
    sw_heap_free(p->binds, SW_HEAP_PROGRAMS, p->heap_bytes[H_BINDS]);
    sw_heap_free(p->births, SW_HEAP_PROGRAMS, p->heap_bytes[H_BIRTHS]);
    sw_heap_free(p->deaths, SW_HEAP_PROGRAMS, p->heap_bytes[H_DEATHS]);
    sw_heap_free(p->launches, SW_HEAP_PROGRAMS, p->heap_bytes[H_LAUNCHES]);
    sw_heap_free(p->metrics, SW_HEAP_PROGRAMS, p->heap_bytes[H_METRICS]);
    swi_trace_free(&p->trace);
    sw_heap_free(p, SW_HEAP_PROGRAMS, sizeof *p);
}

/* A copy that tests may change; same plan. */
sw_status swi_program_clone(swi_program **out, const swi_program *from)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, sizeof(swi_program)));
    swi_program *p = block;
    p->refs = 1;
    p->id = from->id;
    p->hash = from->hash;
    p->n_models = from->n_models;
    p->n_inputs = from->n_inputs;
    p->model_bytes = from->model_bytes;
    p->slot_bytes = from->slot_bytes;
    p->height = from->height;
    p->info = from->info;
    p->peak_op = from->peak_op;
    sw_status status = copy_trace(&p->trace, &from->trace);
    if (status == SW_OK)
        status = take_arrays(p, from->n_ops);
    if (status != SW_OK) {
        swi_program_free(p);
        return status;
    }
    memcpy(p->ops, from->ops, from->n_ops * sizeof *p->ops);
    swi_program_bind(p);
    *out = p;
    return SW_OK;
}
