/* Programs: what a trace leaves, copied, ordered, placed and bound.
 *
 * Positions count the ops that run; views have none. A storage is live from the op that first
 * writes it to the last op that touches it, both included; metrics and outputs to one past the
 * last op, where they are read out. */
#include "alloc/base/assert.h"
#include "alloc/base/hash.h"
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "alloc/base/sys.h"
#include "runtime/plan/frame.h"
#include "runtime/plan/program.h"
#include "runtime/plan/program_internal.h"
#include <string.h>

/* A trace as its differences from another one: passes leave most of a trace as it was, so that
 * what was traced takes little beside what runs.
 *
 * All arrays stand one after the other as words of four bytes, as runs: a word that says how
 * many words are those of the other trace (high half) and how many follow here (low half). */

#define MOST 0xffffu

/* One array of a trace. */
typedef struct {
    void **at;
    uint32_t *n, *cap;
    size_t element;
} column;
#define COLUMNS 9

static void columns_of(swi_trace *t, column *to)
{
#define COLUMN(field)                                                                          \
    (column)                                                                                   \
    {                                                                                          \
        (void **)(void *)&t->field, &t->n_##field, &t->cap_##field, sizeof *t->field           \
    }
    const column all[COLUMNS] = {COLUMN(nodes),    COLUMN(operands), COLUMN(values),
                                 COLUMN(storages), COLUMN(strides),  COLUMN(attrs),
                                 COLUMN(strings),  COLUMN(metrics),  COLUMN(outputs)};
#undef COLUMN
    memcpy(to, all, sizeof all);
}

/* Word i of so many bytes; 0 past their end. */
static uint32_t word_at(const unsigned char *bytes, size_t n, size_t i)
{
    uint32_t word = 0;
    if (4 * i < n)
        memcpy(&word, bytes + 4 * i, n - 4 * i < 4 ? n - 4 * i : 4);
    return word;
}

/* Where the first word from i on is, up to `end`, of which both have all bytes, that is not
 * equal (or equal, for `other`); most words of most traces are equal. */
static size_t end_of_equal(const unsigned char *a, const unsigned char *b, size_t i, size_t end)
{
    enum { STRIDE = 16 };
    while (i + STRIDE <= end && memcmp(a + 4 * i, b + 4 * i, (size_t)4 * STRIDE) == 0)
        i += STRIDE;
    while (i < end && memcmp(a + 4 * i, b + 4 * i, 4) == 0)
        i++;
    return i;
}

static size_t end_of_other(const unsigned char *a, const unsigned char *b, size_t i, size_t end)
{
    while (i < end && memcmp(a + 4 * i, b + 4 * i, 4) != 0)
        i++;
    return i;
}

/* Write the runs of one array, or count their words where `to` is NULL. */
static size_t pack_array(const column *mine, const column *other, uint32_t *to)
{
    const unsigned char *a = *mine->at, *b = *other->at;
    const size_t bytes = *mine->n * mine->element, known = *other->n * other->element;
    const size_t words = (bytes + 3) / 4, both = (bytes < known ? bytes : known) / 4;
    size_t n = 0;
    for (size_t i = 0; i < words;) {
        const size_t begin = i, most = begin + MOST < words ? begin + MOST : words;
        i = end_of_equal(a, b, i, both < most ? both : most);
        while (i >= both && i < most && word_at(a, bytes, i) == word_at(b, known, i))
            i++;
        const size_t from = i, last = from + MOST < words ? from + MOST : words;
        i = end_of_other(a, b, i, both < last ? both : last);
        while (i >= both && i < last && word_at(a, bytes, i) != word_at(b, known, i))
            i++;
        if (to != NULL) {
            to[n] = (uint32_t)((from - begin) << 16 | (i - from));
            for (size_t k = from; k < i; k++)
                to[n + 1 + k - from] = word_at(a, bytes, k);
        }
        n += 1 + i - from;
    }
    return n;
}

static const uint32_t *unpack_array(unsigned char *to, size_t bytes, const column *other,
                                    const uint32_t *from)
{
    const unsigned char *b = *other->at;
    const size_t known = *other->n * other->element;
    for (size_t at = 0; at < bytes;) {
        const size_t same = 4 * (size_t)(*from >> 16), others = 4 * (size_t)(*from & MOST);
        from++;
        const size_t n = same < bytes - at ? same : bytes - at;
        /* `n` bytes at `at` of an array that has `known` of them; zeros after. */
        const size_t there = at >= known ? 0 : known - at < n ? known - at : n;
        if (there > 0)
            memcpy(to + at, b + at, there);
        if (there < n)
            memset(to + at + there, 0, n - there);
        at += n;
        const size_t more = others < bytes - at ? others : bytes - at;
        if (more > 0)
            memcpy(to + at, from, more);
        at += more;
        from += others / 4;
    }
    return from;
}

/* ---- program compare --------------------------------------------------------------------- */

/* Are two traces the same program? */

/* A finished program is compared with a fresh trace: what passes have changed (the phase of a
 * released update, what an in-place result's root must outlive) is not looked at; names_differ
 * has the latter. */

static bool same_strides(const swi_trace *a, const swi_value *v, const swi_trace *b,
                         const swi_value *w)
{
    int64_t x[SW_MAX_RANK], y[SW_MAX_RANK];
    swi_value_strides(a, v, x);
    swi_value_strides(b, w, y);
    return memcmp(x, y, sizeof x) == 0;
}

static bool node_differs(const swi_trace *a, const swi_trace *b, uint32_t n)
{
    const swi_node *x = &a->nodes[n], *y = &b->nodes[n];
    if (x->op != y->op || x->grad != y->grad || x->n_in != y->n_in || x->n_out != y->n_out ||
        x->accumulate != y->accumulate || x->null_out != y->null_out ||
        (x->phase != y->phase && x->release != SWI_RELEASED) || x->stream != y->stream ||
        x->kernel != y->kernel || x->is_update != y->is_update || x->release != y->release ||
        strcmp(swi_string(a, x->layer), swi_string(b, y->layer)) != 0 ||
        (swi_op(x->op)->attrs_bytes > 0 &&
         memcmp(a->attrs + x->attrs, b->attrs + y->attrs, swi_op(x->op)->attrs_bytes) != 0) ||
        memcmp(a->operands + x->first, b->operands + y->first,
               (x->n_in + x->n_out) * sizeof(uint32_t)) != 0)
        return true;
    for (uint32_t i = 0; i < x->n_in + x->n_out; i++) {
        const swi_value *v = swi_operand(a, x, i);
        const swi_value *w = swi_operand(b, y, i);
        const swi_storage *s = &a->storages[v->storage], *r = &b->storages[w->storage];
        if (v->storage != w->storage || v->offset != w->offset || v->version != w->version ||
            !swi_same_type(&v->type, &w->type) || !same_strides(a, v, b, w) ||
            s->bytes != r->bytes || s->segment != r->segment || s->entry != r->entry ||
            (s->segment >= SWI_SEG_MODEL && s->offset != r->offset))
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
        hash = sw_fnv64(hash, words, sizeof words);
        for (uint32_t k = 0; k < n->n_in + n->n_out; k++) {
            const swi_value *v = swi_operand(t, n, k);
            hash =
                sw_fnv64(hash, v->type.shape.dim, (size_t)v->type.shape.rank * sizeof(int64_t));
        }
    }
    return hash;
}

sw_status swi_program_traced(const swi_program *p, swi_trace *room, const swi_trace **out)
{
    *out = &p->trace;
    if (p->traced.words == NULL)
        return SW_OK;
    *out = room;
    swi_trace its = p->trace;
    column a[COLUMNS], b[COLUMNS];
    const uint32_t *from = p->traced.words;
    columns_of(room, a);
    columns_of(&its, b);
    for (int c = 0; c < COLUMNS; c++) {
        const size_t bytes = p->traced.count[c] * a[c].element;
        SW_TRY(sw_heap_alloc(a[c].at, SW_HEAP_PROGRAMS, bytes));
        *a[c].n = *a[c].cap = p->traced.count[c];
        from = unpack_array(*a[c].at, bytes, &b[c], from);
    }
    return SW_OK;
}

sw_status swi_programs_equal(const swi_program *a, const swi_program *b, bool *equal)
{
    swi_trace x = {0}, y = {0};
    const swi_trace *as = NULL, *bs = NULL;
    sw_status status = swi_program_traced(a, &x, &as);
    if (status == SW_OK)
        status = swi_program_traced(b, &y, &bs);
    *equal = status == SW_OK && swi_trace_differs(as, bs) == SWI_NONE;
    swi_trace_free(&x);
    swi_trace_free(&y);
    return status;
}

/* ---- frame ------------------------------------------------------------------------------- */

/* Frames: made of a program, resolved op by op. */

/* The templates, of the first op of each kind; those come in the order of their numbers. */
static void fill(const swi_program *p, uint32_t op, swi_template *to, sw_buffer *buffers)
{
    const swi_trace *t = &p->trace;
    const swi_node *node = &t->nodes[p->ops[op].node];
    for (uint32_t k = 0; k < node->n_in + node->n_out; k++) {
        const swi_value *v = swi_operand(t, node, k);
        buffers[k] = (sw_buffer){.type = v->type};
        swi_value_strides(t, v, buffers[k].stride);
    }
    to->buffers = buffers;
    to->launch =
        SW_OPTS(sw_launch, .in = buffers, .n_in = (int)node->n_in, .out = buffers + node->n_in,
                .n_out = (int)node->n_out, .accumulate = node->accumulate,
                .stream = node->stream, .op = node->op, .grad = node->grad);
}

static void fill_all(swi_frame *f)
{
    const swi_program *p = f->program;
    sw_buffer *buffers = (sw_buffer *)(void *)(f->templates + p->n_templates);
    uint32_t n = 0, used = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        SW_ASSERT(p->ops[i].like <= n && p->ops[i].like < p->n_templates);
        if (p->ops[i].like < n)
            continue;
        fill(p, i, &f->templates[n++], buffers + used);
        used += p->ops[i].n_buffers;
    }
    SW_ASSERT(n == p->n_templates && used == p->n_template_buffers);
}

/* of the block of a frame */
static size_t frame_bytes(const swi_program *p)
{
    return sizeof(swi_frame) + p->n_templates * sizeof(swi_template) +
           p->n_template_buffers * sizeof(sw_buffer);
}

sw_status swi_frame_create(swi_frame **out, const swi_program *p)
{
    swi_frame *f;
    SW_TRY(sw_heap_alloc(&f, SW_HEAP_PROGRAMS, frame_bytes(p)));
    f->program = p;
    f->refs = 1;
    f->bytes = frame_bytes(p);
    f->templates = (swi_template *)(void *)(f + 1);
    fill_all(f);
    *out = f;
    return SW_OK;
}

void swi_frame_free(swi_frame *f)
{
    if (f == NULL)
        return;
    swi_breakdown_free(&f->breakdown);
    if (f->readback != NULL)
        f->free_readback(f->readback);
    sw_nvtx_table_free(&f->names);
    swi_program_free(f->owned);
    sw_heap_free(f, SW_HEAP_PROGRAMS, f->bytes);
}

/* ---- templates --------------------------------------------------------------------------- */

/* Templates: what the launches of ops of one kind have in common, which is all but addresses,
 * scratch and attributes. Layers that are alike share them, so that the frame of a deep program
 * needs no more than that of a shallow one. An op is resolved right before it is launched, so
 * one template at a time is in use; an op that is launched together with the next has another
 * kernel, and so another template, than that. */

static uint64_t hash_of(const swi_program *p, uint32_t op)
{
    const swi_node *n = swi_node_of(p, op);
    uint64_t hash = sw_hash_word((uint64_t)n->op << 32 | (uint32_t)n->grad, n->stream);
    for (uint32_t k = 0; k < n->n_in + n->n_out; k++) {
        const sw_type *type = &swi_operand(&p->trace, n, k)->type;
        for (int d = 0; d < type->shape.rank; d++)
            hash = sw_hash_word(hash, (uint64_t)type->shape.dim[d]);
    }
    return hash;
}

static bool same_operand(const swi_trace *t, const swi_value *v, const swi_value *w)
{
    int64_t a[SW_MAX_RANK], b[SW_MAX_RANK];
    if (memcmp(&v->type, &w->type, sizeof v->type) != 0)
        return false;
    swi_value_strides(t, v, a);
    swi_value_strides(t, w, b);
    return memcmp(a, b, sizeof a) == 0;
}

static bool alike(const swi_program *p, uint32_t i, uint32_t j)
{
    const swi_trace *t = &p->trace;
    const swi_node *x = swi_node_of(p, i), *y = swi_node_of(p, j);
    if (x->op != y->op || x->grad != y->grad || x->n_in != y->n_in || x->n_out != y->n_out ||
        x->accumulate != y->accumulate || x->stream != y->stream)
        return false;
    for (uint32_t k = 0; k < x->n_in + x->n_out; k++)
        if (!same_operand(t, swi_operand(t, x, k), swi_operand(t, y, k)))
            return false;
    return true;
}

/* The template of op i, which is op i's where it is the first of its kind. */
static uint32_t find(swi_program *p, uint32_t i, uint32_t *slots, uint32_t mask,
                     uint32_t *firsts, uint32_t *n)
{
    uint64_t hash = hash_of(p, i);
    for (;; hash++) {
        uint32_t *slot = &slots[hash & mask];
        if (*slot == 0) {
            firsts[*n] = i;
            *slot = ++*n;
            return *n - 1;
        }
        if (alike(p, firsts[*slot - 1], i))
            return *slot - 1;
    }
}

/* Which ops are alike: numbers of templates, and how many there are. */
static sw_status program_templates(swi_program *p)
{
    uint32_t cap = 16, n = 0;
    while (cap < 2 * p->n_ops)
        cap *= 2;
    void *block;
    const size_t bytes = ((size_t)cap + p->n_ops) * sizeof(uint32_t);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, bytes));
    uint32_t *slots = block, *firsts = slots + cap;
    for (uint32_t i = 0; i < p->n_ops; i++)
        p->ops[i].like = find(p, i, slots, cap - 1, firsts, &n);
    p->n_templates = n;
    p->n_template_buffers = 0;
    for (uint32_t k = 0; k < n; k++)
        p->n_template_buffers +=
            swi_node_of(p, firsts[k])->n_in + swi_node_of(p, firsts[k])->n_out;
    sw_heap_free(block, SW_HEAP_PROGRAMS, bytes);
    return SW_OK;
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

sw_status swi_trace_copy(swi_trace *to, const swi_trace *from)
{
    COPY(nodes);
    COPY(operands);
    COPY(values);
    COPY(storages);
    COPY(strides);
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
enum { H_OPS, H_BINDS, H_BIRTHS, H_DEATHS, H_LAYERS, H_PHASES };

/* The nodes that run, in their order. */
static sw_status take_arrays(swi_program *p, const uint32_t *nodes, uint32_t n_ops)
{
    const swi_trace *t = &p->trace;
    void *b;
    SW_TRY(heap_array(&b, p, H_OPS, n_ops * sizeof *p->ops));
    p->ops = b;
    p->n_ops = p->n_binds = n_ops;
    for (uint32_t i = 0; i < n_ops; i++) {
        SW_ASSERT(nodes[i] < t->n_nodes);
        p->ops[i].node = nodes[i];
        p->ops[i].left = i > 0 && p->ops[i - 1].left > 0
                             ? p->ops[i - 1].left - 1
                             : swi_group_end(t, nodes, n_ops, i) - i - 1;
        p->n_binds += t->nodes[nodes[i]].n_in + t->nodes[nodes[i]].n_out;
    }
    SW_TRY(heap_array(&b, p, H_BINDS, p->n_binds * sizeof *p->binds));
    p->binds = b;
    SW_TRY(heap_array(&b, p, H_BIRTHS, t->n_storages * sizeof *p->births));
    p->births = b;
    SW_TRY(heap_array(&b, p, H_DEATHS, t->n_storages * sizeof *p->deaths));
    p->deaths = b;
    SW_TRY(heap_array(&b, p, H_LAYERS, 2 * n_ops * sizeof *p->layers));
    p->layers = b;
    p->op_layer = p->layers + n_ops;
    SW_TRY(heap_array(&b, p, H_PHASES, (size_t)n_ops + 1));
    p->op_phase = b;
    return SW_OK;
}

static swi_bind bind_of(const swi_trace *t, uint32_t storage, size_t offset)
{
    const swi_storage *s = &t->storages[storage];
    SW_ASSERT(storage < t->n_storages && (unsigned)s->segment < SWI_SEG_COUNT);
    SW_ASSERT(offset <= s->bytes || s->birth == SWI_NONE);
    if (s->birth == SWI_NONE)
        return (swi_bind){SWI_SEG_COUNT, 0}; /* no one reads it: a NULL pointer */
    return (swi_bind){s->segment, s->offset + offset};
}

/* Is s born in the place of another? */
static bool reuses(const swi_trace *t, uint32_t s)
{
    const swi_storage *x = &t->storages[s];
    return x->segment == SWI_SEG_STEP && x->alias != s && x->birth != SWI_NONE &&
           x->rounded > 0;
}

/* Births and deaths by op: counting sort, so that each op has one run of each list. */
void swi_program_list_lifetimes(swi_program *p)
{
    swi_trace *t = &p->trace;
    for (uint32_t i = 0; i < p->n_ops; i++)
        p->ops[i].n_births = p->ops[i].n_reuses = p->ops[i].n_deaths = 0;
    p->n_births = 0;
    for (uint32_t s = 0; s < t->n_storages; s++) {
        if (reuses(t, s))
            p->ops[t->storages[s].birth].n_reuses++;
        if (!swi_takes_part(t, s))
            continue;
        p->n_births++;
        SW_ASSERT(t->storages[s].birth < p->n_ops &&
                  t->storages[s].birth <= t->storages[s].death);
        p->ops[t->storages[s].birth].n_births++;
        if (t->storages[s].death < p->n_ops)
            p->ops[t->storages[s].death].n_deaths++;
    }
    uint32_t births = 0, deaths = 0;
    SW_ASSERT(p->n_births <= t->n_storages);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        p->ops[i].births = births;
        p->ops[i].deaths = deaths;
        births += p->ops[i].n_births + p->ops[i].n_reuses;
        deaths += p->ops[i].n_deaths;
        p->ops[i].n_births = p->ops[i].n_reuses = p->ops[i].n_deaths = 0;
    }
    for (uint32_t s = 0; s < t->n_storages; s++) {
        if (!swi_takes_part(t, s))
            continue;
        swi_run_op *b = &p->ops[t->storages[s].birth];
        p->births[b->births + b->n_births++] = s;
        if (t->storages[s].death < p->n_ops) {
            swi_run_op *d = &p->ops[t->storages[s].death];
            p->deaths[d->deaths + d->n_deaths++] = s;
            SW_ASSERT(d->deaths + d->n_deaths <= t->n_storages);
        }
    }
    for (uint32_t s = 0; s < t->n_storages; s++)
        if (reuses(t, s)) {
            swi_run_op *b = &p->ops[t->storages[s].birth];
            p->births[b->births + b->n_births + b->n_reuses++] = s;
        }
}

/* The place of a layer at most d from `near`; SWI_NONE: it is not there. */
static uint32_t layer_beside(const swi_program *p, uint32_t layer, uint32_t near, uint32_t d)
{
    if (near + d < p->n_layers && p->layers[near + d] == layer)
        return near + d;
    return d <= near && p->layers[near - d] == layer ? near - d : SWI_NONE;
}

/* Forward comes by the layers in their order and backward against it: the next one is near the
 * last or the one before that, as with ops of no layer between them, or its number is above
 * `most`, that of all before. */
static uint32_t layer_near(swi_program *p, uint32_t layer, const uint32_t last[2],
                           uint32_t most)
{
    for (uint32_t d = 0; d < p->n_layers && layer <= most; d++)
        for (int k = 0; k < 2; k++) {
            const uint32_t at = layer_beside(p, layer, last[k], d);
            if (at != SWI_NONE)
                return at;
        }
    p->layers[p->n_layers] = layer;
    SW_ASSERT(p->n_layers < p->n_ops);
    return p->n_layers++;
}

void swi_program_layers(swi_program *p)
{
    uint32_t last[2] = {0, 0}, most = 0;
    p->n_layers = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_node *node = swi_node_of(p, i);
        const uint32_t at = layer_near(p, node->layer, last, most);
        SW_ASSERT(at < p->n_layers && (unsigned)node->phase <= SW_STEP);
        if (at != last[0]) {
            last[1] = last[0];
            last[0] = at;
        }
        most = node->layer > most ? node->layer : most;
        p->op_layer[i] = at;
        p->op_phase[i] = (char)('0' + (int)node->phase);
    }
    p->op_phase[p->n_ops] = '\0';
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
        SW_ASSERT(op->node < t->n_nodes && op->n_buffers <= SWI_MAX_OPERANDS);
        SW_ASSERT(node->first + op->n_buffers <= t->n_operands);
        SW_ASSERT(buffer + i + op->n_buffers < p->n_binds);
        SW_ASSERT(node->scratch == SWI_NONE || node->scratch < t->n_storages);
        op->scratch_bytes = node->scratch != SWI_NONE ? t->storages[node->scratch].bytes : 0;
        op->attrs = swi_node_attrs(t, node);
        op->phase = node->phase;
        op->is_update = node->is_update || node->writes_model;
        for (uint32_t k = 0; k < op->n_buffers; k++) {
            const swi_value *v = swi_operand(t, node, k);
            p->binds[buffer + i + k] = bind_of(t, v->storage, v->offset);
        }
        p->binds[buffer + i + op->n_buffers] = node->scratch != SWI_NONE
                                                   ? bind_of(t, node->scratch, 0)
                                                   : (swi_bind){SWI_SEG_COUNT, 0};
        buffer += op->n_buffers;
    }
    swi_program_list_lifetimes(p);
    swi_program_layers(p);
}

/* Passes leave slack where they append: what runs is as large as it must be. */
static sw_status fit_trace(swi_program *p)
{
    swi_trace exact = {0};
    const sw_status status = swi_trace_copy(&exact, &p->trace);
    if (status != SW_OK) {
        swi_trace_free(&exact);
        return status;
    }
    swi_trace_free(&p->trace);
    p->trace = exact;
    return SW_OK;
}

static sw_status build(swi_program *p, const sw_ctx *ctx, size_t limit)
{
    const uint64_t start = sw_clock_ns();
    swi_trace *t = &p->trace;
    SW_TRY(swi_trace_copy(t, &ctx->trace));
    for (uint32_t s = 0; s < t->n_storages; s++)
        t->storages[s].traced = (uint8_t)t->storages[s].role;
    p->hash = swi_trace_hash(t);
    p->n_models = ctx->args->n_models;
    p->n_inputs = ctx->args->n_inputs;
    for (int i = 0; i < p->n_models; i++)
        if (!sw_size_add(p->model_bytes, ctx->args->models[i]->bytes, &p->model_bytes))
            SW_FAIL(SW_NOMEM, "the models' bytes overflow");
    for (int i = 0; i < p->n_inputs; i++)
        if (!sw_size_add(p->slot_bytes, t->storages[i].rounded, &p->slot_bytes))
            SW_FAIL(SW_NOMEM, "the inputs' bytes overflow");

    p->limit = limit;
    swi_order order = {0};
    sw_status status = swi_program_run_passes(p, &order, ctx->exec);
    if (status == SW_OK)
        status = fit_trace(p);
    if (status == SW_OK)
        status = take_arrays(p, order.nodes, order.n);
    swi_order_free(&order);
    SW_TRY(status);
    SW_TRY(program_templates(p));
    swi_program_bind(p);
    swi_program_fuse_launches(p, ctx->exec);
    swi_program_measure(p);
    swi_program_name_holders(p, ctx->args);
    p->info.n_ops = p->n_ops;
    p->info.n_values = t->n_values;
    p->info.n_storages = t->n_storages;
    /* Pack what was traced, where something else runs, into little room. */
    /* last: the trace stays as it is from here on */
    if (p->plain.n_nodes != 0) {
        /* `other` must not change as long as the result lives. */
        swi_packed *to = &p->traced;
        swi_trace mine = p->plain,
                  its = p->trace; /* handles of the arrays, which are only read */
        column a[COLUMNS], b[COLUMNS];
        columns_of(&mine, a);
        columns_of(&its, b);
        size_t n = 0;
        void *block;
        for (int c = 0; c < COLUMNS; c++)
            n += pack_array(&a[c], &b[c], NULL);
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, n * sizeof(uint32_t)));
        *to = (swi_packed){.words = block, .n = n};
        n = 0;
        for (int c = 0; c < COLUMNS; c++) {
            to->count[c] = *a[c].n;
            n += pack_array(&a[c], &b[c], to->words + n);
        }

        swi_trace_free(&p->plain);
    }
    p->info.plan_ns = sw_clock_ns() - start;
    return SW_OK;
}

sw_status swi_program_create(swi_program **out, const sw_ctx *ctx, size_t limit)
{
    swi_program *p;
    SW_TRY(sw_heap_alloc(&p, SW_HEAP_PROGRAMS, sizeof(swi_program)));
    const sw_status status = build(p, ctx, limit);
    return SW_GIVE(status, out, p, swi_program_free);
}

static size_t trace_bytes(const swi_trace *t)
{
    return t->cap_nodes * sizeof *t->nodes + t->cap_operands * sizeof *t->operands +
           t->cap_values * sizeof *t->values + t->cap_storages * sizeof *t->storages +
           t->cap_strides * sizeof *t->strides + t->cap_attrs + t->cap_strings +
           t->cap_string_slots * sizeof *t->string_slots + t->cap_metrics * sizeof *t->metrics +
           t->cap_outputs * sizeof *t->outputs;
}

size_t swi_program_host_bytes(const swi_program *p)
{
    size_t bytes = sizeof *p + trace_bytes(&p->trace) + frame_bytes(p) +
                   p->traced.n * sizeof *p->traced.words;
    for (size_t i = 0; i < sizeof p->heap_bytes / sizeof *p->heap_bytes; i++)
        bytes += p->heap_bytes[i];
    return bytes;
}

void swi_breakdown_free(swi_breakdown *x)
{
    sw_heap_free(x->lines, SW_HEAP_PROGRAMS, x->cap * sizeof *x->lines);
    *x = (swi_breakdown){0};
}

void swi_program_free(swi_program *p)
{
    if (p == NULL)
        return;
    sw_heap_free(p->ops, SW_HEAP_PROGRAMS, p->heap_bytes[H_OPS]);
    sw_heap_free(p->binds, SW_HEAP_PROGRAMS, p->heap_bytes[H_BINDS]);
    sw_heap_free(p->births, SW_HEAP_PROGRAMS, p->heap_bytes[H_BIRTHS]);
    sw_heap_free(p->deaths, SW_HEAP_PROGRAMS, p->heap_bytes[H_DEATHS]);
    sw_heap_free(p->layers, SW_HEAP_PROGRAMS, p->heap_bytes[H_LAYERS]);
    sw_heap_free(p->op_phase, SW_HEAP_PROGRAMS, p->heap_bytes[H_PHASES]);
    swi_trace_free(&p->trace);
    swi_trace_free(&p->plain);
    /* *to is empty before; the caller frees it, also on failure. */
    swi_packed *packed = &p->traced;
    sw_heap_free(packed->words, SW_HEAP_PROGRAMS, packed->n * sizeof(uint32_t));
    *packed = (swi_packed){0};
    sw_heap_free(p, SW_HEAP_PROGRAMS, sizeof *p);
}

static sw_status take_clone(swi_program *p, const swi_program *from)
{
    swi_order order;
    SW_TRY(swi_order_take(&order, from->n_ops));
    for (uint32_t i = 0; i < from->n_ops; i++)
        order.nodes[i] = from->ops[i].node;
    const sw_status status = take_arrays(p, order.nodes, from->n_ops);
    swi_order_free(&order);
    SW_TRY(status);
    for (uint32_t i = 0; i < from->n_ops; i++)
        p->ops[i] = from->ops[i];
    return program_templates(p);
}

sw_status swi_program_clone(swi_program **out, const swi_program *from)
{
    swi_program *p;
    SW_TRY(sw_heap_alloc(&p, SW_HEAP_PROGRAMS, sizeof(swi_program)));
    *p = (swi_program)SW_INIT(.id = from->id, .hash = from->hash, .n_models = from->n_models,
                              .n_inputs = from->n_inputs, .model_bytes = from->model_bytes,
                              .slot_bytes = from->slot_bytes, .height = from->height,
                              .info = from->info, .peak_op = from->peak_op);
    sw_status status = swi_trace_copy(&p->trace, &from->trace);
    if (status == SW_OK)
        status = take_clone(p, from);
    if (status == SW_OK)
        swi_program_bind(p);
    return SW_GIVE(status, out, p, swi_program_free);
}
