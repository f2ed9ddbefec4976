/* One member of a generation as a model of its own: theta + s sigma E, by the definition of the
 * noise, in pieces. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "kernels/binary.h"
#include "kernels/dispatch.h"
#include "kernels/noise.h"
#include "runtime/model/model_bytes.h"
#include "runtime/population/es/es_internal.h"

enum { PIECE = 2048 }; /* elements */

typedef struct {
    const swi_noise_mode *mode;
    sw_model *to;
    float sigma, sign;
    sw_noise_spec spec;
} member;

static sw_status perturb_piece(member *m, const swi_entry *entry, const swi_entry *sigmas,
                               const sw_noise_at *at, int64_t first, int64_t n)
{
    float theta[PIECE], of[PIECE], e[PIECE];
    const size_t size = sw_dtype_bytes(SW_F32), bytes = (size_t)n * size;
    SW_TRY(swi_model_read(m->to, theta, entry->offset + (size_t)first * size, bytes));
    if (sigmas != NULL)
        SW_TRY(swi_model_read(m->to, of, sigmas->offset + (size_t)first * size, bytes));
    sw_noise(sw_cpu_isa())->elements(e, first, n, &m->spec, at, m->sigma, theta);
    for (int64_t i = 0; i < n; i++)
        theta[i] += m->sign * m->sigma * (sigmas != NULL ? e[i] * of[i] : e[i]);
    return swi_model_write(m->to, entry->offset + (size_t)first * size, theta, bytes);
}

/* The result of op logit_scale for all logits; `sums` has room for the sums of the rows. */
static float scale_of(const float *logits, int64_t rows, int64_t cols, double *sums)
{
    double sum = 0.0;
    sw_binary(sw_cpu_isa())->row_sums(sums, logits, rows, cols, &sw_par_alone);
    for (int64_t i = 0; i < rows; i++)
        sum += sums[i];
    return (float)(5.0 / (sum / (double)(rows * cols) + 1e-5));
}

/* Logits become 1 and -1: a net without noise then has the direction's bits. */
static sw_status draw_bits(member *m, const swi_entry *entry, const sw_noise_at *at)
{
    const int64_t rows = m->spec.rows, cols = m->spec.cols;
    const size_t logits = sw_size_round(entry->bytes);
    const size_t bytes = logits + (size_t)rows * sizeof(double);
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
    float *theta = block;
    sw_status status = swi_model_read(m->to, theta, entry->offset, entry->bytes);
    if (status == SW_OK) {
        double *sums = (double *)(void *)((char *)block + logits);
        const float scale = scale_of(theta, rows, cols, sums);
        sw_binary(sw_cpu_isa())->member(theta, &m->spec, at, scale, m->sign < 0.0f, 0, rows);
        status = swi_model_write(m->to, entry->offset, theta, entry->bytes);
    }
    sw_heap_free(block, SW_HEAP_RECORDS, bytes);
    return status;
}

static sw_status perturb(member *m, uint32_t e, const sw_noise_at *at)
{
    const swi_entry *entry = &m->to->entries[e];
    const swi_entry *sigmas =
        m->mode->sigmas != NULL ? &m->to->entries[m->mode->sigmas[e]] : NULL;
    const int64_t n = swi_elements(&entry->shape);
    swi_noise_spec_of(&m->spec, m->mode, entry);
    if (m->spec.kind == SW_NOISE_BITS_OF_LOGITS)
        return draw_bits(m, entry, at);
    for (int64_t first = 0; m->spec.rows != 0 && first < n; first += PIECE)
        SW_TRY(
            perturb_piece(m, entry, sigmas, at, first, n - first < PIECE ? n - first : PIECE));
    return SW_OK;
}

static sw_status perturb_all(member *m, uint32_t direction)
{
    const sw_noise_at at = {m->mode->seed, (uint32_t)m->mode->generation, direction};
    for (uint32_t e = 1; e < m->to->n_entries; e++)
        if (swi_is_perturbed(m->mode, &m->to->entries[e]))
            SW_TRY(perturb(m, e, &at));
    return SW_OK;
}

sw_status sw_es_member(sw_es *es, uint32_t direction, int sign, sw_model *to)
{
    SW_TRY(sw_handle_check(es, SW_HANDLE_ES, "sw_es_member"));
    SW_TRY(sw_handle_check(to, SW_HANDLE_MODEL, "sw_es_member"));
    if (direction >= es->mode.directions || (sign != 1 && sign != -1))
        SW_FAIL(SW_INVALID,
                "sw_es_member: direction must be below %u and sign 1 or -1 (got %u and %d)",
                es->mode.directions, direction, sign);
    if (to == es->mode.model)
        SW_FAIL(SW_INVALID, "sw_es_member: the member must be another model than '%s'",
                to->name);
    member m = {.mode = &es->mode,
                .to = to,
                .sigma = sw_knob_get(sw_es_sigma(es)),
                .sign = (float)sign};
    SW_TRY(sw_model_copy(to, es->mode.model));
    SW_TRY(swi_model_take(to));
    const sw_status status = perturb_all(&m, direction);
    to->damaged |= status != SW_OK;
    swi_model_give(to);
    return status;
}
