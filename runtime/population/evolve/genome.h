/* Genomes: a graph of layers as data, and where each of its neurons comes from.
 *
 * Vertices lie in an order in which each reads those before it; vertex 0 is the input, the
 * last one gives the logits. The size of a vertex is its number of outputs: channels of an
 * image, or elements of a vector. `sized` vertices (linear, and conv2d that is not depthwise)
 * have a size of their own; that of all others follows from what they read.
 *
 * Lineage: what a mutation or a crossover made says of each vertex which parent's vertex it was
 * (`parent`, `was`), and of each of its outputs and inputs which one it was there (`rows`,
 * `cols`; SWI_NEW: none). Edits keep these up to date; nets take over weights by them, and by
 * nothing else. A genome that was read or drawn has no parents. */
#ifndef SW_GENOME_H
#define SW_GENOME_H

#include "alloc/base/handle.h"
#include "runtime/base/structs.h"
#include <stdbool.h>

#define SWI_VERTEX_NAME 32
#define SWI_MAX_INPUTS 16
#define SWI_MAX_VERTICES 4096
#define SWI_MAX_UNITS (1 << 20)
#define SWI_MAX_WINDOW 255 /* kernel, stride and dilation */
#define SWI_MAX_BATCH 65536
#define SWI_GENOME_NAME 48
#define SWI_NO_PARENT 255
#define SWI_NEW (-1)

/* Fields that a kind does not have are never read: neither text nor hash nor checks know them.
 * The input is named "input" and has no shield. */
typedef struct {
    char name[SWI_VERTEX_NAME]; /* letters, digits, "_" and "-"; unique in the genome */
    sw_vertex_kind kind;
    int activation; /* swi_activation_name */
    uint32_t shield;
    int32_t kernel, stride;   /* of conv2d and pools */
    int32_t dilation, groups; /* of conv2d; groups 0: depthwise */
    float rate;
    sw_update_time update; /* of vertices with parameters; DEFAULT: that of the genome */
    bool identity;         /* of linear and conv2d */
    uint32_t in[SWI_MAX_INPUTS], n_in;
    int64_t size; /* of sized vertices; else 0 */
    /* By swi_genome_infer: of its result. A vector has height and width 0. */
    int64_t channels, height, width;
    /* Lineage. rows: `channels` of them, of vertices with parameters; cols: swi_vertex_reads()
     * of them, of sized vertices. NULL: of no parent. Each is a block of its own of
     * SW_HEAP_RECORDS, of as many numbers as n_rows and n_cols say. */
    uint8_t parent; /* 0 or 1; SWI_NO_PARENT */
    uint32_t was;
    int32_t *rows, *cols;
    uint32_t n_rows, n_cols;
} swi_vertex;

struct sw_genome {
    sw_handle handle;
    char name[SWI_GENOME_NAME]; /* letters, digits, "_", "-" and "."; it may have none */
    swi_vertex *vertices;
    uint32_t n, cap;
    char optimizer[16], loss[32];
    float lr, momentum, weight_decay, clip, clip_norm, smoothing;
    sw_update_time update; /* RELEASE or AFTER */
    int64_t batch;
    uint32_t next;       /* number of the next new name; 0 at the begin of a child */
    uint32_t n_parents;  /* 0: no lineage */
    uint64_t parents[2]; /* their hashes */
};

/* ---- genome.c ---------------------------------------------------------------------------- */

/* Of a task: an input alone, adam, batch 64; for the caller to fill, then swi_genome_check. */
sw_status swi_genome_new(sw_genome **out, const sw_task *task);
/* One of the library's own, whatever callback runs; NULL: nothing. */
void swi_genome_free(sw_genome *g);
/* Put a copy of `vertex`, with its own rows and cols, before position `at`; those from
 * there on move up by one, and all inputs are renumbered, but those of `vertex` itself, which
 * must be below `at`. */
sw_status swi_genome_insert(sw_genome *genome, uint32_t at, const swi_vertex *vertex);
/* No vertex may read it. */
void swi_genome_remove(sw_genome *genome, uint32_t i);
/* All who read `from` read `to` instead; the caller sees to it that `to` is before them.
 */
void swi_genome_redirect(sw_genome *genome, uint32_t from, uint32_t to);
/* Set what follows of each vertex. SW_INVALID says what does not fit; *bad (or NULL) is the
 * vertex. The results for it and for those after it are then undefined. */
sw_status swi_genome_infer(sw_genome *genome, uint32_t *bad);
/* All that a valid genome promises; infers too. *bad UINT32_MAX: of no vertex. */
sw_status swi_genome_check(sw_genome *genome, uint32_t *bad);
/* Begin a child: every vertex was itself in parent 0, rows and cols are their own. Names count
 * on from those that are there, so that a child is a function of its parent's text. On failure
 * the genome has no lineage. */
sw_status swi_genome_begin_lineage(sw_genome *genome);
/* It has no parents. */
void swi_genome_forget(sw_genome *genome);
/* Of all that the text says but for the genome's own name. */
uint64_t swi_genome_hash(const sw_genome *genome);
/* The position of that name; UINT32_MAX: there is none. */
uint32_t swi_genome_find(const sw_genome *genome, const char *name);
/* A name that no vertex has: "v" and a number above those of all such names. */
void swi_genome_fresh_name(sw_genome *genome, char name[SWI_VERTEX_NAME]);
uint64_t swi_genome_parameters(const sw_genome *genome);

/* ---- vertex.c ---------------------------------------------------------------------------- */

/* Of that kind: windows of 1, of no parent, the rest 0. */
swi_vertex swi_vertex_of(sw_vertex_kind kind);
bool swi_vertex_is_sized(const swi_vertex *v);
bool swi_vertex_has_window(const swi_vertex *v); /* kernel and stride */
bool swi_vertex_is_depthwise(const swi_vertex *v);
bool swi_vertex_is_identity(const swi_vertex *v); /* it has the flag, and weights for it */
bool swi_vertex_has_parameters(const swi_vertex *v);
/* Its output has as many channels as each of its inputs: norm, pool, global pool, activation,
 * dropout, add, depthwise. */
bool swi_vertex_is_invariant(const swi_vertex *v);
/* How many it reads of its inputs: channels; of a flattened image elements. */
int64_t swi_vertex_reads(const sw_genome *genome, const swi_vertex *v);
/* Of a window: (kernel - 1) / 2 times the dilation where the kernel is odd, 0 where it is even.
 */
int swi_vertex_pad(const swi_vertex *v);
uint64_t swi_vertex_parameters(const sw_genome *genome, const swi_vertex *v);
/* Who reads vertex i: at most `room` of them into `out`; how many there are. */
uint32_t swi_vertex_readers(const sw_genome *genome, uint32_t i, uint32_t *out, uint32_t room);
/* Updates of it as they will be. */
sw_update_time swi_vertex_update(const sw_genome *genome, const swi_vertex *v);
int swi_vertex_kind_find(const char *name); /* -1: none */
/* Activations by number; NULL past the end. -1: none of that name. Those that are the identity
 * for results of themselves: relu(relu(x)) = relu(x). */
const char *swi_activation_name(int i);
int swi_activation_find(const char *name);
bool swi_activation_is_idempotent(int i);

#endif
