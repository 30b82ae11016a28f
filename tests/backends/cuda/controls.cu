// Kernels whose faults are known, for a real GPU: each must be seen for what it is. All compute
// D (m, n) = A (m, k) B (n, k)^T first, one element a thread and step; then each does its own.
// KERNEL and EXTRA are given by the tests.

typedef unsigned short half_bits;

__device__ float value(half_bits bits) {
    float result;
    asm("{ .reg .f16 h; mov.b16 h, %1; cvt.f32.f16 %0, h; }" : "=f"(result) : "h"(bits));
    return result;
}

__device__ half_bits rounded(float value) {
    half_bits result;
    asm("{ .reg .f16 h; cvt.rn.f16.f32 h, %1; mov.b16 %0, h; }" : "=h"(result) : "f"(value));
    return result;
}

extern "C" __global__ void KERNEL(half_bits *a, half_bits *b, half_bits *d, int m, int n, int k) {
    __shared__ volatile int shared[128];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < m * n; i += gridDim.x * blockDim.x) {
        float sum = 0;
        for (int j = 0; j < k; j++) sum += value(a[i / n * k + j]) * value(b[i % n * k + j]);
        d[i] = rounded(sum);
    }
    shared[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (shared[threadIdx.x ^ 1] < 0) d[0] = 0;
    EXTRA
}
