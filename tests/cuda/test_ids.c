/* Ids that the CPU's kernels refuse: what the device makes of them, which no comparison shows.
 */
#include "tests/cuda/entry.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"
#include <math.h>
#include <string.h>

SW_TESTS("ids")

enum { IDS = 40, ROWS = 6, WIDTH = 5 };

/* Of two inputs; scratch as the entry wants it. */
static void launch(int which, const sw_buffer *in, const sw_buffer *out)
{
    const sw_cuda_entry *entry = sw_side_entry("embedding", which);
    const sw_type types[] = {in[0].type, in[1].type};
    const sw_kernel_info info = {types, &out->type, 2, 1, NULL, 1, SW_ISA_BASE, 0};
    const size_t room =
        entry->scratch_bytes != NULL ? entry->scratch_bytes(&info, sw_side_queue()) : 0;
    const sw_launch l = SW_OPTS(sw_launch, .in = in, .n_in = 2, .out = out, .n_out = 1,
                                .scratch = sw_entry_block(room, 0), .scratch_bytes = room);
    CU_ASSERT_EQUAL(sw_side_launch(entry, &l, (sw_cuda_counters){0}), SW_OK);
}

SW_TEST("an id out of range gives NaNs and no gradient")
{
    static const int32_t bad[] = {-1, ROWS, INT32_MIN, INT32_MAX};
    const sw_type rows = {SW_F32, SW_PLAIN, {2, {ROWS, WIDTH}}},
                  wide = {SW_F32, SW_PLAIN, {2, {IDS, WIDTH}}},
                  list = {SW_I32, SW_PLAIN, {1, {IDS}}};
    float table[ROWS * WIDTH], dy[IDS * WIDTH];
    int32_t ids[IDS];
    for (int i = 0; i < IDS * WIDTH; i++)
        dy[i] = (float)(i % 7) + 1.0f;
    for (int i = 0; i < ROWS * WIDTH; i++)
        table[i] = (float)i;
    for (int i = 0; i < IDS; i++)
        ids[i] = i % 9 == 3 ? bad[i / 9 % 4] : i % ROWS;
    sw_buffer in[] = {sw_entry_fill(&list, ids, false, 0.0f, 0),
                      sw_entry_fill(&rows, table, false, 0.0f, 0)};
    const sw_buffer y = sw_entry_buffer(&wide, 0), dtable = sw_entry_buffer(&rows, 0);
    launch(SW_CUDA_FORWARD, in, &y);
    in[1] = sw_entry_fill(&wide, dy, false, 0.0f, 0);
    launch(0, in, &dtable);
    float want[ROWS * WIDTH] = {0};
    for (int i = 0; i < IDS * WIDTH; i++) {
        const int id = ids[i / WIDTH], at = (id >= 0 && id < ROWS ? id : 0) * WIDTH + i % WIDTH;
        const float got = ((const float *)y.ptr)[i];
        if (id < 0 || id >= ROWS) {
            SW_CHECK(isnan(got), "id %d: %g", id, (double)got);
            continue;
        }
        SW_CHECK(got == table[at], "id %d: %g", id, (double)got);
        want[at] += dy[i];
    }
    CU_ASSERT_EQUAL(memcmp(dtable.ptr, want, sizeof want), 0);
    sw_entry_free();
}
