/* The table of special values (tests/ops/special_values.txt): its rows, and runs of them
 * through the library's own functions. */
#ifndef SW_TESTS_SPECIAL_H
#define SW_TESTS_SPECIAL_H

#include <runtime/stepwell.h>
#include <stdbool.h>

enum { SPECIAL_OPERANDS = 5, SPECIAL_NUMBERS = 512 /* of a tensor */, SPECIAL_COPIES = 37 };

typedef struct {
    bool looked_at; /* false: nothing is said of it */
    char kind;      /* 'f', or 'c' a constant, 'i' and 'u' whole numbers */
    bool shaped;    /* false: elementwise, one number, run on SPECIAL_COPIES of it */
    sw_shape shape;
    int n;
    const float *v;
} special_tensor;

typedef struct {
    int line, place; /* of the page; in the lists of the row */
    char name[64];   /* with its numbers, as "clamp -0.5 3" */
    double args[4];
    special_tensor in[SPECIAL_OPERANDS], dy;
    int n_in, n_grads;
    special_tensor y, dx[SPECIAL_OPERANDS]; /* PyTorch's */
    bool differs;                           /* stepwell's own answers follow */
    special_tensor our_y, our_dx[SPECIAL_OPERANDS];
} special_row;

typedef struct {
    const char *isa, *device; /* NULL: the best, the CPU */
    bool immediate;
    void (*op)(void *to,
               const char *name); /* NULL, or is called with each op of each program */
    void *to;
} special_way;

/* The counts over the rows of a way. */
typedef struct {
    int rows, wrong, stale;
} special_count;

/* All rows on an exec of their own. */
special_count special_run(const special_way *way);

#endif
