/* Inheritance as its definition says, element by element and by the names of tensors. */
#ifndef SW_TESTS_INHERIT_PLAIN_H
#define SW_TESTS_INHERIT_PLAIN_H

#include "tests/evolve/net_scene.h"

/* A child of `a` (and `b`): copied from a, of one parent. */
sw_genome *scene_child(const sw_genome *a);
/* The sizes and rows of sized vertices, and kernels, were changed by hand: set what follows,
 * the columns of all and the rows of norms. */
void scene_follow(sw_genome *child, const sw_genome *parent);
/* Vertex i gets `more` new outputs after its own. */
void scene_widen(sw_genome *child, uint32_t i, int64_t more);
/* A vertex in between `after` and those that read it; it is of no parent. */
swi_vertex *scene_between(sw_genome *child, uint32_t behind, sw_vertex_kind kind,
                          const char *name);
/* A child of two parents at random: each vertex with parameters was some vertex of its kind of
 * one of them, or is new, with any rows and columns. */
sw_genome *scene_random_child(sw_dice *dice, const sw_genome *a, const sw_genome *b);

/* Room for the bytes of a net's model, filled with finite numbers. */
unsigned char *scene_random_bytes(const sw_net *of, sw_dice *dice);
/* The bytes that `to` must have; freed after the test. */
unsigned char *scene_inherited(sw_exec *exec, const sw_net *to, const sw_net *a,
                               const unsigned char *a_bytes, const sw_net *b,
                               const unsigned char *b_bytes, uint64_t seed);
/* The name of the first entry whose bytes differ, padding too; NULL: they are equal. */
const char *scene_differs(const sw_net *of, const unsigned char *x, const unsigned char *y);

#endif
