__shared__ float seen[64];
__constant__ float scale[4];
extern "C" __global__ void held(float *y, const int *x) {
  float a[8];
  for (int i = 0; i < 8; i++) a[x[i]] = i;
  seen[threadIdx.x & 63] = a[x[8]];
  __syncthreads();
  y[threadIdx.x] = seen[x[9] & 63] * scale[x[10]];
}
