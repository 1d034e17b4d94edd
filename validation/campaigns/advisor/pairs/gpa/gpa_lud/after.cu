// LU decomposition without pivots of one 16 x 16 tile on the diagonal of a square matrix, in place, by one block.
#define TILE 16

// A division as the compiler makes it with fast math, which the benchmark is built with.
__device__ __forceinline__ float quotient(float above, float below)
{
    float result;
    asm("div.approx.ftz.f32 %0, %1, %2;" : "=f"(result) : "f"(above), "f"(below));
    return result;
}

extern "C" __global__ void factor_tile(float *matrix, int order, int corner)
{
    int step, k;
    int lane = threadIdx.x;
    __shared__ float tile[TILE][TILE];

    int start = corner * order + corner;
    for (step = 0; step < TILE; step++) {
        tile[step][lane] = matrix[start + lane];
        start += order;
    }
    __syncthreads();

    for (step = 0; step < TILE - 1; step++) {
        // A column of the lower factor, a row per thread.
        if (lane > step) {
            float left = tile[lane][step];
            for (k = 0; k < step; k++)
                left -= tile[lane][k] * tile[k][step];
            left = quotient(left, tile[step][step]);
            tile[lane][step] = left;
        }
        __syncthreads();

        // The next row of the upper factor, a column per thread.
        if (lane > step) {
            float left = tile[step + 1][threadIdx.x];
            for (k = 0; k < step + 1; k++)
                left -= tile[step + 1][k] * tile[k][threadIdx.x];
            tile[step + 1][lane] = left;
        }
        __syncthreads();
    }
    // The first row is as it was.
    start = (corner + 1) * order + corner;
    for (step = 1; step < TILE; step++) {
        matrix[start + threadIdx.x] = tile[step][threadIdx.x];
        start += order;
    }
}
