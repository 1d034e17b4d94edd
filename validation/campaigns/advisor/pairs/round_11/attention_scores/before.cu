// Scores of attention before the softmax: scores[head][i][j] = scale * dot(q[head][i], k[head][j]).
#define TILE 16

extern "C" __global__ void attention_scores(const float *__restrict__ q, const float *__restrict__ k,
                                            float *__restrict__ scores, int tokens, int dim, float scale)
{
    const int head = blockIdx.z;
    const int i = blockIdx.y * TILE + threadIdx.y;
    const int j = blockIdx.x * TILE + threadIdx.x;

    const float *query = q + (size_t)(head * tokens + i) * dim;
    const float *key = k + (size_t)(head * tokens + j) * dim;
    float sum = 0.0f;
    for (int d = 0; d < dim; ++d)
        sum += query[d] * key[d];

    scores[(size_t)(head * tokens + i) * tokens + j] = sum * scale;
}
