#include "tests/cuda/fake_card.h"
#include "alloc/base/mem.h"
#include "tests/support/suite.h"
#include <dlfcn.h>

#define MODULE SW_BUILD_ROOT "/tests/cuda/libstepwell-cuda-fake.so"

const sw_fake_api *sw_fake_card_api(void)
{
    static const sw_fake_api *api;
    if (api != NULL)
        return api;
    setenv("STEPWELL_CUDA_MODULE", MODULE, 1);
    void *file = dlopen(MODULE, RTLD_NOW | RTLD_LOCAL);
    sw_fake_opener *open = NULL;
    void *symbol = file != NULL ? dlsym(file, "sw_fake") : NULL;
    memcpy(&open, &symbol, sizeof open);
    SW_CHECK(open != NULL, "%s", dlerror());
    CU_ASSERT_PTR_NOT_NULL_FATAL(open);
    return api = open();
}

static struct {
    bool there;
    size_t since; /* what was made on it */
} last;

static void end_of_test(void *unused)
{
    last.there = false;
    sw_fake_card_is_well("the test");
}

const sw_fake_api *sw_fake_card_new(const sw_fake_card *card, uint64_t lazy)
{
    const sw_fake_api *f = sw_fake_card_api();
    if (last.there) {
        sw_after_since(last.since);
        sw_fake_card_is_well("the card before");
    } else {
        sw_after(end_of_test, NULL);
    }
    last.there = true;
    last.since = sw_after_mark();
    f->reset(card);
    f->lazy(lazy);
    return f;
}

void sw_fake_card_lost(void)
{
    sw_after_since(last.since);
    sw_fake_card_api()->reset(NULL);
}

sw_fake_counts sw_fake_card_counts(void)
{
    sw_fake_counts c;
    sw_fake_card_api()->counts(&c);
    return c;
}

void sw_fake_card_is_well(const char *what)
{
    sw_fake_live l;
    sw_heap_stats pinned;
    sw_fake_card_api()->live(&l);
    sw_heap_read(SW_HEAP_PINNED, &pinned);
    const uint64_t left = l.device_blocks + l.ranges + l.handles + l.pinned + l.streams +
                          l.events + l.graphs + l.execs + l.blas + l.pending + pinned.bytes;
    SW_CHECK(left == 0,
             "%s leaves %d blocks, %d ranges, %d handles, %d pinned, %d streams, %d events, %d "
             "graphs, %d executables, %d of blas, %d pending, %zu bytes held fast",
             what, (int)l.device_blocks, (int)l.ranges, (int)l.handles, (int)l.pinned,
             (int)l.streams, (int)l.events, (int)l.graphs, (int)l.execs, (int)l.blas,
             (int)l.pending, pinned.bytes);
    SW_CHECK(sw_fake_card_counts().violations == 0, "%s: %s", what,
             sw_fake_card_api()->violation());
}
