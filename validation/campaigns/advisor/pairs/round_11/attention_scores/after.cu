// Scores of attention before the softmax: scores[head][i][j] = scale * dot(q[head][i], k[head][j]).
#define TILE 16

extern "C" __global__ void attention_scores(const float *__restrict__ q, const float *__restrict__ k,
                                            float *__restrict__ scores, int tokens, int dim, float scale)
{
    __shared__ float q_tile[TILE][TILE + 1];
    __shared__ float k_tile[TILE][TILE + 1];

    const int head = blockIdx.z;
    const int i = blockIdx.y * TILE + threadIdx.y;
    const int j = blockIdx.x * TILE + threadIdx.x;

    const float *query = q + (size_t)(head * tokens + i) * dim;
    const float *key = k + (size_t)(head * tokens + blockIdx.x * TILE + threadIdx.y) * dim;
    float sum = 0.0f;
    for (int from = 0; from < dim; from += TILE) {
        q_tile[threadIdx.y][threadIdx.x] = query[from + threadIdx.x];
        k_tile[threadIdx.y][threadIdx.x] = key[from + threadIdx.x];
        __syncthreads();
#pragma unroll
        for (int d = 0; d < TILE; ++d)
            sum += q_tile[threadIdx.y][d] * k_tile[threadIdx.x][d];
        __syncthreads();
    }

    scores[(size_t)(head * tokens + i) * tokens + j] = sum * scale;
}
