// blas - OpenBLAS called serially: its own threads cut the sums in other places and give other bits.
#include "blas.h"

#include <cblas.h>

static enum CBLAS_TRANSPOSE order(BlasOrder order)
{
    return order == BLAS_TRANSPOSED ? CblasTrans : CblasNoTrans;
}

void blas_multiply(BlasOrder a_order, BlasOrder b_order, int64_t m, int64_t n, int64_t k, const float *a,
                   int64_t a_stride, const float *b, int64_t b_stride, float beta, float *c, int64_t c_stride)
{
    cblas_sgemm(CblasRowMajor, order(a_order), order(b_order), (blasint)m, (blasint)n, (blasint)k, 1, a,
                (blasint)a_stride, b, (blasint)b_stride, beta, c, (blasint)c_stride);
}

const char *blas_core(void)
{
    return openblas_get_corename();
}

const char *blas_config(void)
{
    return openblas_get_config();
}

void blas_serial(void)
{
    openblas_set_num_threads(1);
}
