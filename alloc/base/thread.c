/* Threads with a stack of a known size; its pages are touched when they start. */
#include "alloc/base/address_map.h"
#include "alloc/base/fault.h"
#include "alloc/base/fork.h"
#include "alloc/base/mem.h"
#include "alloc/base/poison.h"
#include "alloc/base/sys.h"
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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

static int create(sw_thread *thread)
{
    pthread_attr_t attr, *sized = sized_stack(&attr);
    const int error = pthread_create(&thread->handle, sized, enter, thread);
    if (sized == NULL)
        return error;
    (void)pthread_attr_destroy(sized);
    /* EINVAL: the size must be larger on this system. */
    return error == EINVAL ? pthread_create(&thread->handle, NULL, enter, thread) : error;
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
    *out = (sw_address_range){.kind = SW_ADDRESS_STACK,
                              .label = thread->name,
                              .base = (uintptr_t)base,
                              .bytes = bytes};
    return error == 0;
}

sw_status sw_thread_start(sw_thread **out, void (*body)(void *arg), void *arg, const char *name)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(sw_thread)));
    sw_thread *thread = block;
    thread->body = body;
    thread->arg = arg;
    thread->name = name;
    thread->forks = sw_fork_number();
    const int error = swi_fault_hit(SW_FAULT_THREAD) ? EAGAIN : create(thread);
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
