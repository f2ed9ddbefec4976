/* sw_witness: what all witnesses need, and their order. Each states faults; a witness without
 * one agrees with the plan. */
#include "alloc/base/message.h"
#include "alloc/base/sys.h"
#include "runtime/exec/run_internal.h"
#include "runtime/observe/observe.h"
#include "runtime/observe/breakdown.h"
#include "runtime/base/structs.h"
#include "runtime/verify/witness_internal.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void swi_witness_fault(swi_witness *w, uint32_t op, uint32_t storage, const char *format, ...)
{
    if (w->info.n_faults++ > 0)
        return;
    const swi_program *p = w->program;
    char text[256], name[96];
    int n = 0;
    text[0] = '\0';
    if (op < p->n_ops)
        n = snprintf(
            text, sizeof text, "op %u %s: ", op,
            swi_node_name(&p->trace, &p->trace.nodes[p->ops[op].node], name, sizeof name));
    if (storage != SWI_NONE && n >= 0 && (size_t)n < sizeof text) {
        const int m = snprintf(text + n, sizeof text - (size_t)n,
                               "%s: ", swi_storage_name(&p->trace, storage, name, sizeof name));
        n = m < 0 ? n : n + m;
    }
    if (n >= 0 && (size_t)n < sizeof text) {
        va_list list;
        va_start(list, format);
        (void)sw_message_list(text + n, sizeof text - (size_t)n, format, list);
        va_end(list);
    }
    memcpy(w->info.first_fault, text, sizeof w->info.first_fault);
}

bool swi_witness_planned(const swi_witness *w, uint32_t s)
{
    const swi_storage *x = &w->program->trace.storages[s];
    return x->segment == SWI_SEG_STEP && w->root[s] == s && x->birth != SWI_NONE &&
           x->bytes > 0;
}

bool swi_witness_is_result(const swi_witness *w, uint32_t root)
{
    const swi_trace *t = &w->program->trace;
    for (uint32_t i = 0; i < t->n_metrics; i++)
        if (w->root[t->values[t->metrics[i].value].storage] == root)
            return true;
    for (uint32_t i = 0; i < t->n_outputs; i++)
        if (w->root[t->values[t->outputs[i].value].storage] == root)
            return true;
    return false;
}

uint64_t swi_witness_hash(const swi_witness *w, uint32_t op)
{
    const sw_launch *l = swi_frame_launch(w->frame, op);
    uint64_t hash = 0x9e3779b97f4a7c15ull;
    for (int k = 0; k < l->n_out; k++) {
        const unsigned char *p = l->out[k].ptr;
        for (size_t bytes = p != NULL ? sw_type_bytes(&l->out[k].type) : 0; bytes > 0;) {
            uint64_t word = 0;
            const size_t n = bytes < sizeof word ? bytes : sizeof word;
            memcpy(&word, p, n);
            hash = (hash ^ word) * 0xd6e8feb86659fd93ull;
            hash ^= hash >> 32;
            p += n;
            bytes -= n;
        }
    }
    return hash;
}

static sw_status note_hash(void *context, uint32_t op)
{
    swi_witness *w = context;
    w->hashes[op] = swi_witness_hash(w, op);
    return SW_OK;
}

sw_status swi_witness_reference(swi_witness *w)
{
    if (w->referred)
        return SW_OK;
    void *block;
    SW_TRY(swi_regions_create(&w->reference, w, SWI_REGIONS_HEAD | SWI_REGIONS_APART));
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, w->program->n_ops * sizeof *w->hashes));
    w->hashes = block;
    swi_regions_fill(&w->reference, SWI_PATTERN);
    const swi_hooks hooks = {.context = w, .after = note_hash};
    SW_TRY(swi_regions_run(w, &w->reference, &hooks));
    w->referred = true;
    return SW_OK;
}

static sw_status find_roots(swi_witness *w)
{
    const swi_trace *t = &w->program->trace;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SWI_WITNESS_HEAP, t->n_storages * sizeof *w->root));
    w->root = block;
    for (uint32_t s = 0; s < t->n_storages; s++) {
        uint32_t r = s;
        while (t->storages[r].alias != r)
            r = t->storages[r].alias;
        w->root[s] = r;
    }
    return SW_OK;
}

static void release(swi_witness *w)
{
    swi_regions_free(&w->reference);
    sw_heap_free(w->hashes, SWI_WITNESS_HEAP,
                 w->hashes != NULL ? w->program->n_ops * sizeof *w->hashes : 0);
    swi_breakdown_free(&w->breakdown);
    sw_heap_free(w->root, SWI_WITNESS_HEAP, w->program->trace.n_storages * sizeof *w->root);
}

static const struct {
    uint32_t bit;
    sw_status (*run)(swi_witness *w);
} witnesses[] = {{SW_WITNESS_ACCESS, swi_witness_access},
                 {SW_WITNESS_EXTENT, swi_witness_extent},
                 {SW_WITNESS_DEATH, swi_witness_death},
                 {SW_WITNESS_NEED, swi_witness_need}};

sw_status swi_witness_frame(sw_exec *exec, swi_frame *frame, const sw_run_args *args,
                            uint32_t which, sw_witness_info *out)
{
    const uint64_t start = sw_clock_ns();
    swi_witness w = {.exec = exec, .program = frame->program, .frame = frame, .args = args};
    sw_status status = find_roots(&w);
    for (size_t i = 0; status == SW_OK && i < sizeof witnesses / sizeof *witnesses; i++) {
        if ((which & witnesses[i].bit) == 0)
            continue;
        const uint32_t faults = w.info.n_faults;
        status = witnesses[i].run(&w);
        if (status == SW_OK && w.info.n_faults == faults)
            w.info.agreed |= witnesses[i].bit;
    }
    if (status == SW_OK && (which & SW_WITNESS_ACCESS) != 0) {
        const swi_breakdown before = exec->witness_breakdown;
        exec->witness_breakdown = w.breakdown;
        w.breakdown = before; /* freed below */
    }
    release(&w);
    SW_TRY(status);
    w.info.ns = sw_clock_ns() - start;
    swi_struct_write(SWI_STRUCT_sw_witness_info, out, &w.info);
    return SW_OK;
}

sw_status swi_witness_program(sw_exec *exec, const swi_program *program,
                              const sw_run_args *args, uint32_t which, sw_witness_info *out)
{
    swi_frame *frame;
    SW_TRY(swi_frame_create(&frame, program));
    const sw_status status = swi_witness_frame(exec, frame, args, which, out);
    swi_frame_free(frame);
    return status;
}

static sw_status witness(sw_exec *exec, const sw_run_args *args, uint32_t which,
                         sw_witness_info *out)
{
    swi_frame *frame;
    bool fresh;
    sw_witness_info info = SW_OPTS(sw_witness_info); /* the caller's may be an older one */
    SW_TRY(swi_exec_program(exec, args, &frame, &fresh));
    SW_TRY(swi_make_ready(exec, args));
    SW_TRY(swi_witness_frame(exec, frame, args, which, &info));
    swi_struct_write(SWI_STRUCT_sw_witness_info, out, &info);
    return exec->rec.profile != NULL ? swi_profile_witness(exec, args, frame, which, &info)
                                     : SW_OK;
}

sw_status sw_witness(sw_exec *exec, const sw_run_args *given, uint32_t which,
                     sw_witness_info *out)
{
    sw_run_args args;
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_witness"));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_witness: out must not be NULL");
    if (which == 0 || (which & ~SW_WITNESS_ALL) != 0)
        SW_FAIL(SW_INVALID, "sw_witness: `which` must be bits of SW_WITNESS_ALL (got 0x%x)",
                which);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_witness_info, out->size, "sw_witness"));
    SW_TRY(swi_read_args(&args, given, true, "sw_witness"));
    if (!exec->target.device->backend->host_memory)
        SW_FAIL(SW_UNSUPPORTED, "sw_witness: not supported on a device: a witness looks at "
                                "bytes that only the CPU's programs touch");
    if (args.immediate)
        SW_FAIL(SW_UNSUPPORTED, "sw_witness: immediate mode has no plan to compare with");
    SW_TRY(swi_enter(exec, &args, SW_FRAME));
    const sw_status status = witness(exec, &args, which, out);
    swi_leave(exec, &args);
    return status;
}
