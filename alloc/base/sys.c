/* Libraries, random numbers, the clock. */
#include "alloc/base/address_map.h"
#include "alloc/base/fault.h"
#include "alloc/base/handle.h"
#include "alloc/base/mem.h"
#include "alloc/base/poison.h"
#include "alloc/base/sys.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

sw_status sw_library_open(void **out, const char *name)
{
    void *library =
        swi_fault_hit(SW_FAULT_LIBRARY) ? NULL : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *why = dlerror(); /* has the name, where there is more to say */
        SW_FAIL(SW_UNSUPPORTED, "%s could not be opened: %s", name,
                why != NULL ? why : "no reason given");
    }
    *out = library;
    return SW_OK;
}

sw_status sw_library_symbol(void *library, const char *symbol, void **out)
{
    void *found = swi_fault_hit(SW_FAULT_LIBRARY) ? NULL : dlsym(library, symbol);
    if (found == NULL)
        SW_FAIL(SW_UNSUPPORTED, "symbol %s was not found", symbol);
    *out = found;
    return SW_OK;
}

sw_status sw_library_path(const void *address, char *out, size_t bytes)
{
    Dl_info info;
    void *map = NULL;
    char path[PATH_MAX];
    if (swi_fault_hit(SW_FAULT_FILE) || dladdr1(address, &info, &map, RTLD_DL_LINKMAP) == 0 ||
        map == NULL)
        SW_FAIL(SW_IO, "the file of the code at %p is not known", address);
    /* The program has no name there, and what it was called by may be no path. */
    const char *name = ((const struct link_map *)map)->l_name;
    name = *name != '\0' ? name : "/proc/self/exe";
    if (realpath(name, path) == NULL)
        SW_FAIL(SW_IO, "%s: %s", name, strerror(errno));
    if (strlen(path) >= bytes)
        SW_FAIL(SW_IO, "%s: the path has more than %zu bytes", path, bytes - 1);
    strcpy(out, path);
    return SW_OK;
}

/* Without the system's numbers: the clock and a count, mixed (splitmix64). */
uint64_t sw_random(void)
{
    static atomic_uint_fast64_t count;
    uint64_t x;
    if (swi_fault_random(&x))
        return x;
    if (!swi_fault_hit(SW_FAULT_FILE) &&
        getrandom(&x, sizeof x, GRND_NONBLOCK) == (ssize_t)sizeof x)
        return x;
    x = sw_clock_ns() + ((uint64_t)getpid() << 32) +
        atomic_fetch_add(&count, 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t sw_clock_ns(void)
{
    static atomic_uint_fast64_t latest;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    const int64_t shift = swi_fault_clock_shift();
    /* 0 where the clock would be before its beginning: a machine may be up for less than the
     * shift. */
    now = shift < 0 && now < 0 - (uint64_t)shift ? 0 : now + (uint64_t)shift;
    uint64_t before = atomic_load_explicit(&latest, memory_order_relaxed);
    while (now > before)
        if (atomic_compare_exchange_weak_explicit(&latest, &before, now, memory_order_relaxed,
                                                  memory_order_relaxed))
            return now;
    return before; /* the system's clock went back: ours stands still */
}

/* ---- thread ------------------------------------------------------------------------------ */

/* Threads with a stack of a known size; its pages are touched when they start. */

struct sw_thread {
    swi_address_entry claim; /* of its stack; first: describe() goes back from it */
    const char *name;
    uint32_t forks; /* sw_fork_number of the process that it runs in */
    pthread_t handle;
    void (*body)(void *arg);
    void *arg;
};

#if SW_SANITIZED /* its frames are larger, and it looks after stacks itself */
static pthread_attr_t *sized_stack(pthread_attr_t *attr)
{
    (void)attr;
    return NULL;
}

static void touch_stack(void)
{
}
#else
#define STACK_SPARE ((size_t)64 << 10) /* after what is touched: the thread's first frames */

/* Thread-local data of all modules may lie on the stack of a thread. */
static int add_tls(struct dl_phdr_info *info, size_t size, void *sum)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS)
            *(size_t *)sum += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
    return 0;
}

/* Attributes with a stack of the stated size beside what the system puts there; NULL: as the
 * system does it. */
static pthread_attr_t *sized_stack(pthread_attr_t *attr)
{
    const long least = sysconf(_SC_THREAD_STACK_MIN);
    const size_t page = sw_page_bytes();
    size_t bytes = SW_THREAD_STACK + STACK_SPARE + (least > 0 ? (size_t)least : 0);
    (void)dl_iterate_phdr(add_tls, &bytes);
    bytes = (bytes + page - 1) / page * page;
    if (pthread_attr_init(attr) != 0)
        return NULL;
    if (pthread_attr_setstacksize(attr, bytes) == 0)
        return attr;
    (void)pthread_attr_destroy(attr);
    return NULL;
}

/* Pages of a stack come when they are touched: now, and not in some later step. */
__attribute__((noinline)) static void touch_stack(void)
{
    volatile char room[SW_THREAD_STACK];
    for (size_t i = 0; i < sizeof room; i += 1024)
        room[i] = 0;
}
#endif

static void *enter(void *arg)
{
    const sw_thread *thread = arg;
    touch_stack();
    thread->body(thread->arg);
    return NULL;
}

/* The stack, with the thread's own data at its end; read only when the address map is read. */
static bool describe(const swi_address_entry *self, sw_address_range *out)
{
    const sw_thread *thread = (const sw_thread *)(const void *)self;
    pthread_attr_t attr;
    void *base = NULL;
    size_t bytes = 0;
    if (pthread_getattr_np(thread->handle, &attr) != 0)
        return false;
    const int error = pthread_attr_getstack(&attr, &base, &bytes);
    (void)pthread_attr_destroy(&attr);
    *out = (sw_address_range)SW_INIT(.kind = SW_ADDRESS_STACK, .label = thread->name,
                                     .base = (uintptr_t)base, .bytes = bytes);
    return error == 0;
}

sw_status sw_thread_start(sw_thread **out, void (*body)(void *arg), void *arg, const char *name)
{
    sw_thread *thread;
    SW_TRY(sw_heap_alloc(&thread, SW_HEAP_RECORDS, sizeof(sw_thread)));
    thread->body = body;
    thread->arg = arg;
    thread->name = name;
    thread->forks = sw_fork_number();
    int error = EAGAIN;
    if (!swi_fault_hit(SW_FAULT_THREAD)) {
        pthread_attr_t attr, *sized = sized_stack(&attr);
        error = pthread_create(&thread->handle, sized, enter, thread);
        if (sized != NULL)
            (void)pthread_attr_destroy(sized);
        if (sized != NULL && error == EINVAL) /* the size must be larger on this system */
            error = pthread_create(&thread->handle, NULL, enter, thread);
    }
    if (error != 0) {
        sw_heap_free(thread, SW_HEAP_RECORDS, sizeof *thread);
        SW_FAIL(SW_IO, "thread %s could not be started: %s", name, strerror(error));
    }
    (void)pthread_setname_np(thread->handle, name);
    swi_address_map_add(&thread->claim, describe);
    *out = thread;
    return SW_OK;
}

int sw_thread_processors(void)
{
    cpu_set_t set; /* too small for more than 1,024 */
    const long all = sysconf(_SC_NPROCESSORS_ONLN);
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                  : all > 0                                   ? (int)all
                                                              : 1;
    return n > 0 ? n : 1;
}

int sw_thread_processor(void)
{
    return sched_getcpu();
}

void sw_thread_keep_off(sw_thread *thread, int processor)
{
    cpu_set_t set;
    if (processor < 0 || processor >= CPU_SETSIZE ||
        sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    CPU_CLR(processor, &set);
    if (CPU_COUNT(&set) > 0)
        (void)pthread_setaffinity_np(thread->handle, sizeof set, &set);
}

/* A thread of the class SCHED_BATCH never takes the place of one that runs when it wakes; its
 * nice value keeps its share small where it competes. */
void sw_thread_yield_to_others(void)
{
    const struct sched_param none = {0};
    (void)!sched_setscheduler(0, SCHED_BATCH, &none);
    (void)!setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10);
}

void sw_thread_join(sw_thread *thread)
{
    if (thread == NULL)
        return;
    swi_address_map_remove(&thread->claim);
    if (thread->forks == sw_fork_number()) /* else it is the parent's */
        (void)pthread_join(thread->handle, NULL);
    sw_heap_free(thread, SW_HEAP_RECORDS, sizeof *thread);
}

/* ---- wait -------------------------------------------------------------------------------- */

/* See sys.h. */

/* How long an interrupted call goes on without progress. If the other end still works, the
 * rest is moved; if it has stopped, the process is not held up. Slices are counted, so
 * that no wrong clock can matter. */
enum { SLICE_MS = 20, GRACE_SLICES = 1000 / SLICE_MS };

static int (*_Atomic asks)(void);

void sw_interrupt_set(int (*asked)(void))
{
    atomic_store(&asks, asked);
}

static bool over(unsigned *slices)
{
    int (*const asked)(void) = atomic_load(&asks);
    return asked != NULL && asked() != 0 && ++*slices >= GRACE_SLICES;
}

static bool wait_for(int fd, short events)
{
    unsigned slices = 0;
    for (;;) {
        /* One slice; with no one to ask there is nothing to wake up for. A file that poll
         * refuses is ready: the call that follows says why. */
        struct pollfd one = {.fd = fd, .events = events};
        const int n = poll(&one, 1, atomic_load(&asks) != NULL ? SLICE_MS : -1);
        if (n > 0 || (n < 0 && errno != EINTR))
            return true;
        if (over(&slices))
            return false;
    }
}

bool swi_wait_input(int fd)
{
    return wait_for(fd, POLLIN);
}

bool swi_wait_output(int fd)
{
    return wait_for(fd, POLLOUT);
}

bool swi_wait_slice(unsigned *slices)
{
    (void)poll(NULL, 0, SLICE_MS);
    return !over(slices);
}
