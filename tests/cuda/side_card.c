/* Entries on a card: operands go there, a launch is waited for, and all comes back. Around each
 * block lie bytes that no one may write; with STEPWELL_DEVICE_APART=1 each block is an
 * allocation of its own instead, exactly as large, for tools that watch these. */
#include "tests/cuda/side.h"
#include "runtime/device/device.h"
#include "runtime/device/device_module.h"
#include "runtime/stepwell.h"
#include "tests/cuda/entry.h"
#include "tests/support/suite.h"
#include <unistd.h>

/* Of this build, unless another is named. */
#define MODULE SW_BUILD_ROOT "/kernels/cuda/libstepwell-cuda.so"

enum { GUARD = 256, BLOCKS = 2 * SW_ENTRY_OPERANDS + 1 };

static swi_device *device;
static sw_cuda_queue queue, own, *chosen = &queue;
static void *counters, *slab; /* of the card */
static unsigned char *image;  /* of the slab, on the host */
static size_t slab_bytes;
static uint64_t launched;
static bool broken;

/* ---- opening ----------------------------------------------------------------------------- */

static sw_status open_side(void)
{
    static bool at_end;
    if (device != NULL)
        return SW_OK;
    if (access(MODULE, R_OK) == 0)
        setenv("STEPWELL_CUDA_MODULE", MODULE, 0);
    SW_TRY(swi_device_open(&device, "cuda"));
    if (!at_end)
        atexit(sw_side_close);
    at_end = true;
    chosen = &queue;
    SW_TRY(device->api->use(device->card));
    SW_TRY(device->api->queue_create(device->card, &queue, true, 0));
    const size_t tickets = SW_CUDA_TICKETS * sizeof(uint32_t); /* after the counters */
    SW_TRY(device->api->alloc(device->card, &counters, sizeof(sw_cuda_counters) + tickets));
    queue.counters = counters;
    own = queue;
    own.blas = NULL;
    queue.tickets = (uint32_t *)((sw_cuda_counters *)counters + 1);
    SW_TRY(device->api->fill(&queue, queue.tickets, 0, tickets));
    return SW_OK;
}

void sw_side_close(void)
{
    if (device == NULL)
        return;
    if (counters != NULL)
        device->api->free(device->card, counters);
    if (slab != NULL)
        device->api->free(device->card, slab);
    if (queue.stream != NULL)
        device->api->queue_destroy(device->card, &queue);
    free(image);
    swi_device_close(device);
    device = NULL;
    counters = slab = NULL;
    image = NULL;
    slab_bytes = 0;
    queue = own = (sw_cuda_queue){0};
}

/* Why nothing can run here. */
static const char *missing(void)
{
    return open_side() == SW_OK ? NULL : sw_last_error();
}

__attribute__((constructor)) static void enter(void)
{
    sw_suite_needs(missing);
}

static void must_be_open(void)
{
    const sw_status status = open_side();
    SW_CHECK(status == SW_OK, "%s", sw_last_error());
    CU_ASSERT_EQUAL_FATAL(status, SW_OK);
}

const sw_cuda_module *sw_side_module(void)
{
    const sw_cuda_module *module = NULL;
    must_be_open();
    CU_ASSERT_EQUAL_FATAL(swi_device_module(&module), SW_OK);
    return module;
}

/* ---- ways -------------------------------------------------------------------------------- */

const sw_side_way *sw_side_way_at(int i)
{
    static const sw_side_way ways[] = {{"with libraries", true, false},
                                       {"once more", false, false},
                                       {"other counters", false, true},
                                       {"own kernels", true, false},
                                       {"own kernels once more", false, false}};
    return i < 5 ? &ways[i] : NULL;
}

void sw_side_choose(int i)
{
    chosen = i < 3 ? &queue : &own;
}

const sw_cuda_queue *sw_side_queue(void)
{
    must_be_open();
    return chosen;
}

/* ---- operands ---------------------------------------------------------------------------- */

typedef struct {
    void *host; /* what the launch points to */
    size_t bytes, shift;
    size_t at;     /* of the block in the slab, its shift included */
    void *on_card; /* in place of `host` */
    void *apart;   /* an allocation of its own, or NULL */
} place;

typedef struct {
    place at[BLOCKS];
    int n;
    size_t bytes; /* of the slab */
} places;

static bool are_apart(void)
{
    return getenv("STEPWELL_DEVICE_APART") != NULL;
}

static sw_status add_place(places *p, void *host)
{
    place new = {.host = host};
    for (int i = 0; i < p->n; i++)
        if (p->at[i].host == host)
            return SW_OK;
    if (host == NULL)
        return SW_OK;
    if (!sw_entry_block_at(host, &new.bytes, &new.shift))
        SW_FAIL(SW_INVALID, "an operand is not the beginning of a block");
    new.at = p->bytes + GUARD + new.shift;
    p->bytes += (GUARD + new.shift + new.bytes + 255) / 256 * 256;
    p->at[p->n++] = new;
    return SW_OK;
}

static sw_status find_places(places *p, const sw_launch *l)
{
    *p = (places){0};
    for (int i = 0; i < l->n_in; i++)
        SW_TRY(add_place(p, l->in[i].ptr));
    for (int i = 0; i < l->n_out; i++)
        SW_TRY(add_place(p, l->out[i].ptr));
    SW_TRY(add_place(p, l->scratch));
    p->bytes += GUARD;
    return SW_OK;
}

static void *on_card(const places *p, const void *host)
{
    for (int i = 0; i < p->n; i++)
        if (p->at[i].host == host)
            return p->at[i].on_card;
    return NULL;
}

static sw_status grow_slab(size_t bytes)
{
    if (bytes <= slab_bytes)
        return SW_OK;
    if (slab != NULL)
        device->api->free(device->card, slab);
    free(image);
    slab = NULL;
    slab_bytes = 0;
    image = malloc(2 * bytes);
    if (image == NULL)
        SW_FAIL(SW_NOMEM, "no %zu bytes for operands", 2 * bytes);
    SW_TRY(device->api->alloc(device->card, &slab, 2 * bytes));
    slab_bytes = 2 * bytes;
    return SW_OK;
}

static sw_status send(places *p)
{
    if (are_apart()) {
        for (int i = 0; i < p->n; i++) {
            place *b = &p->at[i];
            const size_t all = b->shift + b->bytes;
            SW_TRY(device->api->alloc(device->card, &b->apart, all > 0 ? all : 1));
            b->on_card = (unsigned char *)b->apart + b->shift;
            if (b->bytes > 0)
                SW_TRY(swi_device_write(device, b->on_card, b->host, b->bytes));
        }
        return SW_OK;
    }
    SW_TRY(grow_slab(p->bytes));
    memset(image, 0xa5, p->bytes);
    for (int i = 0; i < p->n; i++) {
        memcpy(image + p->at[i].at, p->at[i].host, p->at[i].bytes);
        p->at[i].on_card = (unsigned char *)slab + p->at[i].at;
    }
    return swi_device_write(device, slab, image, p->bytes);
}

/* Bytes [from, to) of the image are as they were sent. */
static sw_status is_untouched(const sw_cuda_entry *e, size_t from, size_t to, const char *where)
{
    for (size_t i = from; i < to; i++)
        if (image[i] != 0xa5)
            SW_FAIL(SW_INVALID, "%s, kernel %d: has written %zu bytes %s", e->op, e->which,
                    where[0] == 'b' ? i - from + 1 : to - i, where);
    return SW_OK;
}

static sw_status fetch(places *p, const sw_cuda_entry *e)
{
    if (!are_apart())
        SW_TRY(swi_device_read(device, image, slab, p->bytes));
    for (int i = 0; i < p->n; i++) {
        place *b = &p->at[i];
        const size_t end = i + 1 < p->n ? p->at[i + 1].at : p->bytes;
        if (are_apart() && b->bytes > 0)
            SW_TRY(swi_device_read(device, b->host, b->on_card, b->bytes));
        if (are_apart())
            continue;
        if (i == 0)
            SW_TRY(is_untouched(e, 0, b->at, "before a block"));
        SW_TRY(is_untouched(e, b->at + b->bytes, end, "after a block, or before the next"));
        memcpy(b->host, image + b->at, b->bytes);
    }
    return SW_OK;
}

/* ---- launches ---------------------------------------------------------------------------- */

static sw_status go(const sw_cuda_entry *entry, const sw_launch *launch, places *p)
{
    sw_buffer in[SW_ENTRY_OPERANDS], out[SW_ENTRY_OPERANDS];
    sw_launch l = *launch;
    for (int i = 0; i < l.n_in; i++) {
        in[i] = l.in[i];
        in[i].ptr = on_card(p, in[i].ptr);
    }
    for (int i = 0; i < l.n_out; i++) {
        out[i] = l.out[i];
        out[i].ptr = on_card(p, out[i].ptr);
    }
    l.in = in;
    l.out = out;
    l.scratch = on_card(p, l.scratch);
    SW_TRY(entry->kernel(&l, chosen));
    launched++;
    return swi_device_faulted(device, device->api->queue_sync(device->card, chosen));
}

sw_status sw_side_launch(const sw_cuda_entry *entry, const sw_launch *launch,
                         sw_cuda_counters now)
{
    static places p;
    SW_TRY(open_side());
    SW_TRY(find_places(&p, launch));
    sw_status status = swi_device_write(device, counters, &now, sizeof now);
    if (status == SW_OK)
        status = send(&p);
    if (status == SW_OK)
        status = go(entry, launch, &p);
    if (status == SW_OK)
        status = fetch(&p, entry);
    const char *why = sw_textf("%s", sw_last_error());
    sw_cuda_info info; /* a card that still answers can go on */
    broken |= status == SW_DEVICE && (swi_device_fault(device) != SW_OK ||
                                      device->api->info(device->card, &info) != SW_OK);
    for (int i = 0; i < p.n; i++)
        if (p.at[i].apart != NULL)
            device->api->free(device->card, p.at[i].apart);
    if (status != SW_OK)
        SW_FAIL(status, "%s, kernel %d: %s", entry->op, entry->which, why);
    return SW_OK;
}

bool sw_side_counts(uint64_t *launches)
{
    *launches = 0;
    return false;
}

void sw_side_tell(void)
{
    must_be_open();
    sw_note("%llu launches so far on %s, %d.%d, driver %d, runtime %d, cuBLASLt %d",
            (unsigned long long)launched, device->info.name, device->info.major,
            device->info.minor, device->info.driver, device->info.runtime, device->info.blas);
}

bool sw_side_broken(void)
{
    return broken;
}

/* ---- what has passed --------------------------------------------------------------------- */

enum { ENTRIES = 512 };
static struct {
    const sw_cuda_entry *entry;
    bool failed;
} seen[ENTRIES];
static int n_seen;

/* In place of what was there: a process that tests some ops says nothing of others. */
static void write_seen(void)
{
    const char *path = getenv("STEPWELL_DEVICE_OPS");
    const sw_cuda_module *m;
    FILE *file;
    if (path == NULL || swi_device_module(&m) != SW_OK || (file = fopen(path, "w")) == NULL)
        return;
    for (int i = 0; i < n_seen; i++) {
        const sw_cuda_entry *e = seen[i].entry;
        int n = 0; /* entries of the op */
        for (uint32_t k = 0; k < m->n_entries; k++)
            n += strcmp(m->entries[k].op, e->op) == 0;
        fprintf(file, "%s %d %d %s\n", e->op, e->which, n,
                seen[i].failed ? "failed" : "passed");
    }
    fclose(file);
}

/* In bf16 an entry is a copy of the table's. */
void sw_side_compared(const sw_cuda_entry *entry, bool passed)
{
    int i = 0;
    entry = sw_side_entry(entry->op, entry->which);
    if (n_seen == 0)
        atexit(write_seen);
    while (i < n_seen && seen[i].entry != entry)
        i++;
    if (i == ENTRIES)
        return;
    n_seen += i == n_seen;
    seen[i].entry = entry;
    seen[i].failed |= !passed;
}
