// Mixed models: log-likelihood of each subject's 32 residuals under its own covariance matrix, by a
// Cholesky factorisation in shared memory, one warp a subject and one lane a row.
extern "C" __global__ void gaussian_loglik(const float *covariance, const float *residual, float *loglik,
                                           float ridge, int subjects)
{
    __shared__ float factor[4][32][33]; // padded: column accesses go to 32 banks
    int lane = threadIdx.x & 31;
    int subject = blockIdx.x * 4 + (threadIdx.x >> 5);
    if (subject >= subjects)
        return;
    float(*l)[33] = factor[threadIdx.x >> 5];
    const float *c = covariance + (size_t)subject * 1024;
    for (int r = 0; r < 32; r++)
        l[r][lane] = c[r * 32 + lane] + (r == lane ? ridge : 0.0f);
    __syncwarp();
    float y = residual[subject * 32 + lane];
    float quadratic = 0.0f, logdet = 0.0f;
    for (int k = 0; k < 32; k++) {
        float pivot = l[k][k];
        float inverse = rsqrtf(pivot);
        float solved = __shfl_sync(0xffffffffu, y, k) * inverse;
        float mine = l[lane][k] * inverse;
        __syncwarp();
        l[lane][k] = mine;
        __syncwarp();
        for (int j = k + 1; j < 32; j++)
            if (j <= lane)
                l[lane][j] -= mine * l[j][k];
        y -= mine * solved;
        quadratic += solved * solved;
        logdet += logf(pivot);
        __syncwarp();
    }
    if (lane == 0)
        loglik[subject] = -0.5f * (quadratic + logdet + 32.0f * 1.8378770664f);
}
