// Embedding bag: the weighted sum of the rows that a bag names; entries equal to the padding index do not count.
// A block has one bag, a thread one component. Eight entries are loaded, then their rows, and only then summed; a
// padding entry is read too (its row exists) but has weight 0.
#define AHEAD 8

template <int DIM>
__device__ void sum_bag(const float *__restrict__ table, const int *__restrict__ indices,
                        const float *__restrict__ weights, float *__restrict__ out, int begin, int end, int padding)
{
    float sum = 0.0f;
    int k = begin;
    for (; k + AHEAD <= end; k += AHEAD) {
        int row[AHEAD];
        float weight[AHEAD], value[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            row[a] = indices[k + a];
            weight[a] = weights[k + a];
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            value[a] = table[(size_t)row[a] * DIM + threadIdx.x];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            sum += (row[a] == padding ? 0.0f : weight[a]) * value[a];
    }
    for (; k < end; k++) {
        const int row = indices[k];
        if (row != padding)
            sum += weights[k] * table[(size_t)row * DIM + threadIdx.x];
    }
    out[threadIdx.x] = sum;
}

extern "C" __global__ void embedding_bag(const float *__restrict__ table, const int *__restrict__ indices,
                                         const int *__restrict__ offsets, const float *__restrict__ weights,
                                         float *__restrict__ out, int padding)
{
    const int bag = blockIdx.x;
    sum_bag<64>(table, indices, weights, out + bag * 64, offsets[bag], offsets[bag + 1], padding);
}
