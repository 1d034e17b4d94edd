// The K largest logits of each row and where they stand, largest first; of equal ones the first. One block for each
// row; every thread keeps its logits in registers and gives up one when it wins a round.
#define THREADS 256
#define EACH 4
#define K 8
#define NOTHING -3.0e38f

extern "C" __global__ void topk_row(const float *__restrict__ logits, float *__restrict__ values,
                                    int *__restrict__ places)
{
    __shared__ float best_value[THREADS];
    __shared__ int best_place[THREADS];

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

        best_value[threadIdx.x] = value;
        best_place[threadIdx.x] = place;
        __syncthreads();
        for (int step = THREADS / 2; step > 0; step /= 2) {
            if (threadIdx.x < step) {
                const float other = best_value[threadIdx.x + step];
                const int where = best_place[threadIdx.x + step];
                if (other > best_value[threadIdx.x]
                    || (other == best_value[threadIdx.x] && where < best_place[threadIdx.x])) {
                    best_value[threadIdx.x] = other;
                    best_place[threadIdx.x] = where;
                }
            }
            __syncthreads();
        }
        value = best_value[0];
        place = best_place[0];
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
