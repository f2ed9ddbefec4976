/* C = A B: B is packed into panels of PANEL vectors, then register blocks of up to MR rows by a
 * panel's width run along all of k. A is read in place by its strides and broadcast. An element
 * is one chain of multiply-adds over k from the first to the last, whatever block it falls in,
 * that begins at zero or, when adding, at what stood in c; then + bias. So a sum may be cut
 * anywhere along k.
 *
 * A panel is [k][width], width a multiple of VW; only the last one is narrower than PANEL
 * vectors, so the packed size is k * (n rounded up to VW) and panel p begins at p * k * PANEL *
 * VW. */
#include "kernels/cpu/isa/dense_internal.h"

#if SW_ISA_ID == 2
#define PANEL 4 /* vectors: 6 x 4 accumulators of 32 registers */
#else
#define PANEL 2 /* 6 x 2 of 16 */
#endif
#define NR (PANEL * VW)

typedef struct {
    const sw_gemm *g;
    float *packed;
    int64_t panels;
    int row_parts, panel_parts, pack_parts;
} gemm_job;

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

size_t swi_gemm_bytes(int64_t m, int64_t n, int64_t k)
{
    (void)m;
    return (size_t)round_up(n, VW) * (size_t)k * sizeof(float);
}

/* ---- packing ----------------------------------------------------------------------------- */

/* Columns [j, j + VW) of rows [k0, k1) into `to`, whose rows are `width` apart; n columns
 * exist. */
static void pack_column(float *to, int64_t width, const sw_gemm *g, int64_t j, int n,
                        int64_t k0, int64_t k1)
{
    const float *b = g->b + j * g->b_col;
    int64_t k = k0;
    if (g->b_col == 1) {
        if (n == VW)
            for (; k < k1; k++)
                vstore(to + k * width, vload(b + k * g->b_row));
        else
            for (; k < k1; k++)
                vstore(to + k * width, vload_n(b + k * g->b_row, n));
    } else if (g->b_row == 1) {
        for (; k + VW <= k1; k += VW) {
            vf r[VW];
            for (int i = 0; i < VW; i++)
                r[i] = i < n ? vload(b + i * g->b_col + k) : vzero();
            vtranspose(r);
            for (int i = 0; i < VW; i++)
                vstore(to + (k + i) * width, r[i]);
        }
    }
    for (; k < k1; k++)
        for (int i = 0; i < VW; i++)
            to[k * width + i] = i < n ? b[k * g->b_row + i * g->b_col] : 0.0f;
}

static void pack_part(void *arg, int part)
{
    const gemm_job *job = arg;
    const sw_gemm *g = job->g;
    const int64_t k0 = vpiece(g->k, VW, part, job->pack_parts);
    const int64_t k1 = vpiece(g->k, VW, part + 1, job->pack_parts);
    for (int64_t p = 0; p < job->panels; p++) {
        const int64_t left = g->n - p * NR, width = left < NR ? round_up(left, VW) : NR;
        float *to = job->packed + p * NR * g->k;
        for (int64_t j = 0; j < width; j += VW)
            pack_column(to + j, width, g, p * NR + j, left - j < VW ? (int)(left - j) : VW, k0,
                        k1);
    }
}

/* ---- register blocks --------------------------------------------------------------------- */

/* Rows [i, i + mr), columns [j, j + n) of c, n in ((nv - 1) * VW, nv * VW]; mr and nv are
 * constants. */
SW_VEC_FN void block(const sw_gemm *g, const float *panel, int64_t i, int64_t j, int n, int mr,
                     int nv)
{
    vf acc[12][PANEL];
    float *c = g->c + i * g->n + j;
    const int last = n - (nv - 1) * VW; /* lanes of the last vector */
    SW_UNROLL
    for (int r = 0; r < mr; r++)
        SW_UNROLL
    for (int v = 0; v < nv; v++) {
        const float *at = c + r * g->n + v * VW;
        const bool whole = v < nv - 1 || last == VW;
        acc[r][v] = !g->accumulate ? vzero() : whole ? vload(at) : vload_n(at, last);
    }
    const float *a = g->a + i * g->a_row;
    const int64_t row = g->a_row, col = g->a_col;
    for (int64_t k = 0; k < g->k; k++) {
        vf b[PANEL];
        SW_UNROLL
        for (int v = 0; v < nv; v++)
            b[v] = vload(panel + v * VW);
        SW_UNROLL
        for (int r = 0; r < mr; r++) {
            const vf x = vset1(a[r * row]);
            SW_UNROLL
            for (int v = 0; v < nv; v++)
                acc[r][v] = vfma(x, b[v], acc[r][v]);
        }
        panel += nv * VW;
        a += col;
    }
    SW_UNROLL
    for (int v = 0; v < nv; v++) {
        const bool whole = v < nv - 1 || last == VW;
        vf bias = vzero();
        if (g->bias != NULL)
            bias = whole ? vload(g->bias + j + v * VW) : vload_n(g->bias + j + v * VW, last);
        SW_UNROLL
        for (int r = 0; r < mr; r++) {
            float *to = c + r * g->n + v * VW;
            vf x = acc[r][v];
            if (g->bias != NULL)
                x = vadd(x, bias);
            if (whole)
                vstore(to, x);
            else
                vstore_n(to, x, last);
        }
    }
}

/* One panel, rows [i, end), nv constant. Narrow panels take more rows, to keep enough sums in
 * flight. */
SW_VEC_FN void panel_rows(const sw_gemm *g, const float *panel, int64_t i, int64_t end,
                          int64_t j, int n, int nv)
{
    for (; nv == 1 && end - i >= 12; i += 12)
        block(g, panel, i, j, n, 12, nv);
    for (; end - i >= 6; i += 6)
        block(g, panel, i, j, n, 6, nv);
    for (; end - i >= 4; i += 4)
        block(g, panel, i, j, n, 4, nv);
    for (; end - i >= 2; i += 2)
        block(g, panel, i, j, n, 2, nv);
    for (; i < end; i++)
        block(g, panel, i, j, n, 1, nv);
}

static void panel_rows_1(const sw_gemm *g, const float *panel, int64_t i, int64_t end,
                         int64_t j, int n)
{
    panel_rows(g, panel, i, end, j, n, 1);
}

static void panel_rows_2(const sw_gemm *g, const float *panel, int64_t i, int64_t end,
                         int64_t j, int n)
{
    panel_rows(g, panel, i, end, j, n, 2);
}

#if PANEL == 4
static void panel_rows_3(const sw_gemm *g, const float *panel, int64_t i, int64_t end,
                         int64_t j, int n)
{
    panel_rows(g, panel, i, end, j, n, 3);
}

static void panel_rows_4(const sw_gemm *g, const float *panel, int64_t i, int64_t end,
                         int64_t j, int n)
{
    panel_rows(g, panel, i, end, j, n, 4);
}
#endif

static void gemm_part(void *arg, int part)
{
    const gemm_job *job = arg;
    const sw_gemm *g = job->g;
    const int rp = part % job->row_parts, pp = part / job->row_parts;
    const int64_t i = vpiece(g->m, 12, rp, job->row_parts);
    const int64_t end = vpiece(g->m, 12, rp + 1, job->row_parts);
    const int64_t last = vpiece(job->panels, 1, pp + 1, job->panel_parts);
    for (int64_t p = vpiece(job->panels, 1, pp, job->panel_parts); p < last; p++) {
        const int64_t j = p * NR, left = g->n - j;
        const int n = left < NR ? (int)left : NR;
        const float *panel = job->packed + j * g->k;
        switch ((n + VW - 1) / VW) {
        case 1:
            panel_rows_1(g, panel, i, end, j, n);
            break;
        case 2:
            panel_rows_2(g, panel, i, end, j, n);
            break;
#if PANEL == 4
        case 3:
            panel_rows_3(g, panel, i, end, j, n);
            break;
        default:
            panel_rows_4(g, panel, i, end, j, n);
            break;
#endif
        }
    }
}

void swi_gemm(const sw_gemm *g, void *scratch, const sw_par *par)
{
    gemm_job job = {.g = g, .packed = scratch, .panels = (g->n + NR - 1) / NR};
    job.row_parts = job.panel_parts = job.pack_parts = 1;
    const int threads = par != NULL ? par->n_threads : 1;
    const bool worth = threads > 1 && (double)g->m * (double)g->n * (double)g->k >= SWI_WORTH;
    if (worth) {
        const int64_t units = (g->m + 11) / 12, wanted = 2 * threads;
        job.row_parts = (int)(units < wanted ? units : wanted);
        while (job.row_parts * job.panel_parts < wanted && job.panel_parts < job.panels)
            job.panel_parts++;
        job.pack_parts = g->k >= 4 * VW ? threads : 1;
    }
    vparts(par, pack_part, &job, job.pack_parts, worth && g->n * g->k >= 16384);
    vparts(par, gemm_part, &job, job.row_parts * job.panel_parts, worth);
}
