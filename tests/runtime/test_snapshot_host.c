/* Snapshots of models in host memory, and of a backend that copies by its table: bytes, the
 * budget, and what a failure leaves. */
#include "alloc/base/sys.h"
#include "runtime/device/snapshot.h"
#include "runtime/exec/run_internal.h"
#include "runtime/model/model.h"
#include "tests/runtime/nets.h"
#include "tests/support/heap_sweep.h"
#include <sys/mman.h>

SW_TESTS("snapshots in host memory")

enum { ROOM = 100000 }; /* 1563 lines of 64: 100032 */

static sw_budget *new_budget(size_t bytes)
{
    sw_budget *budget = NULL;
    OK(sw_budget_create(&budget, bytes));
    CU_ASSERT_PTR_NOT_NULL_FATAL(budget);
    AFTER(sw_budget_destroy, budget);
    return budget;
}

static swi_target host(sw_budget *budget)
{
    return (swi_target){.device = swi_device_cpu(), .budget = budget};
}

static swi_snapshot *of_model(const swi_target *target, const sw_model *model)
{
    swi_snapshot *s = NULL;
    OK(swi_snapshot_create(&s, target, model->bytes));
    CU_ASSERT_PTR_NOT_NULL_FATAL(s);
    AFTER(swi_snapshot_destroy, s);
    CU_ASSERT_PTR_NULL(swi_snapshot_bytes(s));
    OK(swi_snapshot_room(s));
    return s;
}

SW_TEST("later runs change nothing in it")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 20);
    (void)net_train(exec, n, &b, 3);
    swi_snapshot *s = of_model(swi_target_of(exec), n->model);
    for (int again = 0; again < 2; again++) {
        const void *then = net_copy_bytes(n->model);
        const size_t half = n->model->bytes / 2;
        OK(swi_snapshot_copy(s, half, n->model->base + half, n->model->bytes - half));
        OK(swi_snapshot_copy(s, 0, n->model->base, half));
        OK(swi_snapshot_copy(s, n->model->bytes, NULL, 0));
        OK(swi_snapshot_end(s));
        (void)net_train(exec, n, &b, 1);
        OK(swi_snapshot_wait(s));
        CU_ASSERT(memcmp(swi_snapshot_bytes(s), then, n->model->bytes) == 0);
        CU_ASSERT(memcmp(swi_snapshot_bytes(s), n->model->base, n->model->bytes) != 0);
    }
}

/* All of it at once, before there is memory: the copy itself is never refused. */
SW_TEST("a budget is charged before there is memory")
{
    sw_budget *budget = new_budget(2 * 100032);
    const swi_target target = host(budget);
    swi_snapshot *s = NULL;
    OK(swi_snapshot_create(&s, &target, ROOM));
    CU_ASSERT_PTR_NOT_NULL_FATAL(s);
    CU_ASSERT_EQUAL(sw_budget_used(budget), 100032);
    CU_ASSERT_EQUAL(sw_budget_slots(budget), 0);
    OK(swi_snapshot_room(s));
    CU_ASSERT_EQUAL(sw_budget_used(budget), 100032);
    CU_ASSERT_EQUAL(swi_snapshot_bytes(s)[ROOM - 1], 0);
    OK(swi_snapshot_room(s)); /* it has its room */
    swi_snapshot_destroy(s);
    CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
}

/* No copy waits for pages. */
SW_TEST("room has its pages")
{
    const swi_target target = host(NULL);
    const size_t page = sw_page_bytes(), pages = 64;
    unsigned char resident[64] = {0};
    swi_snapshot *s = NULL;
    OK(swi_snapshot_create(&s, &target, pages * page));
    CU_ASSERT_PTR_NOT_NULL_FATAL(s);
    OK(swi_snapshot_room(s));
    CU_ASSERT_EQUAL_FATAL(mincore(swi_snapshot_bytes(s), pages * page, resident), 0);
    for (size_t i = 0; i < pages; i++)
        CU_ASSERT(resident[i] & 1);
    swi_snapshot_destroy(s);
}

SW_TEST("a refusal has the numbers")
{
    sw_budget *budget = new_budget(99968);
    const swi_target target = host(budget);
    swi_snapshot *s = NULL;
    const uint64_t blocks = sw_heap_blocks();
    REFUSED(swi_snapshot_create(&s, &target, ROOM), SW_NOMEM, "checkpoint");
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "100,032"));
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "99,968"));
    CU_ASSERT_PTR_NULL(s);
    CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
    OK(swi_snapshot_create(&s, &target, 99968)); /* what is free is enough */
    CU_ASSERT_EQUAL(sw_budget_used(budget), 99968);
    swi_snapshot_destroy(s);
    swi_snapshot_destroy(NULL);
}

SW_TEST("room that fails is asked for again, or given back")
{
    sw_budget *budget = new_budget((size_t)1 << 20);
    const swi_target target = host(budget);
    for (int again = 0; again < 2; again++) {
        swi_snapshot *s = NULL;
        OK(swi_snapshot_create(&s, &target, ROOM));
        CU_ASSERT_PTR_NOT_NULL_FATAL(s);
        sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_ONCE);
        REFUSED(swi_snapshot_room(s), SW_NOMEM, "");
        sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
        CU_ASSERT_PTR_NULL(swi_snapshot_bytes(s));
        CU_ASSERT_EQUAL(sw_budget_used(budget), 100032);
        if (again > 0) {
            OK(swi_snapshot_room(s));
            memset(swi_snapshot_bytes(s), 1, ROOM);
        }
        swi_snapshot_destroy(s);
        CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
    }
}

static sw_status make_and_end(void *target)
{
    swi_snapshot *s;
    SW_TRY(swi_snapshot_create(&s, target, ROOM));
    const sw_status status = swi_snapshot_room(s);
    swi_snapshot_destroy(s);
    return status;
}

SW_TEST("each allocation may fail")
{
    sw_budget *budget = new_budget((size_t)1 << 20);
    swi_target target = host(budget);
    const uint64_t sites = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, make_and_end, &target);
    SW_CHECK(sites >= 4, "%llu sites", (unsigned long long)sites);
    CU_ASSERT_EQUAL(sw_budget_used(budget), 0);
}

/* ---- a backend whose memory host code does not touch ------------------------------------- */

static int reads, shares;
static sw_status its_fault;

static sw_status read_bytes(swi_device *device, void *to, const void *from, size_t bytes)
{
    reads++;
    if (its_fault != SW_OK)
        SW_FAIL(its_fault, "third: the copy fails as planned");
    return swi_backend_cpu.read(device, to, from, bytes);
}

static sw_status fault(swi_device *device)
{
    if (its_fault != SW_OK)
        SW_FAIL(its_fault, "third: failed before");
    return SW_OK;
}

static swi_device *share(swi_device *device)
{
    shares++;
    return device;
}

static void leave(swi_device *device)
{
    shares--;
}

SW_TEST("a backend that copies at once does it by its table")
{
    static const float numbers[3] = {1.0f, 2.0f, 3.0f};
    swi_backend third = swi_backend_cpu;
    third.host_memory = false;
    third.read = read_bytes;
    third.fault = fault;
    third.share = share;
    third.close = leave;
    swi_device device = {.backend = &third};
    const swi_target target = {.device = &device};
    swi_snapshot *s = NULL;
    reads = shares = 0;
    its_fault = SW_OK;
    OK(swi_snapshot_create(&s, &target, sizeof numbers));
    CU_ASSERT_PTR_NOT_NULL_FATAL(s);
    CU_ASSERT_EQUAL(shares, 1);
    OK(swi_snapshot_room(s));
    OK(swi_snapshot_copy(s, 0, numbers, sizeof numbers));
    OK(swi_snapshot_end(s));
    OK(swi_snapshot_wait(s));
    CU_ASSERT_EQUAL(reads, 1);
    CU_ASSERT(memcmp(swi_snapshot_bytes(s), numbers, sizeof numbers) == 0);
    its_fault = SW_DEVICE;
    REFUSED(swi_snapshot_copy(s, 0, numbers, sizeof numbers), SW_DEVICE, "as planned");
    REFUSED(swi_snapshot_end(s), SW_DEVICE, "failed before");
    REFUSED(swi_snapshot_wait(s), SW_DEVICE, "failed before");
    swi_snapshot_destroy(s);
    CU_ASSERT_EQUAL(shares, 0);
}
