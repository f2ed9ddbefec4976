/* Between the files of spaces and of population based training. */
#pragma once

#include "alloc/base/handle.h"
#include "alloc/base/sys.h"
#include "profiler/record/json.h"
#include "profiler/record/json_read.h"
#include "runtime/base/structs.h"

/* exp and log in double arithmetic that is the same on every machine: additions, products and
 * quotients alone, where those of libm are not exactly rounded. Within 2 units of the last
 * place. log: x above 0 and finite. */
double swi_exp(double x);
double swi_log(double x);

#define SWI_HYPER_NAME 48      /* bytes of a name with its zero */
#define SWI_HYPER_CHOICES 4096 /* of one hyper-parameter */
#define SWI_HYPERS 1024        /* of a space */
#define SWI_LABEL 64           /* bytes of a label with its zero */

/* One block: name, choices, labels and their texts. */
typedef struct {
    sw_hyper is; /* points into the block */
    void *block;
    size_t block_bytes;
} swi_hyper;

struct sw_space {
    sw_handle handle;
    swi_hyper *hypers;
    uint32_t n, cap;
};

/* One of the library's own, whatever callback runs; NULL: nothing. */
void swi_space_free(sw_space *space);
sw_status swi_space_copy(sw_space **out, const sw_space *from);
/* The value at u, 0 <= u < 1, of the distribution. */
double swi_hyper_pick(const sw_hyper *hyper, double u);
bool swi_hyper_has(const sw_hyper *hyper, double value);
/* Position of a value among the choices; -1: not one of them. */
int swi_hyper_choice(const sw_hyper *hyper, double value);
/* 53 bits of two words, in [0, 1). */
double swi_unit53(uint32_t high, uint32_t low);

/* Values as nested objects; read: all of the space, each once, within it. */
void swi_values_write(sw_json *json, const sw_space *space, const double *values);
sw_status swi_values_read(sw_json_in *in, const sw_space *space, double *values);

/* ---- population based training ----------------------------------------------------------- */

#define SWI_SCORES 10 /* that the t-test looks at */

/* A member. Scores in here are such that higher is better. */
typedef struct {
    double time, seen; /* of its last report that was taken; seen: NaN without a score */
    double clock;      /* how long it has trained itself: never goes back */
    double last;       /* time of its last turn */
    double score;      /* by which it is ranked, of its last turn; NaN: none. With the t-test
                          the mean of its last scores */
    double due_time, due_score; /* the report that waits */
    double kept_time;           /* of the state that was copied aside */
    double first_time;          /* when the logs began */
    uint64_t draws;             /* of donors: the counter of its random numbers */
    uint64_t exploits;
    uint64_t n_scores;
    uint8_t due;   /* a report waits */
    uint8_t ready; /* synch: it has come to its turn */
    uint8_t kept, ended;
    uint8_t leaving; /* asynchronous: it is out as soon as its time has come */
    uint8_t pad[3];
} swi_pbt_one;

/* All that changes and is saved as it is. */
typedef struct {
    uint64_t n_exploits, n_rank, n_heap, n_queue, queue_at;
    uint64_t n_ready;      /* synch: members that wait for the others */
    uint64_t n_go_on;      /* members that have not ended */
    uint64_t hole;         /* saved states have eight bytes here that say nothing */
    uint64_t turn_at;      /* the next of them */
    uint64_t turn_last;    /* after the last one that may be replaced */
    uint64_t turn_top;     /* donors among them */
    int64_t target, donor; /* an exploit that was decided and is not done; -1: none */
    uint64_t n_events;
    uint64_t log_bytes; /* of pbt_global.txt */
    uint32_t began;     /* there was a report */
    uint32_t deciding;  /* an event was given out and SW_PBT_NONE not yet */
    uint32_t logged;    /* the logs were begun */
    uint32_t log_sum;   /* of these bytes; 0: not known, in what older versions saved */
} swi_pbt_state;

typedef struct {
    uint32_t what, member;
    double time;
} swi_pbt_waiting;

struct sw_pbt {
    sw_handle handle;
    sw_pbt_opts opts; /* with the defaults filled in; space is a copy */
    sw_space *space;
    uint32_t n, h; /* members, hyper-parameters */
    bool busy;     /* in the caller's explore function */
    swi_pbt_state s;
    swi_pbt_waiting waiting[4]; /* events that wait */
    /* In one block: */
    swi_pbt_one *one;
    double *values;    /* (n, h) */
    double *first;     /* (n, h): as they were when the logs began */
    double *scores;    /* (n, SWI_SCORES), t-test */
    uint32_t *heap;    /* asynchronous: members that go on, the least (clock, index) on top */
    uint32_t *heap_at; /* position of a member in it */
    uint32_t *rank;    /* members that have a score, ascending by (score, index); in synch mode
                          as they were when the turn began */
    uint32_t *queue;   /* synch: members with a report that waits, in the order they came */
    double *fresh;     /* (h): values that are being found */
    void *block;
    size_t block_bytes;
    char *log; /* folder; NULL: none */
    sw_file *log_file;
};

/* The object lives, and is not used from its own explore function. */
sw_status swi_pbt_check(const sw_pbt *pbt, const char *call);
static inline double *swi_pbt_values(const sw_pbt *pbt, uint64_t member)
{
    return pbt->values + member * pbt->h;
}
/* As the caller counts scores; NaN stays. */
static inline double swi_pbt_sign(const sw_pbt *pbt, double score)
{
    return pbt->opts.minimize ? -score : score;
}
/* Bytes of all arrays; `base` not NULL: they begin there. */
size_t swi_pbt_lay_out(sw_pbt *pbt, char *base);

/* The heap of the virtual order and the ranking. */
void swi_pbt_heap_fill(sw_pbt *pbt);
/* The clock at the report that waits, or now. */
static inline double swi_pbt_clock(const swi_pbt_one *m)
{
    return m->due ? m->clock + (m->due_time - m->time) : m->clock;
}
/* Where a member is, or would be, in the ranking. */
uint64_t swi_pbt_rank_of(const sw_pbt *pbt, uint32_t member);

/* Logs, where there are any: begin them; the line of an exploit with the values in pbt->fresh.
 * A failed call can be tried again. */
sw_status swi_pbt_log_begin(sw_pbt *pbt);
sw_status swi_pbt_log_exploit(sw_pbt *pbt, uint32_t target, uint32_t donor);
void swi_pbt_log_end(sw_pbt *pbt);
