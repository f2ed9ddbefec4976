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
#pragma once

#include "alloc/base/handle.h"
#include "alloc/base/hash.h"
#include "kernels/rng.h"
#include "profiler/record/json_read.h"
#include "runtime/base/text_file.h"
#include "runtime/base/structs.h"
#include <string.h>

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
    uint32_t next;            /* number of the next new name; 0 at the begin of a child */
    uint32_t n_parents;       /* 0: no lineage */
    uint64_t parents[2];      /* their hashes */
    struct swi_child *editor; /* the mutation whose callback edits it now; NULL: none */
};

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
/* All who read `from` read `to` instead; the caller sees to it that `to` is before them. */
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

/* Of that kind: windows of 1, of no parent, the rest 0. */
swi_vertex swi_vertex_of(sw_vertex_kind kind);
/* It has that field: by its position, or the name that it has in texts. */
bool swi_vertex_has(const swi_vertex *v, uint32_t field);
bool swi_vertex_has_field(const swi_vertex *v, const char *name);
const char *swi_shield_name(uint32_t bit); /* "size" is bit 0; NULL past the end */
bool swi_vertex_is_sized(const swi_vertex *v);
bool swi_vertex_is_depthwise(const swi_vertex *v);
bool swi_vertex_is_identity(const swi_vertex *v); /* it has the flag, and weights for it */
bool swi_vertex_has_parameters(const swi_vertex *v);
/* Its output has as many channels as each of its inputs: norm, pool, global pool, activation,
 * dropout, add, depthwise. */
bool swi_vertex_is_invariant(const swi_vertex *v);
/* How many it reads of its inputs: channels; of a flattened image elements. */
int64_t swi_vertex_reads(const sw_genome *genome, const swi_vertex *v);
/* Of a window: (kernel - 1) / 2 times the dilation where the kernel is odd, 0 where it is
 * even. */
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

/* ---- draws: by Philox from (seed, stream, number of the draw) ---------------------------- */

typedef struct {
    uint64_t seed, stream;
    uint32_t n; /* draws that were made */
} swi_draws;

static inline swi_draws swi_draws_of(uint64_t seed, uint64_t stream)
{
    return (swi_draws){.seed = seed, .stream = stream, .n = 0};
}

static inline uint64_t swi_draw_bits(swi_draws *d)
{
    uint32_t counter[4] = {d->n++, (uint32_t)d->stream, (uint32_t)(d->stream >> 32),
                           0x65766f6cu /* "evol" */};
    sw_philox(counter, (uint32_t)d->seed, (uint32_t)(d->seed >> 32));
    return (uint64_t)counter[0] << 32 | counter[1];
}

/* [0, 1), 53 bits. */
static inline double swi_draw_unit(swi_draws *d)
{
    return (double)(swi_draw_bits(d) >> 11) * 0x1p-53;
}

static inline double swi_draw_range(swi_draws *d, double low, double high)
{
    return low + swi_draw_unit(d) * (high - low);
}

/* 0 to n - 1, n above 0. */
static inline uint32_t swi_draw_below(swi_draws *d, uint32_t n)
{
    return (uint32_t)((swi_draw_bits(d) >> 32) * n >> 32);
}

static inline bool swi_draw_happens(swi_draws *d, double probability)
{
    return swi_draw_unit(d) < probability;
}

/* A seed of its own for what is number `number` of this seed. */
static inline uint64_t swi_draw_seed(uint64_t seed, uint64_t number)
{
    swi_draws d = swi_draws_of(seed, number);
    return swi_draw_bits(&d);
}

/* Between the files of genomes and of search spaces. */

/* ---- names ------------------------------------------------------------------------------- */

/* A table to find vertices by name. Open addressing; 0: free, else a position and 1. */
typedef struct {
    uint16_t slot[2 * SWI_MAX_VERTICES];
    uint32_t mask;
} swi_names;

/* For up to n names. */
static inline void swi_names_begin(swi_names *t, uint32_t n)
{
    t->mask = 15;
    while (t->mask < 2 * n - 1 && t->mask < 2 * SWI_MAX_VERTICES - 1)
        t->mask = t->mask << 1 | 1;
    memset(t->slot, 0, (t->mask + 1) * sizeof *t->slot);
}

/* The slot of the name, or the free one where it belongs. */
static inline uint16_t *swi_names_slot(swi_names *t, const sw_genome *g, const char *name)
{
    uint32_t h = sw_fnv32(SW_FNV32, name, strlen(name));
    h ^= h >> 15;
    for (;; h++) {
        uint16_t *slot = &t->slot[h & t->mask];
        if (*slot == 0 || strcmp(g->vertices[*slot - 1].name, name) == 0)
            return slot;
    }
}

/* 1 to room - 1 letters, digits, "_" and "-", or "." where `dots`. */
static inline bool swi_name_is_one(const char *name, size_t room, bool dots)
{
    const size_t n = strnlen(name, room);
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)name[i], low = c | 32;
        if (!((low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
              (dots && c == '.')))
            return false;
    }
    return n > 0 && n < room;
}

/* ---- texts ------------------------------------------------------------------------------- */

#define SWI_GENOME_FORMAT "stepwell genome 1"
#define SWI_TEXT_MAX ((size_t)8 << 20) /* bytes of a genome's or a space's text */

/* The subjects of swi_genome_check beside the vertices, one by one. */
typedef enum {
    SWI_PART_NAME,
    SWI_PART_OPTIMIZER,
    SWI_PART_BATCH,
    SWI_PART_LOSS,
    SWI_PARTS
} swi_genome_part;
/* As swi_genome_infer, where all before `first` is known. */
sw_status swi_genome_infer_from(sw_genome *genome, uint32_t first, uint32_t *bad);
sw_status swi_genome_check_part(const sw_genome *genome, swi_genome_part part);

/* Fields: what texts say of vertices and of genomes. Texts are read, checked and printed by
 * these tables, edits set numbers by them, and nodes of search spaces take theirs from them. */

typedef enum {
    SWI_FIELD_OWN,        /* its object reads and prints it */
    SWI_FIELD_WORD,       /* char[high] */
    SWI_FIELD_SMALL,      /* int32_t, low to high */
    SWI_FIELD_WHOLE,      /* int64_t, low to high */
    SWI_FIELD_REAL,       /* float; low to high where it is drawn */
    SWI_FIELD_BOOL,       /* bool */
    SWI_FIELD_UPDATE,     /* sw_update_time: release or after */
    SWI_FIELD_ACTIVATION, /* int, by its name */
    SWI_FIELD_SHIELD,     /* uint32_t: a list of names of SW_SHIELD_* */
    SWI_FIELD_OBJECT      /* the fields of `inside`, of the same structure */
} swi_field_kind;

typedef struct swi_fields swi_fields;
typedef struct {
    const char *name;
    swi_field_kind kind;
    size_t at; /* bytes into the structure */
    double low, high;
    const char *zero;   /* the word for 0; NULL: it has none */
    uint32_t must, may; /* forms of the object (a bit each) that have it, and that may */
    double usual;       /* what it is where it is not written */
    const swi_fields *inside;
} swi_text_field;

struct swi_fields {
    const char *is; /* as messages call the object: "a vertex" */
    const swi_text_field *list;
    uint32_t n; /* at most 32 */
};
#define SWI_OWN(word)                                                                          \
    {                                                                                          \
        .name = word                                                                           \
    }
#define SWI_FIELDS(is, list)                                                                   \
    {                                                                                          \
        is, list, sizeof(list) / sizeof *(list)                                                \
    }

/* Of swi_vertex_fields, by position. */
enum {
    SWI_VERTEX_KIND = 1,
    SWI_VERTEX_IN,
    SWI_VERTEX_SIZE,
    SWI_VERTEX_KERNEL,
    SWI_VERTEX_GROUPS = SWI_VERTEX_KERNEL + 3,
    SWI_VERTEX_ACTIVATION,
    SWI_VERTEX_RATE,
    SWI_VERTEX_UPDATE,
    SWI_VERTEX_IDENTITY
};
extern const swi_fields swi_vertex_fields; /* of swi_vertex */
extern const swi_fields swi_genome_fields; /* of sw_genome; optimizer and loss inside */
/* The form of a vertex: the bit of its kind, or one of a depthwise convolution alone. */
uint32_t swi_vertex_form(const swi_vertex *v);
/* The field of that name, also of what is inside; NULL: there is none. */
const swi_text_field *swi_field_find(const swi_fields *fields, const char *name);
/* A number of any type; not of words, and of what is its own. */
double swi_field_get(const swi_text_field *f, const void *of);
void swi_field_set(const swi_text_field *f, void *to, double x);

/* Reading objects: of fields that are known, of the right type, and there once. A refusal is
 * SW_FORMAT, by line. */

typedef struct swi_object swi_object;
struct swi_object {
    const swi_fields *fields;
    void *to, *context;
    /* The value of field `which`, one of SWI_FIELD_OWN. */
    sw_status (*own)(sw_json_in *in, swi_object *object, uint32_t which);
    const char *format; /* what field 0 must be, which is there first; NULL: it has none */
    uint32_t seen;      /* a bit each */
    uint64_t lines[32]; /* where their values begin */
};
sw_status swi_read_object(sw_json_in *in, swi_object *object);
/* It has all fields of `must`, and else those of `may` alone; `who` begins messages. */
sw_status swi_read_complete(const sw_json_in *in, const swi_object *object, uint32_t must,
                            uint32_t may, const char *who);
/* The fields (bits of them) that objects of that form must have, and in *may others. */
uint32_t swi_fields_of(const swi_fields *fields, uint32_t form, uint32_t *may);
/* A text by lines. */
sw_json_in swi_read_begin(const char *text, size_t bytes, const char *path);
/* Nothing follows but blanks. */
sw_status swi_read_end(sw_json_in *in);
/* SW_FORMAT: as sw_json_bad. */
sw_status swi_read_bad(const sw_json_in *in, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* SW_FORMAT at a line that was read: "PATH: line N: what". */
sw_status swi_read_bad_at(const sw_json_in *in, uint64_t line, const char *what);

/* A string of 1 to room - 1 bytes. */
sw_status swi_read_word(sw_json_in *in, const char *field, char *to, size_t room);
/* One of n words: its number. */
sw_status swi_read_choice(sw_json_in *in, const char *field, const char *const *words,
                          uint32_t n, uint32_t *out);
sw_status swi_read_whole(sw_json_in *in, const char *field, int64_t low, int64_t high,
                         int64_t *out);
sw_status swi_read_real(sw_json_in *in, double *out);
/* `element` is called before each element and reads it. */
typedef sw_status swi_read_element(sw_json_in *in, void *context);
sw_status swi_read_list(sw_json_in *in, swi_read_element *element, void *context);
