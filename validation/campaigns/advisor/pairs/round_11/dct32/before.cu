// Two-dimensional 32-point DCT of a video encoder: each block transforms one 32 x 32 tile of the residual,
// rows first, then columns. 128 threads; each computes 8 coefficients in each pass.
#define N 32
#define EACH 8

__constant__ float basis[N * N];  // basis[k * N + u]

extern "C" __global__ void dct32(const float *__restrict__ residual, float *__restrict__ coefficients, int width)
{
    __shared__ float tile[N][N];
    __shared__ float middle[N][N];

    const int lane = threadIdx.x % N;
    const int part = threadIdx.x / N;
    const size_t corner = (size_t)blockIdx.y * N * width + blockIdx.x * N;

    for (int row = part; row < N; row += N / EACH)
        tile[row][lane] = residual[corner + (size_t)row * width + lane];
    __syncthreads();

    float sum[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e)
        sum[e] = 0.0f;
#pragma unroll 4
    for (int k = 0; k < N; ++k) {
        const float value = tile[lane][k];
#pragma unroll
        for (int e = 0; e < EACH; ++e)
            sum[e] += basis[k * N + part * EACH + e] * value;
    }
#pragma unroll
    for (int e = 0; e < EACH; ++e)
        middle[lane][part * EACH + e] = sum[e];
    __syncthreads();

#pragma unroll
    for (int e = 0; e < EACH; ++e)
        sum[e] = 0.0f;
#pragma unroll 4
    for (int k = 0; k < N; ++k) {
        const float value = middle[k][lane];
#pragma unroll
        for (int e = 0; e < EACH; ++e)
            sum[e] += basis[k * N + part * EACH + e] * value;
    }
#pragma unroll
    for (int e = 0; e < EACH; ++e)
        coefficients[corner + (size_t)(part * EACH + e) * width + lane] = sum[e];
}
