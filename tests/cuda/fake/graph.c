/* Captures and graphs. Nodes keep the order in which they were put, which is one that their
 * edges allow; with a seed, a launch takes any other that they allow. */
#include "internal.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct CUgraphNode_st {
    swi_work *work;
    swi_places after; /* nodes that must have run */
    bool ran;         /* in the launch that runs */
} node;

struct CUgraph_st {
    cudaGraph_t next;
    node **nodes;
    size_t n, room;
    int refs; /* executables made of it, and 1 until it is destroyed */
    bool gone;
};
struct CUgraphExec_st {
    cudaGraphExec_t next;
    cudaGraph_t graph;
    int refs, card;
    bool gone;
    size_t bytes; /* of the card's memory */
};
struct swi_capture {
    swi_capture *next;
    enum cudaStreamCaptureMode mode;
    pthread_t thread;
    cudaStream_t origin;
    cudaGraph_t graph;
    cudaError_t failed;
};

static swi_capture *captures;
static cudaGraph_t graphs;
static cudaGraphExec_t execs;

/* ---- places ------------------------------------------------------------------------------ */

static bool places_add(swi_places *p, size_t place)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->at[i] == place)
            return false;
    if (p->n == p->room) {
        p->room = p->room > 0 ? 2 * p->room : 4;
        p->at = realloc(p->at, p->room * sizeof *p->at);
        if (p->at == NULL)
            abort();
    }
    p->at[p->n++] = place;
    return true;
}

static void places_copy(swi_places *to, const swi_places *from)
{
    to->n = 0;
    for (size_t i = 0; i < from->n; i++)
        places_add(to, from->at[i]);
}

/* ---- captures ---------------------------------------------------------------------------- */

cudaError_t swi_capture_ends(swi_capture *capture, cudaError_t error)
{
    if (capture->failed == cudaSuccess)
        capture->failed = error;
    return error;
}

cudaError_t swi_capture_fails(cudaStream_t stream, cudaError_t error)
{
    for (swi_capture *c = captures; c != NULL; c = c->next)
        if (stream == NULL || stream->capture == c)
            (void)swi_capture_ends(c, error);
    return error;
}

/* A call that waits, takes or gives back memory: not while this thread captures, nor while
 * anybody captures for all. */
cudaError_t swi_capture_allows(const char *function)
{
    cudaError_t error = cudaSuccess;
    for (swi_capture *c = captures; c != NULL; c = c->next) {
        const bool mine = pthread_equal(c->thread, pthread_self()) != 0;
        if (!mine && c->mode != cudaStreamCaptureModeGlobal)
            continue;
        error = swi_capture_ends(c, cudaErrorStreamCaptureUnsupported);
        swi_fake_violation("%s between the begin and the end of a capture", function);
    }
    return error;
}

bool swi_capture_blocks_default(void)
{
    bool blocks = false;
    for (swi_capture *c = captures; c != NULL; c = c->next)
        if ((c->origin->flags & cudaStreamNonBlocking) == 0) {
            (void)swi_capture_ends(c, cudaErrorStreamCaptureImplicit);
            blocks = true;
        }
    return blocks;
}

cudaError_t swi_capture_put(cudaStream_t stream, swi_work *work)
{
    cudaGraph_t graph = stream->capture->graph;
    if (stream->capture->failed != cudaSuccess || work->kind == SWI_GRAPH) {
        const bool graph_in_graph = work->kind == SWI_GRAPH;
        swi_work_free(work);
        return graph_in_graph ? swi_capture_fails(stream, cudaErrorStreamCaptureUnsupported)
                              : cudaErrorStreamCaptureInvalidated;
    }
    if (graph->n == graph->room) {
        graph->room = graph->room > 0 ? 2 * graph->room : 64;
        graph->nodes = realloc(graph->nodes, graph->room * sizeof *graph->nodes);
        if (graph->nodes == NULL)
            abort();
    }
    node *n = swi_fake_reserve(sizeof *n);
    n->work = work;
    places_copy(&n->after, &stream->last);
    stream->last.n = 0;
    places_add(&stream->last, graph->n);
    graph->nodes[graph->n++] = n;
    swi_fake.counts.captured++;
    return cudaSuccess;
}

void swi_capture_record(cudaStream_t stream, cudaEvent_t event)
{
    event->captured = true;
    event->where = stream->capture;
    places_copy(&event->last, &stream->last);
}

/* A stream that waits for a captured event comes into the capture. */
cudaError_t swi_capture_wait(cudaStream_t stream, cudaEvent_t event)
{
    if (event->where == NULL)
        return swi_capture_fails(stream, cudaErrorStreamCaptureIsolation);
    if (stream->capture != NULL && stream->capture != event->where)
        return swi_capture_fails(stream, cudaErrorStreamCaptureMerge);
    if (stream->capture == NULL) {
        stream->capture = event->where;
        stream->last.n = 0;
    }
    for (size_t i = 0; i < event->last.n; i++)
        places_add(&stream->last, event->last.at[i]);
    return cudaSuccess;
}

SWI_FUNCTION(cudaError_t, cudaStreamBeginCapture,
             (cudaStream_t stream, enum cudaStreamCaptureMode mode), (stream, mode))
{
    SWI_TRY(swi_stream_of(&stream));
    if (stream->capture != NULL || swi_stream_default(stream))
        return stream->capture != NULL ? cudaErrorIllegalState
                                       : cudaErrorStreamCaptureUnsupported;
    swi_capture *c = swi_fake_reserve(sizeof *c);
    c->mode = mode;
    c->thread = pthread_self();
    c->origin = stream;
    c->graph = swi_fake_reserve(sizeof *c->graph);
    c->graph->refs = 1;
    c->next = captures;
    captures = c;
    stream->capture = c;
    stream->last.n = 0;
    swi_fake.capturing++;
    swi_fake.counts.captures++;
    return cudaSuccess;
}

/* ---- graphs ------------------------------------------------------------------------------ */

static void graph_free(cudaGraph_t graph)
{
    if (--graph->refs > 0)
        return;
    for (size_t i = 0; i < graph->n; i++) {
        swi_work_free(graph->nodes[i]->work);
        free(graph->nodes[i]->after.at);
        free(graph->nodes[i]);
    }
    for (cudaGraph_t *at = &graphs; *at != NULL; at = &(*at)->next)
        if (*at == graph) {
            *at = graph->next;
            break;
        }
    free(graph->nodes);
    free(graph);
}

/* Is every node before the first stream's last ones? */
static bool joined(const swi_capture *c)
{
    bool *reached = swi_fake_reserve(c->graph->n);
    for (size_t i = 0; i < c->origin->last.n; i++)
        reached[c->origin->last.at[i]] = true;
    bool all = true;
    for (size_t i = c->graph->n; i-- > 0;) {
        all = all && reached[i];
        const swi_places *after = &c->graph->nodes[i]->after;
        for (size_t k = 0; reached[i] && k < after->n; k++)
            reached[after->at[k]] = true;
    }
    free(reached);
    return all;
}

/* Streams and events forget it. */
static void leave(swi_capture *c)
{
    swi_capture **at = &captures;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    swi_stream_forget(c);
    swi_event_forget(c);
    swi_fake.capturing--;
    free(c);
}

static cudaError_t end_capture(cudaStream_t stream, cudaGraph_t *out)
{
    cudaError_t error = swi_stream_of(&stream);
    *out = NULL;
    if (error != cudaSuccess)
        return error;
    swi_capture *c = stream->capture;
    if (c == NULL || c->origin != stream)
        return cudaErrorStreamCaptureUnmatched;
    if (!pthread_equal(c->thread, pthread_self()))
        return cudaErrorStreamCaptureWrongThread;
    error = c->failed != cudaSuccess ? cudaErrorStreamCaptureInvalidated
            : joined(c)              ? cudaSuccess
                                     : cudaErrorStreamCaptureUnjoined;
    cudaGraph_t graph = c->graph;
    leave(c);
    if (error != cudaSuccess) {
        graph_free(graph);
        return error;
    }
    graph->next = graphs;
    graphs = graph;
    *out = graph;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
    /* A capture ends also where the card is broken or the call is made to fail. */
    const cudaError_t before = swi_fake_enter(SWI_FN_cudaStreamEndCapture);
    cudaError_t error = end_capture(stream, pGraph);
    if (before != cudaSuccess && error == cudaSuccess) {
        graph_free(*pGraph);
        *pGraph = NULL;
    }
    return swi_fake_leave(before != cudaSuccess ? before : error);
}

SWI_FUNCTION(cudaError_t, cudaStreamIsCapturing,
             (cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus),
             (stream, pCaptureStatus))
{
    SWI_TRY(swi_stream_of(&stream));
    *pCaptureStatus = stream->capture == NULL ? cudaStreamCaptureStatusNone
                      : stream->capture->failed != cudaSuccess
                          ? cudaStreamCaptureStatusInvalidated
                          : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

static cudaError_t known_graph(cudaGraph_t graph)
{
    for (cudaGraph_t g = graphs; g != NULL; g = g->next)
        if (g == graph && !g->gone)
            return cudaSuccess;
    swi_fake_violation("a graph that is not there");
    return cudaErrorInvalidValue;
}

static cudaError_t known_exec(cudaGraphExec_t exec)
{
    for (cudaGraphExec_t g = execs; g != NULL; g = g->next)
        if (g == exec && !g->gone)
            return cudaSuccess;
    swi_fake_violation("an executable graph that is not there");
    return cudaErrorInvalidValue;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudaGraphGetNodes);
    if (error == cudaSuccess)
        error = known_graph(graph);
    if (error == cudaSuccess && nodes != NULL)
        for (size_t i = 0; i < *numNodes; i++)
            nodes[i] = i < graph->n ? graph->nodes[i] : NULL;
    if (error == cudaSuccess)
        *numNodes = graph->n;
    return swi_fake_leave(error);
}

SWI_END_FUNCTION(cudaGraphDestroy, (cudaGraph_t graph), (graph))
{
    SWI_TRY(known_graph(graph));
    graph->gone = true;
    graph_free(graph);
    return cudaSuccess;
}

/* ---- executables ------------------------------------------------------------------------- */

SWI_FUNCTION(cudaError_t, cudaGraphInstantiate,
             (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
             (pGraphExec, graph, flags))
{
    (void)flags;
    SWI_TRY(known_graph(graph));
    if (!swi_fake_charge(graph->n * SW_FAKE_NODE_BYTES))
        return cudaErrorMemoryAllocation;
    cudaGraphExec_t exec = swi_fake_reserve(sizeof *exec);
    exec->graph = graph;
    exec->bytes = graph->n * SW_FAKE_NODE_BYTES;
    exec->card = swi_fake_current();
    graph->refs++;
    exec->refs = 1;
    exec->next = execs;
    execs = exec;
    *pGraphExec = exec;
    swi_fake.counts.instantiated++;
    return cudaSuccess;
}

void swi_graph_free(cudaGraphExec_t exec)
{
    if (--exec->refs > 0)
        return;
    cudaGraphExec_t *at = &execs;
    while (*at != exec)
        at = &(*at)->next;
    *at = exec->next;
    swi_fake.used[exec->card] -= exec->bytes;
    graph_free(exec->graph);
    free(exec);
}

/* Launches that are on their way keep it. */
SWI_END_FUNCTION(cudaGraphExecDestroy, (cudaGraphExec_t exec), (exec))
{
    SWI_TRY(known_exec(exec));
    exec->gone = true;
    swi_graph_free(exec);
    return cudaSuccess;
}

SWI_FUNCTION(cudaError_t, cudaGraphUpload, (cudaGraphExec_t graphExec, cudaStream_t stream),
             (graphExec, stream))
{
    SWI_TRY(swi_stream_of(&stream));
    return known_exec(graphExec);
}

SWI_FUNCTION(cudaError_t, cudaGraphLaunch, (cudaGraphExec_t graphExec, cudaStream_t stream),
             (graphExec, stream))
{
    SWI_TRY(swi_stream_of(&stream));
    SWI_TRY(known_exec(graphExec));
    swi_work *work = swi_work_new(SWI_GRAPH, 0);
    work->graph = graphExec;
    graphExec->refs++;
    swi_fake.counts.graph_launches++;
    return swi_stream_put(stream, work);
}

/* A node that may run now: the first, or any. */
static node *next_node(cudaGraph_t graph)
{
    node *found = NULL;
    uint64_t n = 0;
    for (size_t i = 0; i < graph->n; i++) {
        node *it = graph->nodes[i];
        bool ready = !it->ran;
        for (size_t k = 0; ready && k < it->after.n; k++)
            ready = graph->nodes[it->after.at[k]]->ran;
        if (ready && (n++ == 0 || swi_fake_draw(n) == 0))
            found = it;
        if (found != NULL && swi_fake.seed <= 1)
            break;
    }
    return found;
}

cudaError_t swi_graph_run(cudaGraphExec_t exec)
{
    cudaGraph_t graph = exec->graph;
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < graph->n; i++)
        graph->nodes[i]->ran = false;
    for (size_t i = 0; i < graph->n && error == cudaSuccess; i++) {
        node *it = swi_fake.seed > 1 ? next_node(graph) : graph->nodes[i];
        error = swi_work_run(it->work);
        it->ran = true;
        if (swi_fake.broken != cudaSuccess)
            error = swi_fake.broken;
    }
    return error;
}

void swi_graph_live(sw_fake_live *out)
{
    for (cudaGraph_t g = graphs; g != NULL; g = g->next)
        out->graphs += !g->gone;
    for (cudaGraphExec_t g = execs; g != NULL; g = g->next)
        out->execs += !g->gone;
}

void swi_graph_reset(void)
{
    while (captures != NULL) {
        cudaGraph_t graph = captures->graph;
        leave(captures);
        graph_free(graph);
    }
    while (execs != NULL) {
        execs->refs = 1;
        swi_graph_free(execs);
    }
    while (graphs != NULL) {
        graphs->refs = 1;
        graph_free(graphs);
    }
}
