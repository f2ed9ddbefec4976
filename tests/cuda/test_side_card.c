/* The reports of the card's side on entries that are wrong: planted here. */
#include "runtime/device/device.h"
#include "runtime/stepwell.h"
#include "tests/cuda/entry.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"
#include <stdlib.h>
#include <string.h>

SW_TESTS("a card's side")

static swi_device *device;
static int64_t aside; /* where the planted entry writes, from its output's beginning */

static sw_status writes_aside(const sw_launch *l, const sw_cuda_queue *queue)
{
    return device->api->fill(queue, (unsigned char *)l->out[0].ptr + aside, 7, 4);
}

static sw_status fails(const sw_launch *l, const sw_cuda_queue *queue)
{
    (void)l, (void)queue;
    return sw_error_set(SW_UNSUPPORTED, __FILE__, __LINE__, "planted");
}

static sw_status launched(sw_cuda_kernel *kernel, int64_t at, size_t shift, float *out)
{
    const sw_cuda_entry entry = {.op = "odd", .which = 2, .kernel = kernel};
    const sw_buffer in = {.ptr = sw_entry_block(40, 0)};
    const sw_buffer to = {.ptr = sw_entry_block(64, shift)};
    const sw_launch l = SW_OPTS(sw_launch, .in = &in, .n_in = 1, .out = &to, .n_out = 1);
    aside = at;
    const sw_status status = sw_side_launch(&entry, &l, (sw_cuda_counters){0});
    memcpy(out, to.ptr, 64);
    sw_entry_free();
    return status;
}

/* Before an output, after it, and inside, where it comes back. */
SW_TEST("bytes beside operands are watched")
{
    static const struct {
        int64_t at;
        bool good;
    } cases[] = {{0, true}, {60, true}, {64, false}, {-4, false}, {100, false}, {-60, false}};
    float out[16];
    if (getenv("STEPWELL_DEVICE_APART") != NULL)
        SW_SKIP("operands are allocations: a tool watches them");
    CU_ASSERT_EQUAL_FATAL(swi_device_open(&device, "cuda"), SW_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t shift = 0; shift < 8; shift += 4) {
            const sw_status status = launched(writes_aside, cases[i].at, shift, out);
            SW_CHECK((status == SW_OK) == cases[i].good, "at %d: %s", (int)cases[i].at,
                     sw_last_error());
            if (cases[i].good)
                SW_CHECK(memcmp(&out[cases[i].at / 4], "\7\7\7\7", 4) == 0, "%d bytes in",
                         (int)cases[i].at);
            else
                SW_CHECK(strstr(sw_last_error(), "odd, kernel 2: has written") != NULL, "%s",
                         sw_last_error());
        }
    swi_device_close(device);
}

SW_TEST("what fails is named")
{
    float out[16];
    CU_ASSERT_EQUAL(launched(fails, 0, 0, out), SW_UNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(sw_last_error(), "odd, kernel 2: planted");
    CU_ASSERT(!sw_side_broken());
}
