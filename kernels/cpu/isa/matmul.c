/* Many products on the packed gemm. Axes of results that continue the rows of A are rows, and
 * summed axes that continue the columns of A and the rows of B are a longer product, where the
 * strides say so. */
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/dense_internal.h"

typedef struct {
    sw_products p;
    int64_t results, sums;
    int parts;
    const sw_par *par; /* inside one product */
} products_job;

static void join(sw_products *p)
{
    for (int i; p->n_results > 0; p->n_results--) {
        i = p->n_results - 1;
        if (p->result[i] != 1 &&
            (p->n_sums > 0 || p->result_b[i] != 0 || p->result_a[i] != p->m * p->a_row))
            break;
        p->m *= p->result[i];
    }
    for (int i; p->n_sums > 0; p->n_sums--) {
        i = p->n_sums - 1;
        if (p->sum[i] != 1 &&
            (p->sum_a[i] != p->k * p->a_col || p->sum_b[i] != p->k * p->b_row))
            break;
        p->k *= p->sum[i];
    }
}

static int64_t positions(const int64_t *dim, int n)
{
    int64_t all = 1;
    for (int i = 0; i < n; i++)
        all *= dim[i];
    return all;
}

static void offsets(int64_t position, const int64_t *dim, const int64_t *step_a,
                    const int64_t *step_b, int n, int64_t *a, int64_t *b)
{
    for (int i = n - 1; i >= 0; i--) {
        *a += position % dim[i] * step_a[i];
        *b += position % dim[i] * step_b[i];
        position /= dim[i];
    }
}

static void one_result(const products_job *j, int64_t r)
{
    const sw_products *p = &j->p;
    for (int64_t s = 0; s < j->sums; s++) {
        int64_t a = 0, b = 0;
        offsets(r, p->result, p->result_a, p->result_b, p->n_results, &a, &b);
        offsets(s, p->sum, p->sum_a, p->sum_b, p->n_sums, &a, &b);
        const sw_gemm g = {.c = p->c + r * p->m * p->n,
                           .a = p->a + a,
                           .a_row = p->a_row,
                           .a_col = p->a_col,
                           .b = p->b + b,
                           .b_row = p->b_row,
                           .b_col = p->b_col,
                           .m = p->m,
                           .n = p->n,
                           .k = p->k,
                           .accumulate = p->accumulate || s > 0};
        swi_gemm(&g, NULL, j->par);
    }
}

static void results_part(void *arg, int part)
{
    const products_job *j = arg;
    const int64_t last = vpiece(j->results, 1, part + 1, j->parts);
    for (int64_t r = vpiece(j->results, 1, part, j->parts); r < last; r++)
        one_result(j, r);
}

void SW_KERNEL(axes, products)(const sw_products *given, const sw_par *par)
{
    products_job j = {.p = *given};
    sw_products *p = &j.p;
    join(p);
    j.results = positions(p->result, p->n_results);
    j.sums = positions(p->sum, p->n_sums);
    if (j.sums == 0) { /* the sum of nothing */
        j.sums = 1;
        p->n_sums = 0;
        p->k = 0;
    }
    const double work = (double)p->m * (double)p->n * (double)p->k * (double)j.sums;
    if (j.results >= par->n_threads && par->n_threads > 1 &&
        work * (double)j.results >= SWI_WORTH) {
        j.parts = par->n_threads;
        par->run(par, results_part, &j, j.parts);
        return;
    }
    j.par = par;
    for (int64_t r = 0; r < j.results; r++)
        one_result(&j, r);
}
