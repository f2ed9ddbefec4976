/* The noise of parameters: noise_mode.h. */
#include "runtime/model/noise_mode.h"
#include "kernels/noise.h"
#include <stdio.h>
#include <string.h>

bool swi_is_perturbed(const swi_noise_mode *mode, const swi_entry *entry)
{
    return entry->role == SWI_ROLE_PARAMETER && !entry->frozen &&
           entry->optimizer == mode->optimizer;
}

uint32_t swi_noise_stream(const char *name)
{
    char full[SWI_MAX_NAME + 32];
    snprintf(full, sizeof full, "es/%s", name);
    return sw_rng_stream(full);
}

static int64_t part_of(int64_t n, float share)
{
    const int64_t part = share > 0.0f ? (int64_t)((double)n * (double)share + 0.5) : n;
    return part < 1 ? 1 : part > n ? n : part;
}

void swi_noise_spec(sw_noise_spec *out, const sw_noise_spec *like, float in_share,
                    float out_share, const sw_shape *shape, uint32_t stream)
{
    memset(out, 0, sizeof *out);
    out->distribution = like->distribution;
    out->stream = stream;
    out->taps = 1;
    if (shape->rank < 2 || shape->rank == 3) {
        out->kind = SW_NOISE_IID;
        out->cols = swi_elements(shape);
        out->rows = like->kind == SW_NOISE_DROPOUT ? 0 : 1;
        return;
    }
    out->kind = like->kind;
    out->sides = like->sides;
    out->rank = like->rank;
    out->window = like->window;
    out->rows = shape->dim[0];
    for (int i = 2; i < shape->rank; i++)
        out->taps *= (int32_t)shape->dim[i];
    out->cols = shape->dim[1] * out->taps;
    out->keep_rows = part_of(shape->dim[0], out_share);
    out->keep_cols = part_of(shape->dim[1], in_share);
}

/* Of logits (out, in, ...): a matrix, each channel with the positions after it. */
static void spec_of_bits(sw_noise_spec *out, const sw_shape *shape, uint32_t stream)
{
    memset(out, 0, sizeof *out);
    out->kind = SW_NOISE_BITS_OF_LOGITS;
    out->stream = stream;
    out->rows = shape->dim[0];
    out->taps = 1;
    for (int i = 2; i < shape->rank; i++)
        out->taps *= (int32_t)shape->dim[i];
    out->cols = swi_elements(shape) / shape->dim[0];
}

void swi_noise_spec_of(sw_noise_spec *out, const swi_noise_mode *mode, const swi_entry *entry)
{
    const uint32_t stream = swi_noise_stream(entry->name);
    if (entry->logits && entry->shape.rank >= 2 && swi_elements(&entry->shape) > 0)
        spec_of_bits(out, &entry->shape, stream);
    else
        swi_noise_spec(out, &mode->like, mode->in_share, mode->out_share, &entry->shape,
                       stream);
}
