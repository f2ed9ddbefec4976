/* Guards: each output of a kernel lies between two bands of a pattern, outside of the planned
 * bytes, so that figures and placement stay as they are; inputs are kept and compared.
 *
 * An output that is not added to, with no input in its place, is filled with a pattern too.
 * Where all of it is still there the kernel runs again over another pattern: what is left of
 * both was never written. An input in the place of an output moves with it. An input that lies
 * half in an output cannot, and strided outputs have bytes of others between theirs: those ops
 * run where they are, and only their inputs are compared. */
#include "runtime/exec/exec.h"
#include "alloc/base/error.h"
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "runtime/graph/trace.h"
#include <pthread.h>
#include <string.h>

#define BAND ((size_t)256)
#define BAND_BYTE 0xa7
static const unsigned char fills[] = {0xb5, 0x4a};

struct swi_guard {
    pthread_mutex_t
        mutex; /* lanes of members share the guard of the exec that plans for them */
    unsigned char *block;
    size_t bytes;
};

/* Bytes that an operand lies in. */
typedef struct {
    unsigned char *at;
    size_t bytes;
} span;

typedef struct {
    const sw_launch *given;
    sw_launch launch;
    sw_buffer in[SWI_MAX_OPERANDS], out[SWI_MAX_OPERANDS];
    span in_span[SWI_MAX_OPERANDS], out_span[SWI_MAX_OPERANDS];
    unsigned char *kept[SWI_MAX_OPERANDS];    /* copy of an input; NULL: it moves */
    unsigned char *guarded[SWI_MAX_OPERANDS]; /* of an output; NULL: none */
    unsigned char *scratch;
    bool filled[SWI_MAX_OPERANDS]; /* with a pattern */
    bool stays;                    /* outputs cannot be moved */
} call;

sw_status swi_guard_create(swi_guard **out)
{
    swi_guard *g;
    SW_TRY(sw_heap_alloc(&g, SW_HEAP_RECORDS, sizeof(swi_guard)));
    if (pthread_mutex_init(&g->mutex, NULL) != 0) {
        sw_heap_free(g, SW_HEAP_RECORDS, sizeof(swi_guard));
        SW_FAIL(SW_NOMEM, "no mutex for the guards of kernels");
    }
    *out = g;
    return SW_OK;
}

void swi_guard_destroy(swi_guard *g)
{
    if (g == NULL)
        return;
    (void)pthread_mutex_destroy(&g->mutex);
    sw_heap_free(g->block, SW_HEAP_RECORDS, g->bytes);
    sw_heap_free(g, SW_HEAP_RECORDS, sizeof *g);
}

/* ---- where operands lie ------------------------------------------------------------------ */

static bool is_whole(const sw_buffer *b)
{
    int64_t usual[SW_MAX_RANK];
    swi_contiguous_strides(&b->type, usual);
    for (int i = 0; i < b->type.shape.rank; i++)
        if (b->type.shape.dim[i] > 1 && b->stride[i] != usual[i])
            return false;
    return true;
}

static span span_of(const sw_buffer *b)
{
    span s = {b->ptr, b->ptr != NULL ? sw_type_bytes(&b->type) : 0};
    const int64_t size = (int64_t)sw_dtype_bytes(b->type.dtype);
    int64_t low = 0, high = 0;
    if (s.bytes == 0 || b->type.layout != SW_PLAIN || is_whole(b))
        return s;
    for (int i = 0; i < b->type.shape.rank; i++) {
        const int64_t last = (b->type.shape.dim[i] - 1) * b->stride[i] * size;
        *(last < 0 ? &low : &high) += last;
    }
    return (span){s.at + low, (size_t)(high - low + size)};
}

static bool meet(const span *a, const span *b)
{
    return a->bytes > 0 && b->bytes > 0 && a->at < b->at + b->bytes && b->at < a->at + a->bytes;
}

/* The output in whose place input i lies; -1: none. */
static int place_of(const call *c, int i)
{
    for (int k = 0; k < c->given->n_out; k++)
        if (meet(&c->in_span[i], &c->out_span[k]))
            return k;
    return -1;
}

/* ---- the room ---------------------------------------------------------------------------- */

/* So many bytes at *to between two bands; with a block NULL they are only counted. */
static bool take(unsigned char *block, size_t *used, size_t bytes, unsigned char **to)
{
    size_t rounded, end;
    if (!sw_size_align(bytes, SW_ALIGN, &rounded) || !sw_size_add(*used, rounded, &end) ||
        !sw_size_add(end, 2 * BAND, &end))
        return false;
    if (block != NULL) {
        *to = block + *used + BAND;
        memset(*to - BAND, BAND_BYTE, BAND);
        memset(*to + bytes, BAND_BYTE, rounded - bytes + BAND);
    }
    *used = end;
    return true;
}

static bool share_out(call *c, unsigned char *block, size_t *used)
{
    const sw_launch *l = c->given;
    bool fits = take(block, used, l->scratch_bytes, &c->scratch);
    for (int k = 0; k < l->n_out && !c->stays; k++)
        if (c->out_span[k].bytes > 0)
            fits = fits && take(block, used, c->out_span[k].bytes, &c->guarded[k]);
    for (int i = 0; i < l->n_in; i++)
        if (c->in_span[i].bytes > 0 && place_of(c, i) < 0)
            fits = fits && take(block, used, c->in_span[i].bytes, &c->kept[i]);
    return fits;
}

static sw_status reserve(swi_guard *g, size_t bytes)
{
    if (bytes <= g->bytes)
        return SW_OK;
    SW_TRY(sw_heap_resize(&g->block, SW_HEAP_RECORDS, g->bytes, bytes));
    g->bytes = bytes;
    return SW_OK;
}

/* Each operand is copied once at most, and lies in its storage. */
sw_status swi_guard_reserve(swi_guard *g, const swi_program *p)
{
    const swi_trace *t = &p->trace;
    size_t most = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_node *node = &t->nodes[p->ops[i].node];
        unsigned char *none;
        size_t used = SW_ALIGN;
        bool fits = take(NULL, &used, p->ops[i].scratch_bytes, &none);
        for (uint32_t k = 0; k < node->n_in + node->n_out; k++) {
            const swi_value *v = swi_operand(t, node, k);
            fits = fits && take(NULL, &used, t->storages[v->storage].bytes, &none);
        }
        if (!fits)
            SW_FAIL(SW_NOMEM, "the bytes of the guards overflow");
        most = used > most ? used : most;
    }
    return reserve(g, most);
}

/* ---- what it did ------------------------------------------------------------------------- */

/* How many bytes are still the pattern, from the front. */
static size_t still(const unsigned char *at, size_t bytes, unsigned char pattern)
{
    size_t n = 0;
    while (n < bytes && at[n] == pattern)
        n++;
    return n;
}

static sw_status check_bands(const unsigned char *at, size_t bytes, const char *what, int k)
{
    const size_t front = still(at - BAND, BAND, BAND_BYTE);
    if (front < BAND)
        SW_FAIL(SW_INVALID, "its kernel writes %zu bytes before %s %d", BAND - front, what, k);
    const size_t rounded = (bytes + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN;
    const size_t behind = rounded - bytes + BAND;
    const size_t n = still(at + bytes, behind, BAND_BYTE);
    if (n < behind)
        SW_FAIL(SW_INVALID, "its kernel writes past %s %d: byte %zu of %zu", what, k, bytes + n,
                bytes);
    return SW_OK;
}

/* The first output of which nothing was written, if the fill says so; -1: none. */
static int unwritten(const call *c, unsigned char fill)
{
    for (int k = 0; k < c->given->n_out; k++)
        if (c->guarded[k] != NULL && c->filled[k] &&
            still(c->guarded[k], c->out_span[k].bytes, fill) == c->out_span[k].bytes)
            return k;
    return -1;
}

static sw_status run_over(call *c, sw_kernel *kernel, unsigned char fill)
{
    const uint64_t said = sw_error_count();
    /* Prepare the kernel's operands; `fill` is the pattern of outputs that it must write. */
    const sw_launch *l = c->given;
    c->launch = *l;
    for (int i = 0; i < l->n_in; i++)
        c->in[i] = l->in[i];
    for (int k = 0; k < l->n_out; k++) {
        c->out[k] = l->out[k];
        if (c->guarded[k] == NULL)
            continue;
        c->filled[k] = (l->accumulate >> k & 1u) == 0;
        for (int i = 0; i < l->n_in; i++)
            if (meet(&c->in_span[i], &c->out_span[k])) {
                c->filled[k] = false;
                c->in[i].ptr =
                    c->guarded[k] + ((unsigned char *)l->in[i].ptr - c->out_span[k].at);
            }
        if (c->filled[k])
            memset(c->guarded[k], fill, c->out_span[k].bytes);
        else
            memcpy(c->guarded[k], c->out_span[k].at, c->out_span[k].bytes);
        c->out[k].ptr = c->guarded[k];
    }
    for (int i = 0; i < l->n_in; i++)
        if (c->kept[i] != NULL)
            memcpy(c->kept[i], c->in_span[i].at, c->in_span[i].bytes);
    c->launch.in = c->in;
    c->launch.out = c->out;
    if (l->scratch_bytes > 0)
        c->launch.scratch = c->scratch;
    const sw_status status = kernel(&c->launch);
    SW_TRY(sw_call_status(status, said, "its kernel"));
    for (int k = 0; k < l->n_out; k++)
        if (c->guarded[k] != NULL)
            SW_TRY(check_bands(c->guarded[k], c->out_span[k].bytes, "output", k));
    if (l->scratch_bytes > 0)
        SW_TRY(check_bands(c->scratch, l->scratch_bytes, "scratch", 0));
    for (int i = 0; i < c->given->n_in; i++) {
        const span *s = &c->in_span[i];
        size_t n = 0;
        if (c->kept[i] == NULL || memcmp(c->kept[i], s->at, s->bytes) == 0)
            continue;
        while (c->kept[i][n] == s->at[n])
            n++;
        memcpy(s->at, c->kept[i], s->bytes); /* others read it, too */
        SW_FAIL(SW_INVALID, "its kernel writes into input %d: byte %zu of %zu", i, n, s->bytes);
    }
    return SW_OK;
}

static sw_status run_guarded(swi_guard *g, sw_kernel *kernel, const sw_launch *launch)
{
    call c = {.given = launch};
    const sw_launch *l = c.given;
    for (int k = 0; k < l->n_out; k++) {
        c.out_span[k] = span_of(&l->out[k]);
        c.stays |= l->out[k].type.layout == SW_PLAIN && !is_whole(&l->out[k]);
    }
    for (int i = 0; i < l->n_in; i++) {
        c.in_span[i] = span_of(&l->in[i]);
        for (int k = 0; k < l->n_out; k++)
            c.stays |= meet(&c.in_span[i], &c.out_span[k]) &&
                       !(c.in_span[i].at >= c.out_span[k].at &&
                         c.in_span[i].at + c.in_span[i].bytes <=
                             c.out_span[k].at + c.out_span[k].bytes);
    }
    size_t used = 0, bytes = 0;
    if (!share_out(&c, NULL, &bytes) || !sw_size_add(bytes, SW_ALIGN, &bytes))
        SW_FAIL(SW_NOMEM, "the bytes of its guards overflow");
    SW_TRY(reserve(g, bytes));
    const size_t off = (SW_ALIGN - (uintptr_t)g->block % SW_ALIGN) % SW_ALIGN;
    (void)share_out(&c, g->block + off, &used);

    SW_TRY(run_over(&c, kernel, fills[0]));
    if (unwritten(&c, fills[0]) >= 0) { /* by chance these are its results: then not twice */
        SW_TRY(run_over(&c, kernel, fills[1]));
        const int k = unwritten(&c, fills[1]);
        if (k >= 0)
            SW_FAIL(SW_INVALID, "its kernel writes nothing of output %d (%zu bytes)", k,
                    c.out_span[k].bytes);
    }
    for (int k = 0; k < launch->n_out; k++)
        if (c.guarded[k] != NULL)
            memcpy(c.out_span[k].at, c.guarded[k], c.out_span[k].bytes);
    return SW_OK;
}

/* One kernel at a time: checks are not for speed. */
sw_status swi_guarded(swi_guard *g, sw_kernel *kernel, const sw_launch *launch)
{
    (void)pthread_mutex_lock(&g->mutex);
    const sw_status status = run_guarded(g, kernel, launch);
    (void)pthread_mutex_unlock(&g->mutex);
    return status;
}
