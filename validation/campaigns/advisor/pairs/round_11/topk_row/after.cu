// The K largest logits of each row and where they stand, largest first; of equal ones the first. One block for each
// row; every thread keeps its logits in registers and gives up one when it wins a round.
#define THREADS 256
#define EACH 4
#define K 8
#define NOTHING -3.0e38f
#define WARPS (THREADS / 32)

__device__ __forceinline__ void best_of_warp(float &value, int &place, int widest)
{
#pragma unroll
    for (int step = widest; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, step);
        const int where = __shfl_xor_sync(0xffffffffu, place, step);
        if (other > value || (other == value && where < place)) {
            value = other;
            place = where;
        }
    }
}

extern "C" __global__ void topk_row(const float *__restrict__ logits, float *__restrict__ values,
                                    int *__restrict__ places)
{
    __shared__ float best_value[WARPS];
    __shared__ int best_place[WARPS];

    const float *row = logits + (size_t)blockIdx.x * THREADS * EACH;
    float mine[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e)
        mine[e] = row[e * THREADS + threadIdx.x];

    for (int k = 0; k < K; ++k) {
        float value = mine[0];
        int place = threadIdx.x;
#pragma unroll
        for (int e = 1; e < EACH; ++e)
            if (mine[e] > value) {
                value = mine[e];
                place = e * THREADS + threadIdx.x;
            }

        best_of_warp(value, place, 16);
        if (threadIdx.x % 32 == 0) {
            best_value[threadIdx.x / 32] = value;
            best_place[threadIdx.x / 32] = place;
        }
        __syncthreads();
        value = best_value[threadIdx.x % WARPS];
        place = best_place[threadIdx.x % WARPS];
        best_of_warp(value, place, WARPS / 2);
        __syncthreads();

        if (threadIdx.x == 0) {
            values[blockIdx.x * K + k] = value;
            places[blockIdx.x * K + k] = place;
        }
#pragma unroll
        for (int e = 0; e < EACH; ++e)
            if (place == e * THREADS + threadIdx.x)
                mine[e] = NOTHING;
    }
}
