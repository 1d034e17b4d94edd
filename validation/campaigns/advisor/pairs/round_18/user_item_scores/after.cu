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
    __shared__ float us[2][T][T];
    __shared__ float it[2][T][T + 1];
    int tx = threadIdx.x, ty = threadIdx.y;
    int u = blockIdx.y * T + ty;
    int i = blockIdx.x * T + tx;
    const float *urow = user + u * factors + tx;
    const float *irow = item + (blockIdx.x * T + ty) * factors + tx;

    float sum = bias[i];
    us[0][ty][tx] = urow[0];
    it[0][ty][tx] = irow[0];
    __syncthreads();
    int cur = 0;
    for (int f = 0; f < factors; f += T) {
        float nu = 0.0f, ni = 0.0f;
        bool more = f + T < factors;
        if (more) {
            nu = urow[f + T];
            ni = irow[f + T];
        }
        for (int k = 0; k < T; ++k)
            sum += us[cur][ty][k] * it[cur][tx][k];
        if (more) {
            us[cur ^ 1][ty][tx] = nu;
            it[cur ^ 1][ty][tx] = ni;
        }
        __syncthreads();
        cur ^= 1;
    }
    scores[u * items + i] = sum;
}
