/* Launches of one entry as one (sw_cuda_group): a table with what all of them share and a row
 * for each, which is a parameter of the kernel. Each row has blocks of its own, as many as its
 * launch alone would have, and the work of a block is the same: no bit depends on the other
 * rows. A launch alone is a table of one row.
 *
 * ALL is compared as bytes: it begins as zeros (sw_cuda_zero). */
#pragma once

#include "kernels/cuda/device.h"
#include <string.h>

#define SW_CUDA_ROWS 32 /* of a table */

template <class ALL, class ROW, int ROWS> struct sw_cuda_table {
    enum { N = ROWS };
    ALL all;
    uint32_t n, end[ROWS]; /* rows; where the blocks of each end */
    ROW row[ROWS];
};

/* Nothing is shared. */
struct sw_cuda_none {
    int32_t zero;
};

/* Padding too. */
template <class ALL> static inline void sw_cuda_zero(ALL *all)
{
    memset(static_cast<void *>(all), 0, sizeof *all);
}

/* The row of this block, and its threads as if they were alone. */
struct sw_cuda_place {
    int row;
    int64_t thread, threads;
    uint32_t block, blocks;
};
template <class ALL, class ROW, int ROWS>
static __device__ __forceinline__ sw_cuda_place
sw_cuda_place_in(const sw_cuda_table<ALL, ROW, ROWS> &t)
{
    sw_cuda_place p = {};
    for (int by = SW_CUDA_ROWS / 2; by > 0; by /= 2)
        if (by < ROWS && p.row + by < (int)t.n && t.end[p.row + by - 1] <= blockIdx.x)
            p.row += by;
    const uint32_t from = p.row > 0 ? t.end[p.row - 1] : 0;
    p.block = blockIdx.x - from;
    p.blocks = t.end[p.row] - from;
    p.thread = (int64_t)p.block * blockDim.x + threadIdx.x;
    p.threads = (int64_t)p.blocks * blockDim.x;
    return p;
}

/* The table of a group and what launches it stand in group->table. */
typedef void sw_cuda_group_launcher(const void *table, const sw_cuda_queue *queue);

/* L has launch(table of 1 row or of SW_CUDA_ROWS, blocks, queue). */
template <class L, class ALL, class ROW>
static void sw_cuda_group_launch(const void *table, const sw_cuda_queue *queue)
{
    const auto &t = *static_cast<const sw_cuda_table<ALL, ROW, SW_CUDA_ROWS> *>(table);
    const unsigned blocks = t.end[t.n - 1];
    const sw_cuda_table<ALL, ROW, 1> one = {t.all, 1, {blocks}, {t.row[0]}};
    if (blocks == 0) /* no elements */
        return;
    if (t.n == 1)
        L::launch(one, blocks, queue);
    else
        L::launch(t, blocks, queue);
}

static inline bool sw_cuda_in_group(const sw_cuda_queue *queue)
{
    return queue->group != nullptr && (queue->group->left > 0 || queue->group->rows > 0);
}

/* Launches the rows that wait; also used before a launch of a group that goes into no table. */
static inline void sw_cuda_group_flush(sw_cuda_group *group, const sw_cuda_queue *queue)
{
    if (group->rows > 0)
        reinterpret_cast<sw_cuda_group_launcher *>(group->table[0])(&group->table[1], queue);
    group->rows = 0;
}

/* Such an L, of a kernel that has tables of any number of rows. */
#define SW_CUDA_GROUP_KERNEL(name, kernel)                                                     \
    struct name {                                                                              \
        template <class TABLE>                                                                 \
        static void launch(const TABLE &t, unsigned blocks, const sw_cuda_queue *queue)        \
        {                                                                                      \
            const auto run = kernel<TABLE::N>;                                                 \
            SW_CUDA_LAUNCH(run, blocks, SW_CUDA_THREADS, 0, queue, t);                         \
        }                                                                                      \
    }

/* A launch with so many blocks, or one of a group. */
template <class L, class ALL, class ROW>
static sw_status sw_cuda_group_add(const char *op, const ALL &all, const ROW &row,
                                   unsigned blocks, const sw_cuda_queue *queue)
{
    typedef sw_cuda_table<ALL, ROW, SW_CUDA_ROWS> table;
    static_assert(sizeof(table) + sizeof(uint64_t) <= SW_CUDA_GROUP_BYTES, "a parameter");
    sw_cuda_group alone;
    sw_cuda_group *group = queue->group != nullptr ? queue->group : &alone;
    if (group == &alone)
        alone.left = alone.rows = 0;
    table *t = reinterpret_cast<table *>(&group->table[1]);
    const uint64_t launcher = reinterpret_cast<uintptr_t>(&sw_cuda_group_launch<L, ALL, ROW>);
    if (group->rows == SW_CUDA_ROWS ||
        (group->rows > 0 &&
         (group->table[0] != launcher || memcmp(&t->all, &all, sizeof all) != 0)))
        sw_cuda_group_flush(group, queue);
    if (group->rows == 0) {
        group->table[0] = launcher;
        sw_cuda_zero(t); /* a parameter has no old addresses */
        memcpy(static_cast<void *>(&t->all), &all, sizeof all);
    }
    const uint32_t n = group->rows++;
    memcpy(static_cast<void *>(&t->row[n]), &row, sizeof row);
    t->end[n] = (n > 0 ? t->end[n - 1] : 0) + blocks;
    t->n = group->rows;
    if (group->left == 0)
        sw_cuda_group_flush(group, queue);
    return sw_cuda_launched(op);
}
