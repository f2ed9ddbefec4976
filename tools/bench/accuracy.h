/* Errors of functions of one number against float64, over every float or every N-th: the rows,
 * with what each promises, and the sweep. `stepwell bench accuracy` and a test share them; the
 * table of kernels/README.md is what the command prints. */
#pragma once

#include "kernels/pointwise.h"

/* By the argument: the input for values, what the op saves for slopes. */
enum { ACCURACY_RANGES = 6 };
extern const char *const accuracy_ranges[ACCURACY_RANGES];

/* The kernels of a row: those of functions of one number, whose slopes are of what the op
 * saves; or with codes of each element, as relu and leaky relu have them where no other op
 * needs their output, and abs and clamp always: slopes are then of the input. */
typedef enum { ACCURACY_UNARY, ACCURACY_BITS, ACCURACY_ABS, ACCURACY_CLAMP } accuracy_kernels;

/* A value or a slope of one op. Errors are in ulp of max(|y|, 2^-126). Results below 2^-126 are
 * zeros in a run: 0 is right for each of them, and arguments below it are read as 0. */
typedef struct {
    const char *name;
    accuracy_kernels by;
    sw_unary kind;
    float param, most; /* of clamp: its bounds */
    bool slope;
    double (*exact)(double x, double p);
    double bound;     /* ulp */
    float low, high;  /* arguments that the op can be handed; low = high = 0: all */
    float from, to;   /* where the slope crosses 0, in ulp of max(|y|, floor) */
    float floor;      /* 0: it crosses nowhere */
    const char *note; /* "" or why more than 4 ulp, or another floor */
    bool exact_nan;   /* NaN stays NaN */
} accuracy_row;
extern const accuracy_row accuracy_rows[];
extern const int n_accuracy_rows;

typedef struct {
    double worst[ACCURACY_RANGES]; /* -1: no argument lies there */
    float at[ACCURACY_RANGES];
    uint64_t arguments;
    uint64_t apart; /* arguments where an instruction set has other bits than the best one */
} accuracy_result;

/* Arguments i * step of all 2^32 floats by their bits, for i in [from, to): added to *result,
 * which begins as accuracy_begin leaves it. All instruction sets of this build and machine are
 * run as a run does, with denormals flushed. */
void accuracy_begin(accuracy_result *result);
void accuracy_sweep(const accuracy_row *row, uint64_t step, uint64_t from, uint64_t to,
                    const sw_par *par, accuracy_result *result);
/* How many arguments a step leaves. */
uint64_t accuracy_count(uint64_t step);

/* The error of y where r is true. */
double accuracy_error(const accuracy_row *row, float x, float y, double r);
