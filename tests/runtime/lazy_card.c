/* See lazy_card.h. */
#include "tests/runtime/lazy_card.h"
#include "tests/runtime/nets.h"
#include <stdlib.h>
#include <string.h>

#define MOST_ATTRS 512

typedef enum { NOTHING, COPY, FILL, KERNEL, RECORD, AFTER, GRAPH } kind;

typedef struct stream stream;
struct sw_cuda_event {
    lazy_card *card;
    stream *on;
    uint64_t issued, executed, at;
};

typedef struct {
    sw_kernel *kernel;
    sw_launch launch;
    sw_buffer buffers[SWI_MAX_OPERANDS];
    _Alignas(16) unsigned char attrs[MOST_ATTRS];
    const sw_cuda_counters *counters;
} kernel_call;

typedef struct {
    kind what;
    void *to;
    const void *from;
    size_t bytes;
    int byte;
    sw_cuda_event *event;
    uint64_t target;
    sw_cuda_graph *graph;
    kernel_call *call;
} work;

typedef struct {
    work *at;
    size_t n, cap, done;
} list;

struct sw_cuda_graph {
    lazy_card *card;
    list list;
};

struct stream {
    lazy_card *card;
    list list;
    sw_cuda_graph *captured; /* NULL: it runs */
};

static lazy_card the_card;
static stream *streams[16];

/* ---- putting off, and running ------------------------------------------------------------ */

static work *append(list *l)
{
    if (l->n == l->cap) {
        l->cap = l->cap == 0 ? 64 : 2 * l->cap;
        l->at = realloc(l->at, l->cap * sizeof *l->at);
        CU_ASSERT_PTR_NOT_NULL_FATAL(l->at);
    }
    memset(&l->at[l->n], 0, sizeof *l->at);
    return &l->at[l->n++];
}

static void empty(list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->at[i].call);
    free(l->at);
    *l = (list){0};
}

static stream *stream_of(const sw_cuda_queue *queue)
{
    return queue->stream;
}

static work *put(const sw_cuda_queue *queue, kind what)
{
    CU_ASSERT(the_card.current);
    stream *s = stream_of(queue);
    work *w = append(s->captured != NULL ? &s->captured->list : &s->list);
    w->what = what;
    return w;
}

static void run_one(stream *s);

/* From its first work on the memory is open, and is closed when the host has waited for the
 * last: not once for each. */
static void begin_work(void)
{
    if (!the_card.open)
        sw_test_device_open(&the_card.memory, true);
    the_card.open = true;
}

static void end_work(void)
{
    if (the_card.open)
        sw_test_device_open(&the_card.memory, false);
    the_card.open = false;
}

static void run_kernel(kernel_call *call)
{
    const uint32_t fp = swi_fp_enter(); /* as runs of the CPU have it, whoever waits */
    if (call->counters != NULL) {
        call->launch.step = call->counters->step;
        call->launch.run = call->counters->run;
    }
    SW_CHECK(call->kernel(&call->launch) == SW_OK, "a kernel fails: %s", sw_last_error());
    swi_fp_leave(fp);
}

/* A card that has failed does nothing any more. */
static void run_work(lazy_card *card, const work *w)
{
    card->clock += 1000;
    switch (card->broken && w->what != RECORD && w->what != GRAPH ? NOTHING : w->what) {
    case NOTHING:
        break;
    case COPY:
        memmove(w->to, w->from, w->bytes);
        break;
    case FILL:
        memset(w->to, w->byte, w->bytes);
        break;
    case KERNEL:
        run_kernel(w->call);
        break;
    case RECORD:
        w->event->executed++;
        w->event->at = card->clock;
        break;
    case AFTER:
        while (w->event->executed < w->target)
            run_one(w->event->on);
        break;
    case GRAPH:
        for (size_t i = 0; i < w->graph->list.n; i++)
            run_work(card, &w->graph->list.at[i]);
        break;
    }
}

static void run_one(stream *s)
{
    CU_ASSERT_FATAL(s->list.done < s->list.n); /* else it waits for what never comes */
    const work w = s->list.at[s->list.done++];
    begin_work();
    run_work(s->card, &w);
    if (s->list.done == s->list.n) {
        empty(&s->list);
    }
}

static void run_stream(stream *s)
{
    while (s->list.done < s->list.n)
        run_one(s);
    end_work();
}

static void run_all(void)
{
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i] != NULL)
            run_stream(streams[i]);
}

static bool capturing(void)
{
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i] != NULL && streams[i]->captured != NULL)
            return true;
    return false;
}

static sw_status fail(const char *name)
{
    lazy_card *c = &the_card;
    if (++c->calls != c->fail_at)
        return SW_OK;
    c->broken = c->fails == SW_DEVICE;
    SW_FAIL(c->fails, "lazy card: %s fails as planned", name);
}

/* Every call that can fail comes here first. */
static sw_status call(const char *name, bool in_captures)
{
    if (!in_captures && capturing())
        the_card.forbidden++;
    return the_card.fails == SW_DEVICE ? fail(name) : SW_OK;
}

/* Those that take memory can be refused too. */
static sw_status take(const char *name, bool in_captures)
{
    if (!in_captures && capturing())
        the_card.forbidden++;
    return fail(name);
}

/* ---- the card ---------------------------------------------------------------------------- */

static sw_status use(sw_cuda_device *device)
{
    (void)device;
    SW_TRY(call("use", true));
    the_card.current = true;
    return SW_OK;
}

static sw_status sync_card(sw_cuda_device *device)
{
    (void)device;
    SW_TRY(call("sync", false));
    the_card.current = true;
    the_card.waits++;
    run_all();
    return SW_OK;
}

static sw_status host_alloc(sw_cuda_device *device, void **out, size_t bytes)
{
    (void)device;
    SW_TRY(take("host_alloc", false));
    size_t *block = malloc(bytes + SW_ALIGN);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    *block = bytes;
    the_card.allocations++;
    the_card.host_blocks++;
    the_card.host_bytes += bytes;
    *out = (unsigned char *)block + SW_ALIGN;
    return SW_OK;
}

static void host_free(sw_cuda_device *device, void *block)
{
    (void)device;
    size_t *head = (size_t *)(void *)((unsigned char *)block - SW_ALIGN);
    the_card.host_blocks--;
    the_card.host_bytes -= *head;
    free(head);
}

static void add_stream(sw_cuda_queue *out)
{
    stream *s = calloc(1, sizeof *s);
    CU_ASSERT_PTR_NOT_NULL_FATAL(s);
    size_t i = 0;
    while (i < sizeof streams / sizeof *streams && streams[i] != NULL)
        i++;
    CU_ASSERT_FATAL(i < sizeof streams / sizeof *streams);
    s->card = &the_card;
    streams[i] = s;
    the_card.streams++;
    *out = (sw_cuda_queue){.stream = s};
}

static sw_status queue_create(sw_cuda_device *device, sw_cuda_queue *out, bool compute,
                              uint32_t flags)
{
    (void)device;
    (void)compute;
    SW_TRY(take("queue_create", false));
    the_card.allocations++;
    add_stream(out);
    out->flags = flags;
    return SW_OK;
}

static void queue_destroy(sw_cuda_device *device, sw_cuda_queue *queue)
{
    (void)device;
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i] == stream_of(queue))
            streams[i] = NULL;
    empty(&stream_of(queue)->list);
    free(queue->stream);
    queue->stream = NULL;
    the_card.streams--;
}

static sw_status queue_sync(sw_cuda_device *device, const sw_cuda_queue *queue)
{
    (void)device;
    SW_TRY(call("queue_sync", false));
    the_card.waits++;
    run_stream(stream_of(queue));
    return SW_OK;
}

static sw_status copy(const sw_cuda_queue *queue, void *to, const void *from, size_t bytes,
                      sw_cuda_way way)
{
    (void)way;
    SW_TRY(call("copy", true));
    work *w = put(queue, COPY);
    w->to = to;
    w->from = from;
    w->bytes = bytes;
    the_card.copies++;
    return SW_OK;
}

static sw_status fill(const sw_cuda_queue *queue, void *to, int byte, size_t bytes)
{
    SW_TRY(call("fill", true));
    work *w = put(queue, FILL);
    w->to = to;
    w->byte = byte;
    w->bytes = bytes;
    return SW_OK;
}

/* ---- events ------------------------------------------------------------------------------ */

static sw_status event_create(sw_cuda_device *device, sw_cuda_event **out, bool clock)
{
    (void)device;
    (void)clock;
    SW_TRY(take("event_create", false));
    *out = calloc(1, sizeof **out);
    CU_ASSERT_PTR_NOT_NULL_FATAL(*out);
    the_card.allocations++;
    the_card.events++;
    return SW_OK;
}

static void event_destroy(sw_cuda_event *event)
{
    the_card.events--;
    free(event);
}

static sw_status record(sw_cuda_event *event, const sw_cuda_queue *queue)
{
    SW_TRY(call("record", true));
    put(queue, RECORD)->event = event;
    event->on = stream_of(queue);
    if (event->on->captured == NULL)
        event->issued++;
    return SW_OK;
}

static sw_status after(const sw_cuda_queue *queue, sw_cuda_event *event)
{
    SW_TRY(call("after", true));
    work *w = put(queue, AFTER);
    w->event = event;
    w->target = event->issued;
    return SW_OK;
}

/* Lazy: what no one waits for is never done. */
static sw_status done(sw_cuda_event *event, bool *out)
{
    SW_TRY(call("done", false));
    *out = event->executed >= event->issued;
    return SW_OK;
}

static sw_status wait_for(sw_cuda_event *event)
{
    SW_TRY(call("wait", false));
    the_card.waits++;
    while (event->executed < event->issued)
        run_one(event->on);
    end_work();
    return SW_OK;
}

static sw_status between(sw_cuda_event *from, sw_cuda_event *to, uint64_t *ns)
{
    SW_TRY(call("between", false));
    CU_ASSERT(from->executed > 0 && to->executed > 0);
    CU_ASSERT(from->executed == from->issued && to->executed == to->issued);
    *ns = to->at - from->at;
    return SW_OK;
}

/* ---- graphs ------------------------------------------------------------------------------ */

static sw_status capture_begin(const sw_cuda_queue *queue)
{
    SW_TRY(call("capture_begin", false));
    sw_cuda_graph *graph = calloc(1, sizeof *graph);
    CU_ASSERT_PTR_NOT_NULL_FATAL(graph);
    CU_ASSERT_PTR_NULL(stream_of(queue)->captured);
    graph->card = &the_card;
    stream_of(queue)->captured = graph;
    return SW_OK;
}

static void graph_free(sw_cuda_graph *graph)
{
    empty(&graph->list);
    free(graph);
}

static sw_status capture_end(const sw_cuda_queue *queue, sw_cuda_graph **out)
{
    const sw_status status = take("capture_end", true);
    sw_cuda_graph *graph = stream_of(queue)->captured;
    stream_of(queue)->captured = NULL;
    if (status != SW_OK || out == NULL) {
        graph_free(graph);
        return status;
    }
    the_card.captures++;
    the_card.graphs++;
    *out = graph;
    return SW_OK;
}

static sw_status graph_launch(sw_cuda_graph *graph, const sw_cuda_queue *queue)
{
    SW_TRY(call("graph_launch", false));
    put(queue, GRAPH)->graph = graph;
    for (size_t i = 0; i < graph->list.n; i++)
        if (graph->list.at[i].what == RECORD) {
            graph->list.at[i].event->issued++;
            graph->list.at[i].event->on = stream_of(queue);
        }
    the_card.replays++;
    return SW_OK;
}

static size_t graph_nodes(const sw_cuda_graph *graph)
{
    return graph->list.n;
}

static void graph_destroy(sw_cuda_graph *graph)
{
    the_card.graphs--;
    graph_free(graph);
}

static sw_status info(sw_cuda_device *device, sw_cuda_info *out)
{
    (void)device;
    *out = the_card.device.info;
    return SW_OK;
}

static const sw_cuda_api api = {.info = info,
                                .use = use,
                                .sync = sync_card,
                                .host_alloc = host_alloc,
                                .host_free = host_free,
                                .queue_create = queue_create,
                                .queue_destroy = queue_destroy,
                                .queue_sync = queue_sync,
                                .copy = copy,
                                .fill = fill,
                                .event_create = event_create,
                                .event_destroy = event_destroy,
                                .record = record,
                                .after = after,
                                .done = done,
                                .wait = wait_for,
                                .between = between,
                                .capture_begin = capture_begin,
                                .capture_end = capture_end,
                                .graph_launch = graph_launch,
                                .graph_nodes = graph_nodes,
                                .graph_destroy = graph_destroy};

/* ---- entries: the CPU's kernels ---------------------------------------------------------- */

static void one_run(const sw_par *par, void (*body)(void *arg, int part), void *arg,
                    int n_parts)
{
    (void)par;
    for (int i = 0; i < n_parts; i++)
        body(arg, i);
}
static const sw_par one_thread = {1, one_run};

static void info_of(const sw_launch *l, sw_type *types, sw_kernel_info *info)
{
    for (int i = 0; i < l->n_in; i++)
        types[i] = l->in[i].type;
    for (int i = 0; i < l->n_out; i++)
        types[l->n_in + i] = l->out[i].type;
    *info = (sw_kernel_info){.in = types,
                             .out = types + l->n_in,
                             .n_in = l->n_in,
                             .n_out = l->n_out,
                             .attrs = l->attrs,
                             .threads = 1,
                             .accumulate = l->accumulate};
}

static sw_status launch(uint32_t op, int grad, const sw_launch *l, const sw_cuda_queue *queue)
{
    const sw_op_desc *desc = swi_op(op);
    sw_type types[SWI_MAX_OPERANDS];
    sw_kernel_info info;
    if (sw_cuda_states(queue))
        return SW_OK;
    SW_TRY(call(desc->name, true));
    the_card.launches++;
    info_of(l, types, &info);
    kernel_call *k = calloc(1, sizeof *k);
    CU_ASSERT_PTR_NOT_NULL_FATAL(k);
    sw_kernel *(*select)(const sw_kernel_info *) =
        grad < 0 ? desc->select : desc->grads[grad].select;
    k->kernel = select != NULL ? select(&info)
                : grad < 0     ? desc->forward
                               : desc->grads[grad].kernel;
    k->launch = *l;
    memcpy(k->buffers, l->in, (size_t)l->n_in * sizeof *l->in);
    memcpy(k->buffers + l->n_in, l->out, (size_t)l->n_out * sizeof *l->out);
    CU_ASSERT_FATAL(desc->attrs_bytes <= MOST_ATTRS);
    if (desc->attrs_bytes > 0)
        memcpy(k->attrs, l->attrs, desc->attrs_bytes);
    k->launch.in = k->buffers;
    k->launch.out = k->buffers + l->n_in;
    k->launch.attrs = k->attrs;
    k->launch.par = &one_thread;
    k->launch.isa = SW_ISA_BASE;
    k->launch.step = k->launch.run = UINT32_MAX; /* the card's counters say */
    k->counters = queue->counters;
    put(queue, KERNEL)->call = k;
    return SW_OK;
}

static size_t scratch(uint32_t op, int grad, const sw_kernel_info *info)
{
    const sw_op_desc *desc = swi_op(op);
    sw_kernel_info base = *info;
    base.threads = 1;
    base.isa = SW_ISA_BASE;
    size_t (*bytes)(const sw_kernel_info *) =
        grad < 0 ? desc->scratch_bytes : desc->grads[grad].scratch_bytes;
    return bytes != NULL ? bytes(&base) : 0;
}

/* An entry is not told which op it is of: one function for each. */
#define KERNEL_OF(name, which, tag)                                                            \
    static sw_status launch_##name##_##tag(const sw_launch *l, const sw_cuda_queue *q)         \
    {                                                                                          \
        return launch(SW_OP_##name, which, l, q);                                              \
    }                                                                                          \
    static size_t scratch_##name##_##tag(const sw_kernel_info *info, const sw_cuda_queue *q)   \
    {                                                                                          \
        (void)q;                                                                               \
        return scratch(SW_OP_##name, which, info);                                             \
    }
#define SW_OP(name, ...)                                                                       \
    KERNEL_OF(name, -1, forward)                                                               \
    KERNEL_OF(name, 0, g0)                                                                     \
    KERNEL_OF(name, 1, g1)                                                                     \
    KERNEL_OF(name, 2, g2)                                                                     \
    KERNEL_OF(name, 3, g3)                                                                     \
    KERNEL_OF(name, 4, g4)                                                                     \
    KERNEL_OF(name, 5, g5)                                                                     \
    KERNEL_OF(name, 6, g6)                                                                     \
    KERNEL_OF(name, 7, g7)
#include "runtime/ops.def"
#undef SW_OP

#define ENTRY_OF(name, which, tag)                                                             \
    {                                                                                          \
#name, which, launch_##name##_##tag, scratch_##name##_##tag, 1                         \
    }
#define SW_OP(name, ...)                                                                       \
    {ENTRY_OF(name, -1, forward), ENTRY_OF(name, 0, g0), ENTRY_OF(name, 1, g1),                \
     ENTRY_OF(name, 2, g2),       ENTRY_OF(name, 3, g3), ENTRY_OF(name, 4, g4),                \
     ENTRY_OF(name, 5, g5),       ENTRY_OF(name, 6, g6), ENTRY_OF(name, 7, g7)},
static const sw_cuda_entry entries[SW_OPS_INSIDE][SWI_DEVICE_KERNELS] = {
#include "runtime/ops.def"
};
#undef SW_OP

/* ---- its memory -------------------------------------------------------------------------- */

/* As the module does it, what gives memory back waits for the card. */
static sw_device_memory plain;

static void release(void *context, void *base, size_t bytes)
{
    run_all();
    plain.release(context, base, bytes);
}

static void give(void *context, void *block)
{
    run_all();
    plain.free(context, block);
}

static sw_status move(void *context, void *to, const void *from, size_t bytes)
{
    run_all();
    return plain.copy(context, to, from, bytes);
}

static void end_card(void *arg)
{
    lazy_card *c = arg;
    CU_ASSERT_EQUAL(c->device.users, 1);
    CU_ASSERT_EQUAL(c->memory.live_bytes, 0);
    CU_ASSERT_EQUAL(c->host_blocks, 0);
    CU_ASSERT_EQUAL(c->events, 0);
    CU_ASSERT_EQUAL(c->graphs, 0);
    CU_ASSERT_EQUAL(c->streams, 1); /* the device's own */
    CU_ASSERT_EQUAL(c->forbidden, 0);
    queue_destroy(NULL, &c->device.queue);
    (void)pthread_mutex_destroy(&c->device.lock);
}

lazy_card *lazy_card_new(bool mapped)
{
    lazy_card *c = &the_card;
    memset(c, 0, sizeof *c);
    c->fails = SW_DEVICE;
    c->memory = (sw_test_device){.step = mapped ? 4096 : 0, .closed = mapped};
    plain = sw_test_device_memory(&c->memory);
    c->device.memory = plain;
    c->device.memory.release = release;
    c->device.memory.free = give;
    c->device.memory.copy = move;
    c->device.backend = &swi_backend_cuda;
    c->device.api = &api;
    c->device.info = (sw_cuda_info){.name = "lazy",
                                    .major = 9,
                                    .can_map = mapped,
                                    .granularity = mapped ? 4096 : 0,
                                    .total_bytes = (size_t)64 << 20,
                                    .open_bytes = (size_t)60 << 20,
                                    .free_bytes = (size_t)60 << 20};
    c->device.users = 1; /* no one else closes it */
    (void)pthread_mutex_init(&c->device.lock, NULL);
    for (uint32_t op = 0; op < SW_OPS_INSIDE; op++)
        for (int g = 0; g < SWI_DEVICE_KERNELS; g++)
            if (g == 0 || g - 1 < swi_op(op)->n_grads)
                c->device.entries[op][g] = &entries[op][g];
    add_stream(&c->device.queue);
    sw_after(end_card, c);
    return c;
}

void lazy_card_forget(lazy_card *c)
{
    c->allocations = c->waits = c->launches = c->replays = c->captures = c->copies = 0;
    c->calls = 0;
}

void lazy_card_mend(lazy_card *c)
{
    run_all();
    c->fail_at = 0;
    c->broken = c->device.faulted = false;
}
