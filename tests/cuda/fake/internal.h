/* Shared by the files of the fake. One lock for all: a call holds it from swi_fake_enter to
 * swi_fake_leave, work included. */
#ifndef SW_FAKE_INTERNAL_H
#define SW_FAKE_INTERNAL_H

#include <pthread.h>
#include "fake.h"
#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SWI_F(function, kind) SWI_FN_##function,
typedef enum {
#include "functions.def"
    SWI_FN_launch, /* of a kernel */
    SWI_FN_COUNT
} swi_fake_function;
#undef SWI_F

#define SWI_CARDS 4

extern struct swi_fake_state {
    sw_fake_card card;
    sw_fake_counts counts;
    uint64_t seed, random;
    cudaError_t broken; /* what every call answers; cudaSuccess: the card is good */
    uint64_t clock_ns;  /* of the card: what ran so far */
    size_t used[SWI_CARDS];
    bool context[SWI_CARDS]; /* the card is in use */
    uint64_t blas_live;
    int capturing; /* captures that have begun and not ended */
} swi_fake;

/* ---- control.c: calls -------------------------------------------------------------------- */

/* Every function begins with it and ends with swi_fake_leave, which gives back its error. */
cudaError_t swi_fake_enter(swi_fake_function function);
cudaError_t swi_fake_leave(cudaError_t error);
/* A function that does nothing else. */
#define SWI_CALL_AS(type, name, params, does)                                                  \
    type name params                                                                           \
    {                                                                                          \
        cudaError_t error = swi_fake_enter(SWI_FN_##name);                                     \
        if (error == cudaSuccess)                                                              \
            error = does;                                                                      \
        return (type)swi_fake_leave(error);                                                    \
    }
#define SWI_CALL(name, params, does) SWI_CALL_AS(cudaError_t, name, params, does)
/* A function whose body follows: it is not called where the call fails before. `args`: the
 * names of its parameters. */
#define SWI_FUNCTION(type, name, params, args)                                                 \
    static cudaError_t name##_does params;                                                     \
    SWI_CALL_AS(type, name, params, name##_does args)                                          \
    static cudaError_t name##_does params
/* One that gives back: it does so where the call fails too, with that error. */
#define SWI_END_FUNCTION(name, params, args)                                                   \
    static cudaError_t name##_does params;                                                     \
    cudaError_t name params                                                                    \
    {                                                                                          \
        const cudaError_t error = swi_fake_enter(SWI_FN_##name);                               \
        const cudaError_t its = name##_does args;                                              \
        return swi_fake_leave(error != cudaSuccess ? error : its);                             \
    }                                                                                          \
    static cudaError_t name##_does params
#define SWI_TRY(call)                                                                          \
    do {                                                                                       \
        const cudaError_t tried = (call);                                                      \
        if (tried != cudaSuccess)                                                              \
            return tried;                                                                      \
    } while (0)
void swi_fake_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The result of work that ran well: an error where one was requested. */
cudaError_t swi_fake_work_fault(void);
void swi_fake_break(cudaError_t error);
/* 0 <= what comes back < below; only where a seed is set. */
uint64_t swi_fake_draw(uint64_t below);
int swi_fake_current(void);           /* card of this thread */
void *swi_fake_reserve(size_t bytes); /* zeroed */
void swi_fake_log(const sw_fake_launch *launch);

/* ---- memory.c ---------------------------------------------------------------------------- */

/* Work runs between these; they nest. */
void swi_fake_open_memory(void);
void swi_fake_close_memory(void);
/* After a launch it stays open for a few more, as long as nothing but launches is called; in
 * `full` it does not. */
void swi_fake_hold_memory(void);
void swi_fake_let_go(void);
bool swi_fake_in_window(const void *at); /* an address that only a card can have */
bool swi_fake_there(const void *at, size_t bytes);
bool swi_fake_pinned(const void *at, size_t bytes);
bool swi_fake_on_host(uint64_t word); /* looks like an address of host memory that is mapped */
void swi_fake_memory_live(sw_fake_live *out);
void swi_fake_memory_reset(void);
size_t swi_fake_free_bytes(void);
bool swi_fake_charge(size_t bytes); /* of this thread's card; false: it has not so many */

/* ---- stream.c ---------------------------------------------------------------------------- */

typedef enum {
    SWI_KERNEL,
    SWI_COPY,
    SWI_FILL,
    SWI_MATMUL,
    SWI_RECORD,
    SWI_WAIT,
    SWI_GRAPH
} swi_work_kind;

/* A point of a stream that is reached or not. */
typedef struct {
    int refs;
    bool done;
    uint64_t time_ns;
    cudaStream_t stream; /* whose work reaches it */
} swi_mark;

typedef struct swi_work {
    struct swi_work *next;
    int refs;
    swi_work_kind kind;
    cudaError_t (*run)(struct swi_work *work);
    uint64_t cost_ns;
    swi_mark *mark;        /* RECORD, WAIT */
    cudaEvent_t event;     /* RECORD, WAIT in a graph: the event as it is then */
    cudaGraphExec_t graph; /* GRAPH */
    const void *host;      /* pinned memory that it touches */
    size_t host_bytes;
    pthread_t by; /* who submitted it */
    void *body;   /* after this struct, divisible by 16 */
} swi_work;

typedef struct swi_capture swi_capture;

/* Places of nodes in a graph, each once. */
typedef struct {
    size_t *at, n, room;
} swi_places;

struct CUstream_st {
    cudaStream_t next;
    swi_work *head, **tail;
    unsigned flags;
    int card;
    swi_capture *capture; /* NULL: none */
    swi_places last;      /* of its nodes */
    bool gone;            /* destroyed with work in it */
    bool busy;            /* its first piece of work runs now */
};
struct CUevent_st {
    cudaEvent_t next;
    unsigned flags;
    int refs; /* graphs that name it, and 1 */
    bool gone;
    swi_mark *mark;     /* of the last record; NULL: none */
    bool captured;      /* last recorded while capturing */
    swi_capture *where; /* that capture, until it ends */
    swi_places last;
};

swi_work *swi_work_new(swi_work_kind kind, size_t body_bytes);
void swi_work_free(swi_work *work);
/* Into the stream, or into the graph that is made of it; takes the work over. */
cudaError_t swi_stream_put(cudaStream_t stream, swi_work *work);
/* NULL and 1 are the default stream. */
cudaError_t swi_stream_of(cudaStream_t *stream);
cudaError_t swi_work_run(swi_work *work);
/* All that was put anywhere has run. */
void swi_stream_drain(void);
bool swi_stream_default(const struct CUstream_st *stream);
void swi_stream_forget(const swi_capture *capture);
bool swi_stream_pending(const void *host, size_t bytes); /* touching these; NULL: any */
/* Of this thread: what it unmaps is its own, and others may go on with theirs. */
bool swi_stream_pending_here(void);
void swi_stream_live(sw_fake_live *out);
void swi_stream_reset(void);
void swi_event_forget(const swi_capture *capture);

/* ---- graph.c ----------------------------------------------------------------------------- */

/* May this call be made now? An error ends the captures that it disturbs. */
cudaError_t swi_capture_allows(const char *function);
cudaError_t swi_capture_put(cudaStream_t stream, swi_work *work);
/* The error, and the captures of the stream (NULL: all) come to nothing. */
cudaError_t swi_capture_fails(cudaStream_t stream, cudaError_t error);
cudaError_t swi_capture_ends(swi_capture *capture, cudaError_t error);
void swi_capture_record(cudaStream_t stream, cudaEvent_t event);
cudaError_t swi_capture_wait(cudaStream_t stream, cudaEvent_t event);
/* A stream that no capture may be on. */
bool swi_capture_blocks_default(void);
cudaError_t swi_graph_run(cudaGraphExec_t graph);
void swi_graph_free(cudaGraphExec_t graph);
void swi_graph_live(sw_fake_live *out);
void swi_graph_reset(void);

/* ---- blas.c: handles and descriptors of libraries ---------------------------------------- */

/* Zeroed, and counted by *live. */
void *swi_item_new(size_t bytes, uint64_t *live);
void swi_item_end(void *what);
bool swi_item_there(const void *what); /* false is a violation */
void swi_item_reset(void);

#ifdef __cplusplus
}
#endif
#endif
