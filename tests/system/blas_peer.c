/* A library with cblas_sgemm, of one loop: what `bench --library` opens in tests. */
#include <stddef.h>

void cblas_sgemm(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                 const float *a, int a_row, const float *b, int b_row, float beta, float *c,
                 int c_row);

enum { TURNED = 112 };

__attribute__((visibility("default"))) void
cblas_sgemm(int order, int turn_a, int turn_b, int m, int n, int k, float alpha, const float *a,
            int a_row, const float *b, int b_row, float beta, float *c, int c_row)
{
    (void)order;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0.0;
            for (int p = 0; p < k; p++)
                sum +=
                    (double)
                        a[turn_a == TURNED ? (size_t)p * a_row + i : (size_t)i * a_row + p] *
                    (double)b[turn_b == TURNED ? (size_t)j * b_row + p : (size_t)p * b_row + j];
            float *to = &c[(size_t)i * c_row + j];
            *to = (float)((double)alpha * sum + (beta != 0.0f ? (double)(beta * *to) : 0.0));
        }
}
