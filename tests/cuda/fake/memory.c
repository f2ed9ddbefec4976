/* Memory of the card and pinned memory of the host. Addresses of cards lie in a window where
 * nothing else is, and no address is given out twice in a row: what was freed stays a hole. New
 * memory is full of NaNs. Only while work runs may it be touched. */
#include "internal.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WINDOW ((uintptr_t)0x200000000000)
#define WINDOW_END ((uintptr_t)0x300000000000)
#define PAGE ((size_t)4096)
#define GRANULE SW_FAKE_GRANULARITY

enum what { BLOCK, RESERVED, PIECE, HANDLE, PINNED };

/* One list for all. A piece is a mapped part of a reserved range. */
typedef struct thing {
    struct thing *next;
    enum what what;
    unsigned char *base; /* as the caller knows it */
    size_t bytes;
    unsigned char *pages; /* what is opened and closed: whole pages */
    size_t page_bytes;
    int card;
    bool open;             /* PIECE: access was given */
    struct thing *of;      /* PIECE: its handle */
    unsigned mapped;       /* HANDLE: pieces of it */
    bool released;         /* HANDLE */
    unsigned long long id; /* HANDLE */
} thing;

static thing *things;
static uintptr_t next_address = WINDOW;
static unsigned long long next_id = 1;
static int depth;
static int held;

/* ---- pages ------------------------------------------------------------------------------- */

static size_t round_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* A file of NaNs: mapped privately it is memory that no one has written yet, for nothing. */
static int nans(void)
{
    static int file = -1;
    if (file >= 0)
        return file;
    file = memfd_create("nans", MFD_CLOEXEC);
    void *at = MAP_FAILED;
    if (file >= 0 && ftruncate(file, (off_t)GRANULE) == 0)
        at = mmap(NULL, GRANULE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED)
        abort();
    memset(at, 0xff, GRANULE);
    munmap(at, GRANULE);
    return file;
}

/* Addresses without memory, for whole pages, at a multiple of GRANULE; a hole comes after. */
static unsigned char *address_space(size_t bytes)
{
    const size_t room = round_up(bytes, GRANULE) + GRANULE;
    for (int tries = 0; tries < 1000; tries++) {
        if (room > WINDOW_END - WINDOW)
            return NULL;
        if (next_address + room > WINDOW_END)
            next_address = WINDOW;
        void *want = (void *)next_address;
        void *at =
            mmap(want, bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        next_address += room;
        if (at == want)
            return at;
        if (at != MAP_FAILED)
            munmap(at, bytes);
    }
    return NULL;
}

static bool fill_pages(unsigned char *at, size_t bytes)
{
    const int prot = depth > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
    for (size_t done = 0; done < bytes; done += GRANULE) {
        const size_t part = bytes - done < GRANULE ? bytes - done : GRANULE;
        if (mmap(at + done, part, prot, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, nans(), 0) ==
            MAP_FAILED)
            return false;
    }
    return true;
}

static void protect(int prot)
{
    for (thing *t = things; t != NULL; t = t->next)
        if (t->what == BLOCK || (t->what == PIECE && t->open))
            mprotect(t->pages, t->page_bytes, prot);
}

void swi_fake_open_memory(void)
{
    if (depth++ == 0)
        protect(PROT_READ | PROT_WRITE);
}

void swi_fake_close_memory(void)
{
    if (--depth == 0)
        protect(PROT_NONE);
}

void swi_fake_hold_memory(void)
{
    static int most = -1; /* opening and closing is a third of the time of a step */
    if (most < 0) {
        const char *suite = getenv("STEPWELL_TESTS");
        most = suite != NULL && strcmp(suite, "full") == 0 ? 1 : 8;
    }
    if (held == 0)
        swi_fake_open_memory();
    if (++held >= most)
        swi_fake_let_go();
}

void swi_fake_let_go(void)
{
    if (held > 0)
        swi_fake_close_memory();
    held = 0;
}

/* ---- the list ---------------------------------------------------------------------------- */

static thing *add(enum what what, unsigned char *base, size_t bytes)
{
    thing *t = swi_fake_reserve(sizeof *t);
    t->what = what;
    t->base = t->pages = base;
    t->bytes = t->page_bytes = bytes;
    t->card = swi_fake_current();
    t->next = things;
    things = t;
    return t;
}

static void drop(thing *gone)
{
    thing **at = &things;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    free(gone);
}

static thing *find(enum what what, const void *base)
{
    for (thing *t = things; t != NULL; t = t->next)
        if (t->what == what && t->base == base)
            return t;
    return NULL;
}

static bool inside(const thing *t, const void *at, size_t bytes)
{
    const uintptr_t from = (uintptr_t)t->base, a = (uintptr_t)at;
    return a >= from && a - from <= t->bytes && bytes <= t->bytes - (a - from);
}

bool swi_fake_in_window(const void *at)
{
    return (uintptr_t)at >= WINDOW && (uintptr_t)at < WINDOW_END;
}

/* Pieces may lie side by side. */
bool swi_fake_there(const void *at, size_t bytes)
{
    const unsigned char *p = at;
    for (thing *t = things; t != NULL; t = t->next) {
        if (t->what != BLOCK && (t->what != PIECE || !t->open))
            continue;
        if (inside(t, p, bytes))
            return true;
        if (t->what == PIECE && inside(t, p, 1)) {
            const size_t part = t->bytes - (size_t)(p - t->base);
            return swi_fake_there(p + part, bytes - part);
        }
    }
    return false;
}

bool swi_fake_pinned(const void *at, size_t bytes)
{
    for (thing *t = things; t != NULL; t = t->next)
        if (t->what == PINNED && inside(t, at, bytes))
            return true;
    return false;
}

/* Programs, stacks, heaps and libraries lie high; numbers seldom look like that. */
bool swi_fake_on_host(uint64_t word)
{
    unsigned char resident;
    if (word < 0x550000000000u || word >= 0x7ffffffff000u)
        return false;
    return mincore((void *)(uintptr_t)(word / PAGE * PAGE), PAGE, &resident) == 0;
}

size_t swi_fake_free_bytes(void)
{
    const size_t used = swi_fake.used[swi_fake_current()];
    return used < swi_fake.card.total_bytes ? swi_fake.card.total_bytes - used : 0;
}

bool swi_fake_charge(size_t bytes)
{
    if (bytes > swi_fake_free_bytes())
        return false;
    swi_fake.used[swi_fake_current()] += bytes;
    return true;
}

void swi_fake_memory_live(sw_fake_live *out)
{
    for (const thing *t = things; t != NULL; t = t->next) {
        out->device_blocks += t->what == BLOCK;
        out->ranges += t->what == RESERVED;
        out->handles += t->what == HANDLE;
        out->pinned += t->what == PINNED;
        out->device_bytes += t->what == BLOCK || t->what == HANDLE ? t->bytes : 0;
    }
}

void swi_fake_memory_reset(void)
{
    while (things != NULL) {
        thing *t = things;
        if (t->what == BLOCK || t->what == RESERVED || t->what == PINNED)
            munmap(t->pages, t->page_bytes);
        things = t->next;
        free(t);
    }
}

/* A call that gives something back does so even where it fails, unless a capture forbids it. */
static bool refused(cudaError_t error)
{
    return error == cudaErrorStreamCaptureUnsupported;
}

/* ---- blocks ------------------------------------------------------------------------------ */

/* It ends where its last page does, as far as alignment lets it. */
SWI_FUNCTION(cudaError_t, cudaMalloc, (void **out, size_t bytes), (out, bytes))
{
    *out = NULL;
    if (bytes == 0)
        return cudaSuccess;
    if (bytes > swi_fake.card.total_bytes || !swi_fake_charge(round_up(bytes, 512)))
        return cudaErrorMemoryAllocation;
    const size_t pages = round_up(bytes, PAGE);
    unsigned char *at = address_space(pages);
    if (at == NULL || !fill_pages(at, pages))
        abort();
    thing *t = add(BLOCK, at + (pages - round_up(bytes, 512)), bytes);
    t->pages = at;
    t->page_bytes = pages;
    swi_fake.context[swi_fake_current()] = true;
    swi_fake.counts.allocs++;
    *out = t->base;
    return cudaSuccess;
}

/* Waits for the card, as CUDA does. */
cudaError_t cudaFree(void *devPtr)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudaFree);
    thing *t = find(BLOCK, devPtr);
    if (t != NULL && !refused(error)) {
        swi_fake.counts.syncs += swi_stream_pending(NULL, 0);
        swi_stream_drain();
        swi_fake.used[t->card] -= round_up(t->bytes, 512);
        munmap(t->pages, t->page_bytes);
        drop(t);
        swi_fake.counts.frees++;
    } else if (devPtr != NULL && error == cudaSuccess) {
        error = cudaErrorInvalidValue;
    }
    return swi_fake_leave(error);
}

/* ---- pinned memory ----------------------------------------------------------------------- */

static cudaError_t take_pinned(void **out, size_t bytes)
{
    *out = NULL;
    if (bytes == 0)
        return cudaSuccess;
    const size_t pages = round_up(bytes, PAGE);
    void *at = bytes > (size_t)1 << 40
                   ? MAP_FAILED
                   : mmap(NULL, pages, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return cudaErrorMemoryAllocation;
    memset(at, 0xff, pages);
    thing *t = add(PINNED, at, bytes);
    t->page_bytes = pages;
    swi_fake.counts.host_allocs++;
    *out = at;
    return cudaSuccess;
}

SWI_FUNCTION(cudaError_t, cudaHostAlloc, (void **pHost, size_t size, unsigned int flags),
             (pHost, size, flags))
{
    (void)flags;
    return take_pinned(pHost, size);
}

cudaError_t cudaFreeHost(void *ptr)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cudaFreeHost);
    thing *t = find(PINNED, ptr);
    if (t != NULL && !refused(error)) {
        if (swi_stream_pending(ptr, t->bytes))
            swi_fake_violation("cudaFreeHost: a copy from or to these %zu bytes is on its way",
                               t->bytes);
        swi_stream_drain();
        munmap(t->pages, t->page_bytes);
        drop(t);
        swi_fake.counts.host_frees++;
    } else if (ptr != NULL && error == cudaSuccess) {
        error = cudaErrorInvalidValue;
    }
    return swi_fake_leave(error);
}

/* ---- reserved ranges --------------------------------------------------------------------- */

static cudaError_t good_prop(const CUmemAllocationProp *prop)
{
    if (swi_fake.card.cannot_map)
        return cudaErrorNotSupported;
    return prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
                   prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                   prop->location.id >= 0 && prop->location.id < swi_fake.card.cards
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

SWI_FUNCTION(CUresult, cuMemGetAllocationGranularity,
             (size_t * granularity, const CUmemAllocationProp *prop,
              CUmemAllocationGranularity_flags option),
             (granularity, prop, option))
{
    (void)option;
    SWI_TRY(good_prop(prop));
    *granularity = GRANULE;
    return cudaSuccess;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags)
{
    (void)addr;
    cudaError_t error = swi_fake_enter(SWI_FN_cuMemAddressReserve);
    if (error == cudaSuccess && swi_fake.card.cannot_map)
        error = cudaErrorNotSupported;
    if (error == cudaSuccess &&
        (size == 0 || size % GRANULE != 0 || GRANULE % (alignment + !alignment) != 0 || flags))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess) {
        swi_fake.counts.maps++;
        unsigned char *at = address_space(size);
        if (at != NULL)
            *ptr = (CUdeviceptr)(uintptr_t)add(RESERVED, at, size)->base;
        else
            error = cudaErrorMemoryAllocation;
    }
    return (CUresult)swi_fake_leave(error);
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cuMemAddressFree);
    thing *t = find(RESERVED, (void *)(uintptr_t)ptr);
    bool busy = false;
    for (thing *p = things; t != NULL && p != NULL; p = p->next)
        busy = busy || (p->what == PIECE && inside(t, p->base, p->bytes));
    busy = busy && !refused(error);
    if (busy)
        swi_fake_violation("cuMemAddressFree: memory is mapped in these %zu bytes", size);
    if (t != NULL && t->bytes == size && !busy && !refused(error)) {
        munmap(t->pages, t->page_bytes);
        drop(t);
    } else if (error == cudaSuccess) {
        error = cudaErrorInvalidValue;
    }
    return (CUresult)swi_fake_leave(error);
}

static cudaError_t create(CUmemGenericAllocationHandle *out, size_t bytes)
{
    if (bytes == 0 || bytes % GRANULE != 0)
        return cudaErrorInvalidValue;
    if (!swi_fake_charge(bytes))
        return cudaErrorMemoryAllocation;
    thing *t = add(HANDLE, NULL, bytes);
    t->id = *out = next_id++;
    swi_fake.counts.maps++;
    return cudaSuccess;
}

SWI_FUNCTION(CUresult, cuMemCreate,
             (CUmemGenericAllocationHandle * handle, size_t size,
              const CUmemAllocationProp *prop, unsigned long long flags),
             (handle, size, prop, flags))
{
    SWI_TRY(flags != 0 ? cudaErrorInvalidValue : good_prop(prop));
    return create(handle, size);
}

static thing *handle_of(unsigned long long id)
{
    for (thing *t = things; t != NULL; t = t->next)
        if (t->what == HANDLE && t->id == id && !t->released)
            return t;
    return NULL;
}

/* Memory goes when it is neither held nor mapped. */
static void handle_end(thing *handle)
{
    if (!handle->released || handle->mapped > 0)
        return;
    swi_fake.used[handle->card] -= handle->bytes;
    drop(handle);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    cudaError_t error = swi_fake_enter(SWI_FN_cuMemRelease);
    thing *t = handle_of(handle);
    if (t != NULL && !refused(error)) {
        t->released = true;
        handle_end(t);
    } else if (error == cudaSuccess) {
        error = cudaErrorInvalidValue;
    }
    return (CUresult)swi_fake_leave(error);
}

static cudaError_t map(unsigned char *at, size_t bytes, size_t offset, thing *handle)
{
    bool reserved = false, taken = false;
    for (thing *t = things; t != NULL; t = t->next) {
        reserved = reserved || (t->what == RESERVED && inside(t, at, bytes));
        taken = taken || (t->what == PIECE && at < t->base + t->bytes && t->base < at + bytes);
    }
    if (!reserved || taken || handle == NULL || offset != 0 || bytes != handle->bytes ||
        (uintptr_t)at % GRANULE != 0)
        return cudaErrorInvalidValue;
    thing *t = add(PIECE, at, bytes);
    t->of = handle;
    handle->mapped++;
    swi_fake.counts.maps++;
    return cudaSuccess;
}

SWI_CALL_AS(CUresult, cuMemMap,
            (CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
             unsigned long long flags),
            (flags != 0
                 ? cudaErrorInvalidValue
                 : map((unsigned char *)(uintptr_t)ptr, size, offset, handle_of(handle))))

/* Of whole pieces: the next one in [at, end), or NULL. */
static thing *piece_in(const unsigned char *at, const unsigned char *end)
{
    for (thing *t = things; t != NULL; t = t->next)
        if (t->what == PIECE && t->base >= at && t->base + t->bytes <= end)
            return t;
    return NULL;
}

static size_t pieces_bytes(const unsigned char *at, const unsigned char *end)
{
    size_t bytes = 0;
    for (thing *t = things; t != NULL; t = t->next)
        bytes += t->what == PIECE && t->base >= at && t->base + t->bytes <= end ? t->bytes : 0;
    return bytes;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    unsigned char *at = (unsigned char *)(uintptr_t)ptr;
    cudaError_t error = swi_fake_enter(SWI_FN_cuMemSetAccess);
    if (error == cudaSuccess &&
        (count != 1 || desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
         desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE || size == 0 ||
         pieces_bytes(at, at + size) != size))
        error = cudaErrorInvalidValue;
    for (thing *t = things; error == cudaSuccess && t != NULL; t = t->next) {
        if (t->what != PIECE || t->base < at || t->base + t->bytes > at + size || t->open)
            continue;
        if (!fill_pages(t->base, t->bytes))
            abort();
        t->open = true;
        swi_fake.counts.maps++;
    }
    return (CUresult)swi_fake_leave(error);
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    unsigned char *at = (unsigned char *)(uintptr_t)ptr;
    cudaError_t error = swi_fake_enter(SWI_FN_cuMemUnmap);
    if (refused(error))
        return (CUresult)swi_fake_leave(error);
    if (swi_stream_pending_here()) {
        swi_fake_violation("cuMemUnmap: work is on its way that may use these %zu bytes", size);
        swi_stream_drain();
    }
    if (size == 0 || pieces_bytes(at, at + size) != size) {
        error = error != cudaSuccess ? error : cudaErrorInvalidValue;
        return (CUresult)swi_fake_leave(error);
    }
    for (thing *t = piece_in(at, at + size); t != NULL; t = piece_in(at, at + size)) {
        thing *handle = t->of;
        if (mmap(t->base, t->bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
            abort();
        drop(t);
        handle->mapped--;
        handle_end(handle);
    }
    return (CUresult)swi_fake_leave(error);
}
