/* Between the files that make random networks: random_net.c (the whole, and what all append
 * with), random_ops.c (the ops in the middle), random_ends.c (losses, optimizers, training).
 * Dice decide everything, so a seed is a network. */
#ifndef SW_TESTS_RUNTIME_RANDOM_MAKE_H
#define SW_TESTS_RUNTIME_RANDOM_MAKE_H

#include "tests/runtime/random_net.h"

#define MOST_ELEMENTS 40000

typedef struct {
    random_net *net;
    sw_dice dice;
    int scope;
} maker;

static inline int below(maker *m, int n)
{
    return (int)sw_dice_below(&m->dice, (uint64_t)n);
}

static inline bool chance(maker *m, int percent)
{
    return below(m, 100) < percent;
}

static inline int64_t elements(const sw_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

static inline bool same(const sw_shape *a, const sw_shape *b)
{
    return a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

/* Append an op; its number. */
int random_push(maker *m, random_op op);
int random_push_on(maker *m, random_kind kind, int x, float size);
/* Scales large values down again, so that neither tanh nor softmax saturates. */
int random_tamed(maker *m, int x);
bool random_is_value(const random_op *op);
/* A value, rather a late one; min_rank..max_rank. -1: none came up. */
int random_pick(maker *m, int min_rank, int max_rank);
int random_push_use(maker *m, int p);
/* A parameter of that shape, a new one or one that is in use. -1: there are too many. */
int random_push_param(maker *m, sw_shape shape);

/* One op in the middle, if dice find what it needs. */
void random_make_step(maker *m);
int random_reduce(maker *m, int x, random_kind kind, uint32_t axes);

/* Values that nothing reads yet go into one loss or both, a metric or an output. */
void random_end_all(maker *m, int *loss);
void random_make_optimizers(maker *m);
void random_train(maker *m, const int *loss);
/* A metric of what the model holds by now. */
void random_watch(maker *m, int x);
void random_assign(maker *m, int s);

#endif
