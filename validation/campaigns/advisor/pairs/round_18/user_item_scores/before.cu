// Recommender: scores[u][i] = dot(user[u], item[i]) + bias[i] for all pairs,
// with tiles of 16 factors in shared memory.
#define T 16
extern "C" __global__ void user_item_scores(const float *user,
                                            const float *item,
                                            const float *bias,
                                            float *scores,
                                            int users,
                                            int items,
                                            int factors)
{
    __shared__ float us[T][T];
    __shared__ float it[T][T + 1];
    int tx = threadIdx.x, ty = threadIdx.y;
    int u = blockIdx.y * T + ty;
    int i = blockIdx.x * T + tx;
    const float *urow = user + u * factors + tx;
    const float *irow = item + (blockIdx.x * T + ty) * factors + tx;

    float sum = bias[i];
    for (int f = 0; f < factors; f += T) {
        us[ty][tx] = urow[f];
        it[ty][tx] = irow[f];
        __syncthreads();
        for (int k = 0; k < T; ++k)
            sum += us[ty][k] * it[tx][k];
        __syncthreads();
    }
    scores[u * items + i] = sum;
}
