// Cosine similarities of a few queries to all candidates. One block of 128 threads for each candidate.
#define THREADS 128
#define WARPS (THREADS / 32)

__device__ float warp_sum(float value)
{
    for (int offset = 16; offset > 0; offset >>= 1)
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

extern "C" __global__ void cosine_knn(const float *__restrict__ candidates, const float *__restrict__ queries,
                                      float *__restrict__ similarities, int width, int query_count)
{
    __shared__ float partial[3][WARPS];
    const int t = threadIdx.x;
    const float *candidate = candidates + blockIdx.x * width;

    for (int q = 0; q < query_count; q++) {
        const float *query = queries + q * width;
        float dot = 0.0f, square = 0.0f, query_square = 0.0f;
        for (int i = t; i < width; i += THREADS) {
            const float a = candidate[i];
            const float b = query[i];
            dot += a * b;
            square += a * a;
            query_square += b * b;
        }
        dot = warp_sum(dot);
        square = warp_sum(square);
        query_square = warp_sum(query_square);
        if (t % 32 == 0) {
            partial[0][t / 32] = dot;
            partial[1][t / 32] = square;
            partial[2][t / 32] = query_square;
        }
        __syncthreads();

        if (t == 0) {
            for (int warp = 1; warp < WARPS; warp++) {
                dot += partial[0][warp];
                square += partial[1][warp];
                query_square += partial[2][warp];
            }
            similarities[q * gridDim.x + blockIdx.x] = dot * rsqrtf(square * query_square);
        }
        __syncthreads();
    }
}
