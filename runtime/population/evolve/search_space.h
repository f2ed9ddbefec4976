/* Search spaces: a tree, and how genomes are drawn from it. */
#pragma once

#include "runtime/population/evolve/genome.h"

/* One of the library's own, whatever callback runs; NULL: nothing. */
void swi_search_space_free(sw_search_space *space);
/* Draw from the "insert" part of the space what may stand after vertex `after`: put it there,
 * in between it and those that read it (all of them), so that the result has as many channels
 * as `after`, and its height and width. identity: layers begin as the identity, where they
 * can. *first and *n: the new vertices. SW_UNSUPPORTED: nothing of the space fits there, and
 * the genome is as it was. */
sw_status swi_space_insert(const sw_search_space *space, sw_genome *genome, uint32_t behind,
                           bool identity, swi_draws *draws, uint32_t *first, uint32_t *n);
/* The space of optimizers, rates and batches. */
typedef struct {
    const char *const *optimizers; /* n_optimizers */
    int n_optimizers;
    double lr_low, lr_high;
    const int64_t *batches; /* n_batches: a list of choices; 0: batch_low to batch_high */
    int n_batches;
    int64_t batch_low, batch_high;
    const char *const *activations; /* that mutations choose from: n_activations */
    int n_activations;
} swi_space_training;

/* Between the files of search spaces: the tree. */

#define SWI_SPACE_FORMAT "stepwell search space 1"
#define SWI_SPACE_NODES 16384      /* of a text */
#define SWI_SPACE_DEPTH 40         /* objects inside objects; parts inside parts */
#define SWI_SPACE_CHOICES 64       /* of a list of numbers */
#define SWI_SPACE_NAMES 16         /* of a list of optimizers or activations */
#define SWI_SPACE_CLASSES (-1.0)   /* a size: that of the task */
#define SWI_SPACE_DEPTHWISE (-2.0) /* groups: as many as channels */

/* A number that is drawn: one of n choices, or low, low + step, ... up to high, or with step 0
 * any number between them. */
typedef struct {
    double low, high, step;
    uint32_t first, n; /* in the space's list of choices */
} swi_drawn;

typedef enum {
    SWI_SPACE_NODE_VERTEX,
    SWI_SPACE_NODE_CHAIN,
    SWI_SPACE_NODE_REPEAT,
    SWI_SPACE_NODE_FORK,
    SWI_SPACE_NODE_RESIDUAL,
    SWI_SPACE_NODE_CHOICE,
    SWI_SPACE_NODE_IF,
    SWI_SPACE_NODE_USE,
    SWI_SPACE_NODE_NODE, /* with shields for all that is inside */
    SWI_SPACE_NODE_KINDS
} swi_space_node_kind;

typedef enum {
    SWI_IF_IMAGE,
    SWI_IF_VECTOR,
    SWI_IF_HEIGHT,
    SWI_IF_WIDTH,
    SWI_IF_CHANNELS,
    SWI_IF_VERTICES
} swi_if_what;
typedef enum { SWI_IF_LESS, SWI_IF_AT_MOST, SWI_IF_MORE, SWI_IF_AT_LEAST } swi_if_how;

typedef struct {
    swi_space_node_kind kind;
    uint32_t line;
    uint32_t first, next; /* child and brother; 0: none (no child is node 0) */
    uint32_t n_children;
    double weight; /* among the children of a choice */
    /* vertex */
    sw_vertex_kind vertex;
    swi_drawn drawn[SWI_VERTEX_RATE + 1]; /* by field of a vertex */
    uint32_t activations;                 /* bits of them; 0: those of the space */
    uint32_t shield;
    /* repeat: how often; fork of one node: how many paths */
    swi_drawn times;
    bool many; /* a fork of one node */
    /* if */
    swi_if_what what;
    swi_if_how how;
    int64_t than;
    bool has_then, has_else; /* then: the first child */
    uint32_t part;           /* use: of `parts` */
} swi_space_node;

typedef struct {
    char name[SWI_VERTEX_NAME];
    uint32_t node; /* 0: it is used, and not yet there */
    uint32_t line; /* where it is used first */
    int mark;      /* of the search for circles */
} swi_space_part;

struct sw_search_space {
    sw_handle handle;
    char *text, *path; /* with a zero */
    size_t text_bytes, path_bytes;
    swi_space_node *nodes; /* node 0 is none */
    uint32_t n_nodes, nodes_cap;
    double *choices;
    uint32_t n_choices, choices_cap;
    swi_space_part *parts;
    uint32_t n_parts, parts_cap;
    uint32_t body, head, insert; /* 0: none; insert is a choice */
    swi_space_training training;
    const char *optimizers[SWI_SPACE_NAMES], *activations[SWI_SPACE_NAMES];
    int64_t batches[SWI_SPACE_CHOICES];
};

/* A vertex of that node before its numbers are drawn; groups 0: it is depthwise. */
swi_vertex swi_space_vertex(const swi_space_node *node);
/* Fill a space that has its text and path. */
sw_status swi_space_read(sw_search_space *space);

typedef struct {
    const sw_search_space *space;
    sw_genome *genome; /* vertices are put at its end */
    swi_draws *draws;
    int64_t classes;
    uint32_t beside; /* vertices that count in conditions and are not in `genome` */
    uint32_t steps;  /* nodes that were drawn */
    bool ended;      /* the channels are those of a vertex with the size "classes" */
} swi_drawing;

/* The text of the space that is there without a file. */
extern const char swi_space_default_text[];
