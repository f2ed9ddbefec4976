/* Folded stacks of what lives at the peak of the run: a line for each tensor, its
 * frames from the outside in, and its bytes. Frames are the run, the layer's scopes, the role
 * and the tensor; padding is a frame of its own on top of its tensor, so that the lines add up
 * to the peak. Readers part frames at semicolons and take the last number after a blank, two
 * numbers as a difference: in names a semicolon becomes a comma, a blank an underscore. */
#include "profiler/inspect/sink_internal.h"
#include <inttypes.h>
#include <string.h>

static void put_text(sw_sink_out *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char c = text[i] == ';' ? ',' : text[i] == ' ' ? '_' : text[i];
        sw_sink_bytes(out, &c, 1);
    }
}

static void put_frames(sw_sink_out *out, const swi_stacks *tree, uint32_t at)
{
    const swi_frame *x = &tree->nodes[at];
    if (x->parent != 0)
        put_frames(out, tree, x->parent);
    if (at != 0) {
        sw_sink_text(out, ";");
        put_text(out, x->text, x->n);
    }
}

static sw_status write_folded(const sw_timeline *t, sw_sink_out *out)
{
    const sw_tl_program *p;
    swi_stacks tree = {0};
    SW_TRY(swi_peak_program(t, &p));
    sw_status status = swi_stacks_live(&tree, p, p->peak_op);
    for (uint32_t i = 0; i < tree.n_nodes && status == SW_OK; i++) {
        const swi_frame *x = &tree.nodes[i];
        const uint64_t bytes[2] = {x->bytes, x->padding};
        for (int padding = 0; padding < 2 && x->kind == SWI_TENSOR; padding++) {
            if (bytes[padding] == 0)
                continue;
            put_text(out, p->run, strlen(p->run));
            put_frames(out, &tree, i);
            sw_sink_print(out, "%s %" PRIu64 "\n", padding != 0 ? ";(padding)" : "",
                          bytes[padding]);
        }
        status = out->status;
    }
    swi_stacks_free(&tree);
    return status;
}

const sw_sink sw_sink_folded = {
    .name = "folded",
    .about = "folded stacks of the peak, for flamegraph.pl, inferno and speedscope",
    .ending = ".folded",
    .write = write_folded,
};
