/* See op_words.h. */
#include "runtime/base/op_words.h"
#include "runtime/base/op_ids.h"
#include "runtime/base/op_traits.h"
#include <stdio.h>
#include <string.h>

/* Of ops inside: words after the layer, "%s" is input or gradient, and one word for what it
 * makes. Others have their name, with blanks: "noise_linear" is "noise linear". */
static const struct {
    uint32_t op;
    const char *words, *word;
} plain[] = {
    {SW_OP_to_n16, "%s repacked for SIMD", "repacked"},
    {SW_OP_from_n16, "%s unpacked from SIMD blocks", "unpacked"},
    {SW_OP_neuron_utility, "utility of its units", "utility"},
    {SW_OP_dropout_by, "dropout", "dropout"},
    {SW_OP_batch_norm_running, "running statistics", "running_statistics"},
    {SW_OP_batch_norm_fixed, "batch_norm by running statistics", "batch_norm"},
    {SW_OP_noise_linear, "linear under noise", "linear"},
    {SW_OP_noise_conv2d, "conv2d under noise", "conv2d"},
    {SW_OP_noise_embedding, "embedding under noise", "embedding"},
    {SW_OP_noise_table, "noise on rows", "noise"},
    {SW_OP_noise_affine, "scale and shift under noise", "affine"},
    {SW_OP_noise_linear_ce, "linear_ce under noise", "linear_ce"},
    {SW_OP_each, "a number for each evaluation", "numbers"},
    {SW_OP_es_gradient, "gradient estimated from fitness", "estimate"},
    {SW_OP_logit_scale, "scale of logits", "logit_scale"},
    {SW_OP_slice_grad, "gradient of a slice", "slice"},
    {SW_OP_sumsq, "sum of squares of gradients", "sum_of_squares"},
    {SW_OP_clip_scale, "factor of clipping", "clip_factor"},
    {SW_OP_accumulate_into, "gradient added to the kept one", "kept_gradient"},
    {SW_OP_product_bound, "bound of the gradient", "gradient_bound"},
    {SW_OP_finite, "check that gradients are finite", "finite_check"},
    {SW_OP_any_verdict, "finite checks joined", "finite_check"},
    {SW_OP_note_verdict, "finite check noted", "finite_check"},
    {SW_OP_count_skipped, "skipped updates counted", "skipped"},
    {SW_OP_adam_tick, "powers of beta advanced", "powers"},
    {SW_OP_steps_tick, "steps counted", "steps"},
    {SW_OP_tile_update, "gradient and update in tiles", "tile"},
    {SW_OP_noise_move, "parameters moved along noise", "moved"},
};

const char *swi_op_words(uint32_t op, bool gradient, char to[SWI_WORDS_BYTES])
{
    static const char end[] = "_update";
    const char *name = swi_op(op)->name;
    const size_t n = strlen(name), tail = sizeof end - 1;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (plain[i].op == op) {
            const char *blank = strstr(plain[i].words, "%s");
            if (blank == NULL)
                return plain[i].words;
            snprintf(to, SWI_WORDS_BYTES, "%s%s", gradient ? "gradient" : "input", blank + 2);
            return to;
        }
    if (swi_op_traits_of(op)->call < SWI_CALL_INSIDE)
        return name;
    if (n > tail && strcmp(name + n - tail, end) == 0) {
        snprintf(to, SWI_WORDS_BYTES, "update by %.*s", (int)(n - tail), name);
        return to;
    }
    snprintf(to, SWI_WORDS_BYTES, "%s", name);
    for (char *c = to; *c != '\0'; c++)
        *c = *c == '_' ? ' ' : *c;
    return to;
}

const char *swi_op_word(uint32_t op)
{
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (plain[i].op == op)
            return plain[i].word;
    return swi_op(op)->name;
}
