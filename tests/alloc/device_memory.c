/* See device_memory.h. A plain block has its bytes in a page before it, and a page without
 * memory after. */
#include "tests/alloc/device_memory.h"
#include "alloc/base/mem.h"
#include <string.h>

static sw_status fails(sw_test_device *d)
{
    if (++d->calls == d->fail_at)
        SW_FAIL(d->fails, "test device: call %lld fails as planned", (long long)d->calls);
    return SW_OK;
}

static sw_status has_room(const sw_test_device *d, size_t bytes)
{
    if (d->capacity_bytes > 0 && bytes > d->capacity_bytes - d->live_bytes)
        SW_FAIL(SW_NOMEM, "test device: needs %zu bytes; %zu of %zu are taken", bytes,
                d->live_bytes, d->capacity_bytes);
    return SW_OK;
}

/* The place of a range; NULL: one that is free. */
static int range_of(const sw_test_device *d, const void *base)
{
    int i = 0;
    while (i < SW_TEST_RANGES && d->range[i].base != base)
        i++;
    return i;
}

static sw_status reserve(void *context, void **base, size_t bytes)
{
    sw_test_device *d = context;
    SW_TRY(fails(d));
    const int i = range_of(d, NULL);
    if (i == SW_TEST_RANGES)
        SW_FAIL(SW_NOMEM, "test device: more than %d ranges", SW_TEST_RANGES);
    SW_TRY(sw_range_reserve(base, bytes));
    d->range[i].base = *base;
    d->range[i].mapped_bytes = 0;
    d->ranges++;
    return SW_OK;
}

static sw_status map(void *context, void *base, size_t from, size_t to)
{
    sw_test_device *d = context;
    const int i = range_of(d, base);
    SW_TRY(fails(d));
    if (i == SW_TEST_RANGES || from != d->range[i].mapped_bytes || to <= from ||
        from % d->step != 0 || to % d->step != 0)
        SW_FAIL(SW_INVALID, "test device: [%zu, %zu) follows nothing", from, to);
    SW_TRY(has_room(d, to - from));
    SW_TRY(sw_range_commit(base, from, to));
    memset((unsigned char *)base + from, 0xd5, to - from);
    d->maps++;
    d->range[i].mapped_bytes = to;
    d->live_bytes += to - from;
    return SW_OK;
}

static void release(void *context, void *base, size_t bytes)
{
    sw_test_device *d = context;
    const int i = range_of(d, base);
    d->live_bytes -= d->range[i].mapped_bytes;
    d->range[i].base = NULL;
    d->ranges--;
    sw_range_release(base, bytes);
}

static sw_status take(void *context, void **out, size_t bytes)
{
    sw_test_device *d = context;
    const size_t page = sw_page_bytes();
    SW_TRY(fails(d));
    SW_TRY(has_room(d, bytes));
    void *base;
    SW_TRY(sw_range_reserve(&base, bytes + 2 * page));
    const sw_status status = sw_range_commit(base, 0, page + bytes);
    if (status != SW_OK) {
        sw_range_release(base, bytes + 2 * page);
        return status;
    }
    memcpy(base, &bytes, sizeof bytes);
    *out = (unsigned char *)base + page;
    memset(*out, 0xd5, bytes);
    d->maps++;
    d->ranges++;
    d->live_bytes += bytes;
    return SW_OK;
}

static void give(void *context, void *block)
{
    sw_test_device *d = context;
    const size_t page = sw_page_bytes();
    unsigned char *base = (unsigned char *)block - page;
    size_t bytes;
    memcpy(&bytes, base, sizeof bytes);
    d->live_bytes -= bytes;
    d->ranges--;
    sw_range_release(base, bytes + 2 * page);
}

static sw_status copy(void *context, void *to, const void *from, size_t bytes)
{
    SW_TRY(fails(context));
    memcpy(to, from, bytes);
    return SW_OK;
}

sw_device_memory sw_test_device_memory(sw_test_device *device)
{
    return (sw_device_memory){device, device->step, reserve, map, release, take, give, copy};
}

sw_status sw_test_device_store(sw_store **out, size_t bytes, sw_test_device *device)
{
    const sw_device_memory memory = sw_test_device_memory(device);
    return sw_store_device_create(out, bytes, &memory);
}
