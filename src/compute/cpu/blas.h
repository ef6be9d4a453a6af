// blas - the only OpenBLAS: one serial multiplication, and what the library says of itself.
#ifndef FEDGATE_CPU_BLAS_H
#define FEDGATE_CPU_BLAS_H

#include <stdint.h>

typedef enum BlasOrder { BLAS_PLAIN, BLAS_TRANSPOSED } BlasOrder;

// c[m x n] = a[m x k] b[k x n] + beta c, row-major, operands transposed where asked; leading dimensions in
// elements.
void blas_multiply(BlasOrder a_order, BlasOrder b_order, int64_t m, int64_t n, int64_t k, const float *a,
                   int64_t a_stride, const float *b, int64_t b_stride, float beta, float *c,
                   int64_t c_stride);
const char *blas_core(void);   // "SkylakeX"
const char *blas_config(void);   // "OpenBLAS 0.3.21 ..."
void blas_serial(void);   // one thread from now on: more would give other bits

#endif
