/* Switches: six registers and a stack on x86-64, ucontext elsewhere (or where
 * SW_FIBER_UCONTEXT asks for it). */
#include "alloc/base/poison.h"
#include "fiber.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if SW_POISON
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
/* The memory sanitizer is in kernels and emulator, and in no other code: what that writes
 * counts as written. */
#ifdef __has_feature
#if __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#define TRACKS 1
extern "C" __thread uint64_t __msan_param_tls[100] __attribute__((tls_model("initial-exec")));
#endif
#endif
#ifndef TRACKS
#define TRACKS 0
#endif

#if !defined(__x86_64__) && !defined(SW_FIBER_UCONTEXT)
#define SW_FIBER_UCONTEXT
#endif
#ifdef SW_FIBER_UCONTEXT
#include <ucontext.h>
typedef ucontext_t context;
#else
typedef void *context; /* its stack pointer; registers lie there */
#endif

#define WORKERS 1024
#define STACK ((size_t)128 << 10)
#define GUARD ((size_t)4096)

static struct {
    unsigned char *stack;
    context at;
    void (*work)(int i);
    void *fake; /* the sanitizer's */
} workers[WORKERS];
static context scheduler;
#if SW_POISON
static void *scheduler_fake;
static const void *scheduler_stack;
static size_t scheduler_bytes;
static bool from_scheduler; /* the switch that is under way */
#endif
static int beginning; /* the worker that begins at this switch */

/* All stacks at once, each with a page in front that no one may touch. */
static unsigned char *stacks;
static unsigned char *stack_of(int i)
{
    if (stacks == NULL) {
        void *at = mmap(NULL, WORKERS * (STACK + GUARD), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) {
            fputs("emulator: no room for stacks\n", stderr);
            exit(70);
        }
        stacks = static_cast<unsigned char *>(at);
        for (size_t k = 0; k < WORKERS; k++)
            mprotect(stacks + k * (STACK + GUARD), GUARD, PROT_NONE);
    }
    return stacks + (size_t)i * (STACK + GUARD) + GUARD;
}

static void switched_to_worker(int i)
{
#if SW_POISON
    __sanitizer_finish_switch_fiber(workers[i].fake, from_scheduler ? &scheduler_stack : NULL,
                                    from_scheduler ? &scheduler_bytes : NULL);
    from_scheduler = false;
#else
    (void)i;
#endif
}

extern "C" void swi_fiber_first(void)
{
    const int i = beginning;
    switched_to_worker(i);
    workers[i].work(i);
    abort();
}

#ifdef SW_FIBER_UCONTEXT
static void prepare(int i)
{
    getcontext(&workers[i].at);
    workers[i].at.uc_stack.ss_sp = workers[i].stack;
    workers[i].at.uc_stack.ss_size = STACK;
    workers[i].at.uc_link = NULL;
    makecontext(&workers[i].at, swi_fiber_first, 0);
}
static void change(context *from, context *to)
{
    swapcontext(from, to);
}
#else
extern "C" void swi_fiber_change(void **from, void *to);
asm(".text\n"
    ".globl swi_fiber_change\n"
    ".type swi_fiber_change, @function\n"
    "swi_fiber_change:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n"
    "    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n"
    "    popq %r12\n    popq %rbx\n    popq %rbp\n"
    "    ret\n"
    ".size swi_fiber_change, . - swi_fiber_change\n");

/* Stacks of one size begin in one set of the cache: each starts elsewhere. */
static void prepare(int i)
{
    void **top = reinterpret_cast<void **>(workers[i].stack + STACK - (size_t)(i % 32) * 576);
    *--top = NULL; /* no one to return to; the first function finds its stack aligned */
    *--top = reinterpret_cast<void *>(&swi_fiber_first);
    for (int k = 0; k < 6; k++)
        *--top = NULL;
    workers[i].at = top;
}
static void change(context *from, context *to)
{
    swi_fiber_change(from, *to);
}
#endif

void swi_fiber_begin(int i, void (*work)(int i))
{
    workers[i].stack = stack_of(i);
    workers[i].work = work;
    workers[i].fake = NULL;
    swi_fiber_memory_open(workers[i].stack, STACK); /* what a thread that never ended left */
    prepare(i);
}

/* Leave `from` (its fake stack is kept at `fake`) for worker i. */
static void enter(context *from, void **fake, int i)
{
    beginning = i;
#if SW_POISON
    __sanitizer_start_switch_fiber(fake, workers[i].stack, STACK);
#else
    (void)fake;
#endif
    change(from, &workers[i].at);
}

void swi_fiber_resume(int i)
{
#if SW_POISON
    from_scheduler = true;
    enter(&scheduler, &scheduler_fake, i);
    __sanitizer_finish_switch_fiber(scheduler_fake, NULL, NULL);
#else
    enter(&scheduler, NULL, i);
#endif
#if TRACKS
    for (uint64_t &argument : __msan_param_tls)
        argument = 0; /* other code calls the next function, and gives known ones */
#endif
}

void swi_fiber_switch(int from, int to)
{
    enter(&workers[from].at, &workers[from].fake, to);
    switched_to_worker(from);
}

void swi_fiber_to_scheduler(int i)
{
#if SW_POISON
    __sanitizer_start_switch_fiber(&workers[i].fake, scheduler_stack, scheduler_bytes);
#endif
    change(&workers[i].at, &scheduler);
    switched_to_worker(i);
}

void swi_fiber_memory_close(void *at, size_t bytes)
{
#if SW_POISON
    __asan_poison_memory_region(at, bytes);
#else
    swi_emu_forget(at, bytes);
#endif
}

void swi_fiber_memory_open(void *at, size_t bytes)
{
#if SW_POISON
    __asan_unpoison_memory_region(at, bytes);
#else
    (void)at, (void)bytes;
#endif
}

/* ---- bytes that no one has written ------------------------------------------------------- */

#if TRACKS
#define UNSEEN __attribute__((no_sanitize("memory"))) /* other code calls it */

extern "C" __attribute__((visibility("default"))) UNSEEN const char *
__msan_default_options(void)
{
    return "exitcode=1:poison_in_malloc=0";
}

/* In the place of the sanitizer's (--wrap): frames of kernels begin unwritten. Those of the
 * half that launches do not, since other code has its frames there next. */
extern "C" void __real___msan_poison_stack(void *at, size_t bytes);
extern "C" UNSEEN void __wrap___msan_poison_stack(void *at, size_t bytes)
{
    if (stacks != NULL && at >= stacks && at < stacks + WORKERS * (STACK + GUARD))
        __real___msan_poison_stack(at, bytes);
    else
        __msan_unpoison(at, bytes);
}
#else
#define UNSEEN
#define __msan_poison(at, bytes) (void)at, (void)bytes
#define __msan_unpoison(at, bytes) (void)at, (void)bytes
#define __msan_test_shadow(at, bytes) ((void)at, (void)bytes, (ptrdiff_t)-1)
#endif

UNSEEN bool swi_emu_tracks(void)
{
    return TRACKS;
}

UNSEEN void swi_emu_forget(const void *at, size_t bytes)
{
    __msan_poison(at, bytes);
}

UNSEEN void swi_emu_know(const void *at, size_t bytes)
{
    __msan_unpoison(at, bytes);
}

UNSEEN ptrdiff_t swi_emu_unknown(const void *at, size_t bytes)
{
    return __msan_test_shadow(at, bytes);
}
