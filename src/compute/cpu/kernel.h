// kernel - how element loops are compiled: vectorised for three instruction sets, the same bits on each.
//
// Include it before the loops of a file. Only independent lanes are vectorised: no fused multiply-add, no
// reordered sums, no fast-math; a square root is correctly rounded everywhere and may ignore errno.
#ifndef FEDGATE_CPU_KERNEL_H
#define FEDGATE_CPU_KERNEL_H

#pragma GCC optimize("O3", "no-math-errno", "fp-contract=off")

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) &&                                                 \
    !defined(__SANITIZE_THREAD__)   // they cannot run before main
#define KERNEL __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"))) static
#else
#define KERNEL static
#endif

#endif
