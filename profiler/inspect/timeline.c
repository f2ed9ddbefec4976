/* Recorded runs in memory: programs, runs, names, the layers among scopes; and the walk over
 * their events. */
#include "alloc/base/assert.h"
#include "alloc/base/map.h"
#include "alloc/base/mem.h"
#include "alloc/base/order.h"
#include "alloc/base/size.h"
#include "profiler/inspect/timeline.h"
#include "profiler/record/record.h"
#include "profiler/record/utf8.h"
#include <stdio.h>
#include <string.h>

/* ---- layers ------------------------------------------------------------------------------ */

#define FORWARD 1       /* phase */
#define LAYERS_MAX 4096 /* more are left as they are */

/* A layer of a program; the address identifies a string of a timeline. */
typedef struct {
    const char *path, *home; /* home: where it belongs; NULL: here */
    bool forward;            /* an op of the forward pass is in it */
} layer_home;

typedef struct {
    layer_home *at;
    uint32_t n, cap, last; /* last: found last, most ops follow one of their own layer */
} layers;

static sw_status find(layers *x, const char *path, layer_home **out)
{
    if (x->n == 0 || x->at[x->last].path != path)
        for (x->last = 0; x->last < x->n && x->at[x->last].path != path; x->last++)
            ;
    if (x->last == x->n) {
        SW_TRY(sw_heap_reserve(&x->at, SW_HEAP_PROFILE, &x->cap, x->n + 1));
        x->at[x->n++] = (layer_home){.path = path};
    }
    *out = &x->at[x->last];
    return SW_OK;
}

static sw_status find_home(sw_timeline *t, const layers *x, layer_home *l)
{
    const size_t length = strlen(l->path);
    const char *home = NULL; /* the only scope of that name in others, `bytes` long */
    size_t bytes = 0;
    uint32_t n = 0;
    void *path;
    if (*l->path == '\0' || l->forward || strchr(l->path, '/') != NULL)
        return SW_OK;
    for (uint32_t i = 0; i < x->n; i++) {
        const char *of = x->at[i].path, *at = of;
        if (strncmp(of, l->path, length) == 0 && of[length] == '/')
            return SW_OK; /* it has inner ones */
        size_t here = 0;
        while (here == 0 && (at = strchr(at, '/')) != NULL)
            if (strncmp(++at, l->path, length) == 0 &&
                (at[length] == '/' || at[length] == '\0'))
                here = (size_t)(at - of) + length;
        if (here == 0 || (home != NULL && here == bytes && strncmp(home, of, here) == 0))
            continue;
        home = of;
        bytes = here;
        n++;
    }
    if (n != 1)
        return SW_OK;
    SW_TRY(sw_timeline_alloc(t, &path, bytes + 1, 1));
    memcpy(path, home, bytes);
    return sw_timeline_string(t, &l->home, path);
}

static sw_status move(layers *x, const char **path)
{
    layer_home *l;
    SW_TRY(find(x, *path, &l));
    if (l->home != NULL)
        *path = l->home;
    return SW_OK;
}

static sw_status assign(sw_timeline *t, sw_tl_program *p, layers *x)
{
    layer_home *found;
    for (uint32_t i = 0; i < p->n_ops && x->n <= LAYERS_MAX; i++) {
        SW_TRY(find(x, p->ops[i].layer, &found));
        found->forward |= p->ops[i].phase == FORWARD;
    }
    for (uint32_t i = 0; i < p->n_values && x->n <= LAYERS_MAX; i++)
        SW_TRY(find(x, p->values[i].layer, &found));

    if (x->n > LAYERS_MAX)
        return SW_OK;
    uint32_t homes = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        SW_TRY(find_home(t, x, &x->at[i]));
        homes += x->at[i].home != NULL;
    }
    for (uint32_t i = 0; i < p->n_ops && homes > 0; i++)
        SW_TRY(move(x, &p->ops[i].layer));
    for (uint32_t i = 0; i < p->n_values && homes > 0; i++)
        SW_TRY(move(x, &p->values[i].layer));
    return SW_OK;
}

sw_status timeline_assign_layers(sw_timeline *t, sw_tl_program *p)
{
    layers x = {0};
    const sw_status status = assign(t, p, &x);
    sw_heap_free(x.at, SW_HEAP_PROFILE, x.cap * sizeof *x.at);
    return status;
}

#define BLOCK_BYTES ((size_t)64 << 10)
#define LARGEST_ADDRESS ((uint64_t)1 << 40) /* of a segment: made addresses do not overlap */

/* ---- what owns it ------------------------------------------------------------------------ */

typedef struct block {
    struct block *next;
    size_t bytes, used; /* of the whole block, this head included */
} block;

typedef struct {
    block *first;
    sw_map strings;
    uint32_t cap_programs, cap_runs;
} owner;

sw_status sw_timeline_new(sw_timeline **out)
{
    void *t, *o;
    SW_TRY(sw_heap_alloc(&t, SW_HEAP_PROFILE, sizeof(sw_timeline)));
    const sw_status status = sw_heap_alloc(&o, SW_HEAP_PROFILE, sizeof(owner));
    if (status != SW_OK) {
        sw_heap_free(t, SW_HEAP_PROFILE, sizeof(sw_timeline));
        return status;
    }
    *out = t;
    **out =
        (sw_timeline)SW_INIT(.tool = "stepwell", .path = "", .model = "", .device = "",
                             .data = "", .normalise = "", .scores = "", .created = "",
                             .command = "", .ended = "", .why = "", .batch = -1, .blocks = o);
    return SW_OK;
}

void sw_timeline_free(sw_timeline *t)
{
    if (t == NULL)
        return;
    owner *o = t->blocks;
    for (block *b = o->first; b != NULL;) {
        block *next = b->next;
        sw_heap_free(b, SW_HEAP_PROFILE, b->bytes);
        b = next;
    }
    sw_map_free(&o->strings, SW_HEAP_PROFILE);
    sw_heap_free(t->programs, SW_HEAP_PROFILE, o->cap_programs * sizeof *t->programs);
    sw_heap_free(t->runs, SW_HEAP_PROFILE, o->cap_runs * sizeof *t->runs);
    sw_heap_free(o, SW_HEAP_PROFILE, sizeof *o);
    sw_heap_free(t, SW_HEAP_PROFILE, sizeof *t);
}

#define HEAD ((sizeof(block) + 15) / 16 * 16)

static sw_status take_bytes(owner *o, void **out, size_t bytes)
{
    size_t wanted, with_head;
    if (!sw_size_align(bytes, 16, &wanted) || !sw_size_add(wanted, HEAD, &with_head))
        SW_FAIL(SW_NOMEM, "a timeline of more bytes than there are");
    if (o->first == NULL || o->first->bytes - o->first->used < wanted) {
        block *b;
        const size_t all = with_head > BLOCK_BYTES ? with_head : BLOCK_BYTES;
        SW_TRY(sw_heap_alloc(&b, SW_HEAP_PROFILE, all));
        *b = (block){o->first, all, HEAD};
        /* A large block is full at once: what has room stays in front. */
        if (o->first != NULL && all > BLOCK_BYTES) {
            b->next = o->first->next;
            o->first->next = b;
            *out = (unsigned char *)b + b->used;
            b->used = all;
            return SW_OK;
        }
        o->first = b;
    }
    SW_ASSERT(o->first->used <= o->first->bytes && wanted <= o->first->bytes - o->first->used);
    SW_ASSERT(o->first->used % 16 == 0);
    *out = (unsigned char *)o->first + o->first->used;
    o->first->used += wanted;
    return SW_OK;
}

sw_status sw_timeline_alloc(sw_timeline *t, void *out, size_t n, size_t size)
{
    void *room;
    size_t bytes;
    if (!sw_size_mul(n, size, &bytes))
        SW_FAIL(SW_NOMEM, "a timeline of %zu times %zu bytes overflows", n, size);
    SW_TRY(take_bytes(t->blocks, &room, bytes));
    memcpy(out, &room, sizeof room);
    return SW_OK;
}

sw_status sw_timeline_reserve(sw_timeline *t, void *list, uint32_t *cap, uint32_t n,
                              size_t size)
{
    void *now, *more;
    if (n <= *cap)
        return SW_OK;
    memcpy(&now, list, sizeof now);
    SW_TRY(sw_timeline_alloc(t, &more, n < 8 ? 16 : 2 * (size_t)n, size));
    if (*cap > 0)
        memcpy(more, now, *cap * size);
    memcpy(list, &more, sizeof more);
    *cap = n < 8 ? 16 : 2 * n;
    return SW_OK;
}

sw_status sw_timeline_string(sw_timeline *t, const char **out, const char *text)
{
    owner *o = t->blocks;
    if (text == NULL || *text == '\0') {
        *out = "";
        return SW_OK;
    }
    SW_TRY(sw_map_room(&o->strings, SW_HEAP_PROFILE, o->strings.n + 1));
    const size_t n = strlen(text) + 1;
    void *clean;
    SW_TRY(take_bytes(o, &clean, n));
    sw_utf8_clean(clean, n, text);
    const sw_map_slot *known = sw_map_find(&o->strings, clean, strlen(clean));
    *out = known != NULL ? known->text : clean;
    if (known == NULL) {
        (void)sw_map_add(&o->strings, clean, strlen(clean), 0);
    } else {
        memset(clean, 0, n); /* as the next who takes it expects it */
        o->first->used -= n <= BLOCK_BYTES / 2 ? (n + 15) / 16 * 16 : 0;
    }
    return SW_OK;
}

sw_status sw_timeline_add_program(sw_timeline *t, sw_tl_program **out)
{
    owner *o = t->blocks;
    SW_TRY(sw_heap_reserve(&t->programs, SW_HEAP_PROFILE, &o->cap_programs, t->n_programs + 1));
    *out = &t->programs[t->n_programs++];
    **out = (sw_tl_program){.run = "", .batch = -1};
    return SW_OK;
}

sw_status sw_timeline_add_run(sw_timeline *t, sw_tl_run **out)
{
    owner *o = t->blocks;
    if (t->n_runs >= UINT32_MAX - 1)
        SW_FAIL(SW_UNSUPPORTED, "a timeline must have at most %u runs", UINT32_MAX - 1);
    SW_TRY(sw_heap_reserve(&t->runs, SW_HEAP_PROFILE, &o->cap_runs, (uint32_t)t->n_runs + 1));
    *out = &t->runs[t->n_runs++];
    **out = (sw_tl_run){.at_ns = SW_TL_AFTER};
    return SW_OK;
}

/* ---- order ------------------------------------------------------------------------------- */

#define WRONG(...) SW_FAIL(SW_FORMAT, __VA_ARGS__)

static int rank(const sw_tensor *v)
{
    return v->segment == SW_SEGMENT_MODEL ? 0 : v->segment == SW_SEGMENT_INPUT ? 1 : 2;
}

static sw_status sorted(sw_timeline *t, const sw_tl_program *p, bool death,
                        const uint32_t **out)
{
    const size_t n = p->n_values, bytes = n * (sizeof(uint64_t) + sizeof(uint32_t));
    uint32_t *order;
    uint64_t *key;
    SW_TRY(sw_timeline_alloc(t, &order, n, sizeof *order));
    SW_TRY(sw_heap_alloc(&key, SW_HEAP_PROFILE, bytes));
    for (size_t i = 0; i < n; i++)
        key[i] = death ? p->values[i].death : p->values[i].id;
    sw_order_numbers(order, n);
    sw_order_by_keys(order, (uint32_t *)(key + n), key, n, NULL, NULL);
    sw_heap_free(key, SW_HEAP_PROFILE, bytes);
    *out = order;
    return SW_OK;
}

uint32_t sw_timeline_value(const sw_tl_program *p, uint32_t id)
{
    uint32_t low = 0, high = p->n_values;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (p->values[p->by_id[middle]].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->n_values && p->values[p->by_id[low]].id == id ? p->by_id[low] : SW_TL_NONE;
}

sw_status sw_timeline_finish_program(sw_timeline *t, sw_tl_program *p)
{
    if (p->by_id != NULL)
        return SW_OK;
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].phase >= SW_PROF_PHASES)
            WRONG("%s: op %u (%s) is in no phase", t->path, i, p->ops[i].name);
    for (uint32_t i = 0; i < p->n_values; i++) {
        uint64_t end;
        if (p->values[i].birth > p->values[i].death || p->values[i].death > p->n_ops ||
            (unsigned)p->values[i].segment >= SW_SEGMENTS)
            WRONG("%s: value %u (%s) lives from op %u to %u of %u", t->path, p->values[i].id,
                  p->values[i].name, p->values[i].birth, p->values[i].death, p->n_ops);
        if (__builtin_add_overflow(p->values[i].bytes, p->values[i].padding, &end) ||
            __builtin_add_overflow(end, p->values[i].offset, &end) || end > LARGEST_ADDRESS)
            WRONG("%s: value %u (%s) ends past %llu bytes", t->path, p->values[i].id,
                  p->values[i].name, (unsigned long long)LARGEST_ADDRESS);
    }
    /* Model, inputs, then by birth; stable. Counting: places 0 and 1 are model and inputs. */
    const size_t places = (size_t)p->n_ops + 4;
    sw_tensor *to;
    uint32_t *first;
    SW_TRY(sw_timeline_alloc(t, &to, p->n_values, sizeof *p->values));
    SW_TRY(sw_heap_alloc(&first, SW_HEAP_PROFILE, places * sizeof(uint32_t)));
    for (uint32_t j = 0; j < p->n_values; j++) {
        const sw_tensor *v = &p->values[j];
        first[(rank(v) < 2 ? (size_t)rank(v) : (size_t)v->birth + 2) + 1]++;
    }
    p->n_model = first[1];
    p->n_input = first[2];
    for (size_t j = 1; j < places; j++)
        first[j] += first[j - 1];
    for (uint32_t j = 0; j < p->n_values; j++) {
        const sw_tensor *v = &p->values[j];
        to[first[rank(v) < 2 ? (size_t)rank(v) : (size_t)v->birth + 2]++] = *v;
    }
    SW_ASSERT(first[places - 2] == p->n_values && p->n_model + p->n_input <= p->n_values);
    p->values = to;
    sw_heap_free(first, SW_HEAP_PROFILE, places * sizeof(uint32_t));

    SW_TRY(sorted(t, p, true, &p->by_death));
    SW_TRY(sorted(t, p, false, &p->by_id));
    for (uint32_t i = 0; i < p->n_values; i++) {
        sw_tensor *v = &p->values[i];
        if (i > 0 && p->values[p->by_id[i]].id == p->values[p->by_id[i - 1]].id)
            WRONG("%s: two values have the number %u", t->path, p->values[p->by_id[i]].id);
        if (v->alias == SW_TL_NONE)
            continue;
        const uint32_t at = sw_timeline_value(p, v->alias);
        if (at == SW_TL_NONE || at == i)
            WRONG("%s: value %u (%s) takes the place of %u, which is not there", t->path, v->id,
                  v->name, v->alias);
        v->alias = at;
    }
    if (p->n_ops > 0 && p->peak_op >= p->n_ops)
        WRONG("%s: the peak is at op %u of %u", t->path, p->peak_op, p->n_ops);
    if (p->peak_bytes > 0)
        return SW_OK;
    /* A trace predicts nothing: its peak is what its values say. */
    uint64_t *curve;
    SW_TRY(sw_heap_alloc(&curve, SW_HEAP_PROFILE, p->n_ops * sizeof(uint64_t)));
    sw_timeline_curve(p, NULL, NULL, curve);
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (curve[i] > p->peak_bytes) {
            p->peak_bytes = curve[i];
            p->peak_op = i;
        }
    sw_heap_free(curve, SW_HEAP_PROFILE, p->n_ops * sizeof(uint64_t));
    return SW_OK;
}

sw_status sw_timeline_finish(sw_timeline *t)
{
    uint64_t now = 0;
    for (uint32_t i = 0; i < t->n_programs; i++)
        SW_TRY(sw_timeline_finish_program(t, &t->programs[i]));
    for (size_t k = 0; k < t->n_runs; k++) {
        sw_tl_run *run = &t->runs[k];
        if (run->program >= t->n_programs)
            WRONG("%s: a run of step %llu has no program", t->path,
                  (unsigned long long)run->step);
        const sw_tl_program *p = &t->programs[run->program];
        for (size_t i = 0; i < run->n_log; i++) {
            const sw_record *e = &run->log[i];
            if (e->kind >= SW_RECORD_KINDS ||
                (e->kind == SW_RECORD_PHASE && e->id >= SW_PROF_PHASES) ||
                (e->kind == SW_RECORD_OP && e->id >= p->n_ops))
                WRONG("%s: event %zu of step %llu is none", t->path, i,
                      (unsigned long long)run->step);
            if (i == 0 && e->kind == SW_RECORD_RUN)
                run->at_ns = sw_record_ns(e);
        }
        if (run->clock == SW_TL_UNTIMED && run->n_log == 0)
            run->ns = (uint64_t)p->n_ops * 1000;
        if (run->at_ns == SW_TL_AFTER || run->at_ns < now)
            run->at_ns = now;
        if (__builtin_add_overflow(run->at_ns, run->ns, &now) || now > (uint64_t)1 << 62)
            WRONG("%s: step %llu ends past all time", t->path, (unsigned long long)run->step);
    }
    return SW_OK;
}

/* ---- questions --------------------------------------------------------------------------- */

bool sw_timeline_is_ours(const sw_timeline *t)
{
    return strcmp(t->tool, "stepwell") == 0;
}

uint64_t sw_timeline_height(const sw_tl_program *p)
{
    return p->measured ? p->measured_bytes : p->peak_bytes;
}

const sw_tl_program *sw_timeline_peak(const sw_timeline *t)
{
    const sw_tl_program *best = NULL;
    uint64_t rank[2][5]; /* of the best so far, and of the next */
    for (uint32_t i = 0; i < t->n_programs; i++) {
        const sw_tl_program *p = &t->programs[i];
        int k = 0;
        rank[1][0] = p->ran || (t->measured && p->peak_bytes <= t->measured_bytes);
        rank[1][1] = sw_timeline_height(p);
        rank[1][2] = p->ran;
        rank[1][3] = p->peak_bytes;
        rank[1][4] = strcmp(p->run, "eval") != 0;
        while (best != NULL && k < 4 && rank[0][k] == rank[1][k])
            k++;
        if (best != NULL && rank[1][k] <= rank[0][k])
            continue;
        best = p;
        memcpy(rank[0], rank[1], sizeof rank[0]);
    }
    return best;
}

void sw_timeline_curve(const sw_tl_program *p, bool (*of)(void *context, const sw_tensor *v),
                       void *context, uint64_t *out)
{
    memset(out, 0, p->n_ops * sizeof *out);
    for (uint32_t i = 0; i < p->n_values; i++) {
        const sw_tensor *v = &p->values[i];
        if (v->alias != SW_TL_NONE || v->birth >= p->n_ops || (of != NULL && !of(context, v)))
            continue;
        out[v->birth] += v->bytes + v->padding;
        if (v->death + 1 < p->n_ops)
            out[v->death + 1] -= v->bytes + v->padding; /* modulo 2^64, as the sum below */
    }
    for (uint32_t i = 1; i < p->n_ops; i++)
        out[i] += out[i - 1];
}

uint32_t sw_timeline_roles(const sw_timeline *t, const char **out, uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_programs; i++)
        for (uint32_t k = 0; k < t->programs[i].n_values; k++) {
            const char *role = t->programs[i].values[k].role;
            uint32_t at = 0;
            while (at < n && strcmp(out[at], role) < 0)
                at++;
            if ((at < n && strcmp(out[at], role) == 0) || n == most)
                continue;
            memmove(out + at + 1, out + at, (n - at) * sizeof *out);
            out[at] = role;
            n++;
        }
    return n;
}

/* ---- the walk ---------------------------------------------------------------------------- */

/* The walk over a timeline. Runs with a log are what the log says; others are what their
 * program says: births at the begin of an op, deaths at its end. */

#define DEPTH 64 /* scopes; deeper ones have no slice of their own */
#define TICK_NS 1000

typedef struct {
    sw_status (*take)(void *context, const sw_tl_event *e);
    void *context;
    sw_tl_event event;           /* what stays from one event to the next */
    const sw_tl_program *models; /* whose model lives; NULL: none */
    int phase;                   /* open; -1: none */
    uint32_t op;                 /* open; or none */
    const char *layer;           /* open */
    struct {
        size_t at, n;
    } scope[DEPTH];
    uint32_t n_scopes;
    uint32_t *live; /* values of the run in order of birth, with holes; two places for each */
    size_t n_live;
    size_t *position;  /* of a value in `live`, plus one; 0: it does not live */
    uint32_t capacity; /* values */
    sw_status status;
} walk;

static void emit(walk *w, sw_tl_kind kind, uint32_t index, const char *name)
{
    if (w->status != SW_OK)
        return;
    w->event.kind = kind;
    w->event.index = index;
    w->event.name = name;
    w->status = w->take(w->context, &w->event);
}

static void state_value(walk *w, sw_tl_kind kind, uint32_t index)
{
    const sw_tensor *v = &w->event.program->values[index];
    static const uint64_t base[SW_SEGMENTS] = {
        [SW_SEGMENT_STEP] = (uint64_t)1 << 40,
        [SW_SEGMENT_MODEL] = (uint64_t)2 << 40,
        [SW_SEGMENT_INPUT] = (uint64_t)3 << 40,
    };
    const uint64_t bytes = v->bytes + v->padding;
    w->event.address = base[v->segment] + v->offset;
    w->event.bytes = bytes;
    SW_ASSERT(kind != SW_TL_FREE || w->event.live >= bytes);
    w->event.live += kind == SW_TL_ALLOC ? bytes : kind == SW_TL_FREE ? -bytes : 0;
    emit(w, kind, index, v->name);
    w->event.address = w->event.bytes = 0;
}

static void give_birth(walk *w, uint32_t index)
{
    if (w->position[index] != 0)
        return; /* born twice without a death: a log that lost something */
    if (w->n_live == 2 * (size_t)w->capacity) {
        /* Values that come and go in turn leave holes without end: at least half are holes
         * here. */
        size_t n = 0;
        for (size_t i = 0; i < w->n_live; i++)
            if (w->live[i] != SW_TL_NONE) {
                w->live[n++] = w->live[i];
                w->position[w->live[i]] = n;
            }
        w->n_live = n;
    }
    w->live[w->n_live++] = index;
    w->position[index] = w->n_live;
    state_value(w, SW_TL_ALLOC, index);
}

static void kill(walk *w, uint32_t index)
{
    const size_t at = w->position[index];
    if (at == 0)
        return;
    w->live[at - 1] = SW_TL_NONE;
    w->position[index] = 0;
    while (w->n_live > 0 && w->live[w->n_live - 1] == SW_TL_NONE)
        w->n_live--;
    state_value(w, SW_TL_FREE, index);
}

static void leave_op(walk *w)
{
    if (w->op != SW_TL_NONE)
        emit(w, SW_TL_OP_END, w->op, w->event.program->ops[w->op].name);
    w->op = SW_TL_NONE;
}

static void state_scope(walk *w, sw_tl_kind kind, uint32_t i)
{
    char name[256];
    const size_t n = w->scope[i].n < sizeof name - 1 ? w->scope[i].n : sizeof name - 1;
    memcpy(name, w->layer + w->scope[i].at, n);
    name[n] = '\0';
    emit(w, kind, SW_TL_NONE, name);
}

static void leave_scopes(walk *w, uint32_t down_to)
{
    while (w->n_scopes > down_to)
        state_scope(w, SW_TL_LAYER_END, --w->n_scopes);
}

/* From the scopes that are open to those of `layer`. */
static void enter_layer(walk *w, const char *layer)
{
    uint32_t same = 0;
    size_t at = 0;
    if (layer == w->layer)
        return;
    while (same < w->n_scopes) {
        const size_t n = strcspn(layer + at, "/");
        if (w->scope[same].n != n || memcmp(w->layer + w->scope[same].at, layer + at, n) != 0 ||
            layer[at] == '\0')
            break;
        at += n + (layer[at + n] == '/');
        same++;
    }
    leave_scopes(w, same);
    w->layer = layer;
    while (layer[at] != '\0' && w->n_scopes < DEPTH) {
        const size_t n = strcspn(layer + at, "/");
        w->scope[w->n_scopes].at = at;
        w->scope[w->n_scopes].n = n;
        if (n > 0)
            state_scope(w, SW_TL_LAYER_BEGIN, w->n_scopes++);
        at += n + (layer[at + n] == '/');
    }
}

static void leave_phase(walk *w)
{
    leave_op(w);
    leave_scopes(w, 0);
    w->layer = "";
    if (w->phase >= 0)
        emit(w, SW_TL_PHASE_END, (uint32_t)w->phase, sw_prof_phase_name(w->phase));
    w->phase = -1;
}

static void enter_phase(walk *w, int phase)
{
    if (phase == w->phase)
        return;
    leave_phase(w);
    w->phase = phase;
    emit(w, SW_TL_PHASE_BEGIN, (uint32_t)phase, sw_prof_phase_name(phase));
}

static void enter_op(walk *w, uint32_t op)
{
    const sw_tl_op *x = &w->event.program->ops[op];
    leave_op(w);
    enter_phase(w, x->phase);
    enter_layer(w, x->layer);
    w->op = op;
    emit(w, SW_TL_OP_BEGIN, op, x->name);
}

static void advance(walk *w, uint64_t ns)
{
    w->event.ns = ns > w->event.ns ? ns : w->event.ns;
}

/* The model of `p` lives from here on; NULL: none. */
static void change_models(walk *w, const sw_tl_program *p)
{
    bool same = p != NULL && w->models != NULL && p->n_model == w->models->n_model;
    for (uint32_t i = 0; same && i < p->n_model; i++) {
        const sw_tensor *x = &p->values[i], *y = &w->models->values[i];
        same = x->bytes == y->bytes && x->padding == y->padding && x->offset == y->offset &&
               strcmp(x->name, y->name) == 0;
    }
    if (same)
        return;
    w->event.program = w->models;
    for (uint32_t i = w->models != NULL ? w->models->n_model : 0; i > 0; i--)
        state_value(w, SW_TL_FREE, i - 1);
    w->event.program = w->models = p;
    for (uint32_t i = 0; p != NULL && i < p->n_model; i++)
        state_value(w, SW_TL_ALLOC, i);
}

static sw_status reserve(walk *w, uint32_t n)
{
    if (n <= w->capacity)
        return SW_OK;
    void *live = w->live, *position;
    SW_TRY(sw_heap_alloc(&position, SW_HEAP_PROFILE, n * sizeof *w->position));
    const sw_status status =
        sw_heap_resize(&live, SW_HEAP_PROFILE, 2 * (size_t)w->capacity * sizeof *w->live,
                       2 * (size_t)n * sizeof *w->live);
    if (status != SW_OK) {
        sw_heap_free(position, SW_HEAP_PROFILE, n * sizeof *w->position);
        return status;
    }
    sw_heap_free(w->position, SW_HEAP_PROFILE, w->capacity * sizeof *w->position);
    w->live = live;
    w->position = position;
    w->capacity = n;
    return SW_OK;
}

/* Values that begin at this op: they are in order of birth from *next on. */
static void births(walk *w, uint32_t op, uint32_t *next)
{
    const sw_tl_program *p = w->event.program;
    for (; *next < p->n_values && p->values[*next].birth <= op; ++*next) {
        if (p->values[*next].alias != SW_TL_NONE)
            state_value(w, SW_TL_REUSE, *next);
        else
            give_birth(w, *next);
    }
}

static void deaths(walk *w, uint32_t op, uint32_t *next)
{
    const sw_tl_program *p = w->event.program;
    for (; *next < p->n_values && p->values[p->by_death[*next]].death <= op; ++*next) {
        const uint32_t v = p->by_death[*next];
        if (v >= p->n_model + p->n_input)
            kill(w, v);
    }
}

static void walk_program(walk *w, const sw_tl_run *run)
{
    const sw_tl_program *p = w->event.program;
    uint32_t next_birth = p->n_model + p->n_input, next_death = 0;
    uint64_t ops_of[SW_PROF_PHASES] = {0}, done_of[SW_PROF_PHASES] = {0};
    uint64_t past = 0; /* of the phase's time, where phases share it */
    for (uint32_t i = 0; i < p->n_ops; i++)
        ops_of[p->ops[i].phase]++;
    uint64_t now = run->at_ns;
    for (uint32_t i = 0; i < p->n_ops && w->status == SW_OK; i++) {
        const uint8_t f = p->ops[i].phase;
        advance(w, now);
        enter_op(w, i);
        births(w, i, &next_birth);
        past =
            run->clock == SW_TL_OPS ? run->op_ns[i]
            : run->clock == SW_TL_UNTIMED
                ? TICK_NS
                : (uint64_t)((unsigned __int128)run->phase[f].ns * (done_of[f] + 1) /
                             ops_of[f]) -
                      (uint64_t)((unsigned __int128)run->phase[f].ns * done_of[f] / ops_of[f]);
        done_of[f]++;
        now += past;
        advance(w, now);
        deaths(w, i, &next_death);
    }
}

static void walk_log(walk *w, const sw_tl_run *run)
{
    const sw_tl_program *p = w->event.program;
    for (size_t i = 0; i < run->n_log && w->status == SW_OK; i++) {
        const sw_record *e = &run->log[i];
        const uint64_t clock = sw_record_ns(e);
        const bool edge = e->kind <= SW_RECORD_OP || e->kind == SW_RECORD_END;
        const uint32_t v = edge ? SW_TL_NONE : sw_timeline_value(p, e->id);
        if (edge)
            advance(w, clock);
        if (e->kind == SW_RECORD_PHASE)
            enter_phase(w, (int)e->id);
        else if (e->kind == SW_RECORD_OP)
            enter_op(w, e->id);
        else if (v == SW_TL_NONE)
            continue;
        else if (e->kind == SW_RECORD_REUSE)
            state_value(w, SW_TL_REUSE, v);
        else if (e->kind == SW_RECORD_PLACE || e->kind == SW_RECORD_PUSH)
            give_birth(w, v);
        else if (e->kind == SW_RECORD_RELEASE)
            kill(w, v);
    }
}

static void walk_run(walk *w, const sw_timeline *t, const sw_tl_run *run)
{
    const sw_tl_program *p = &t->programs[run->program];
    char name[48];
    w->event.run = run;
    advance(w, run->at_ns);
    change_models(w, p);
    w->status = w->status == SW_OK ? reserve(w, p->n_values) : w->status;
    if (w->status != SW_OK)
        return;
    w->event.program = p;
    memset(w->position, 0, p->n_values * sizeof *w->position);
    snprintf(name, sizeof name, run->micro > 0 ? "step %llu.%llu" : "step %llu",
             (unsigned long long)run->step, (unsigned long long)run->micro);
    emit(w, SW_TL_STEP_BEGIN, SW_TL_NONE, name);
    for (uint32_t i = p->n_model; i < p->n_model + p->n_input; i++)
        give_birth(w, i);
    if (run->n_log > 0)
        walk_log(w, run);
    else
        walk_program(w, run);
    advance(w, run->at_ns + run->ns);
    leave_phase(w);
    while (w->n_live > 0)
        kill(w, w->live[w->n_live - 1]);
    SW_ASSERT(w->status != SW_OK || (w->n_live == 0 && w->op == SW_TL_NONE));
    emit(w, SW_TL_STEP_END, SW_TL_NONE, name);
}

sw_status sw_timeline_walk(const sw_timeline *t,
                           sw_status (*take)(void *context, const sw_tl_event *e),
                           void *context)
{
    walk w = {.take = take, .context = context, .phase = -1, .op = SW_TL_NONE, .layer = ""};
    for (size_t i = 0; i < t->n_runs && w.status == SW_OK; i++)
        walk_run(&w, t, &t->runs[i]);
    change_models(&w, NULL);
    SW_ASSERT(w.status != SW_OK || w.event.live == 0);
    sw_heap_free(w.live, SW_HEAP_PROFILE, 2 * (size_t)w.capacity * sizeof *w.live);
    sw_heap_free(w.position, SW_HEAP_PROFILE, w.capacity * sizeof *w.position);
    return w.status;
}
