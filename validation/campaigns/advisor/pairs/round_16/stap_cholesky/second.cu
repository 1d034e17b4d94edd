// Adaptive radar beamforming: Cholesky factor of each range cell's 32 by 32 covariance, with diagonal
// loading. One warp does one cell; lane r owns row r.
extern "C" __global__ void stap_cholesky(const float *covariance, float *factor, float loading, int cells)
{
    __shared__ float matrix[4][32][33];  // a column more, so that a column's elements lie on different banks
    int lane = threadIdx.x, warp = threadIdx.y;
    int cell = blockIdx.x * 4 + warp;
    if (cell >= cells)
        return;
    float (*a)[33] = matrix[warp];
    const float *in = covariance + cell * 1024;
    float *out = factor + cell * 1024;

    for (int row = 0; row < 32; row++)
        a[row][lane] = in[row * 32 + lane] + (row == lane ? loading : 0.0f);
    __syncwarp();

    for (int k = 0; k < 32; k++) {
        float scale = rsqrtf(a[k][k]);
        __syncwarp();
        if (lane >= k)
            a[lane][k] *= scale;
        __syncwarp();
        float mine = a[lane][k];
        for (int j = k + 1; j < 32; j++)
            if (lane >= j)
                a[lane][j] -= mine * a[j][k];
        __syncwarp();
    }

    for (int row = 0; row < 32; row++)
        out[row * 32 + lane] = lane <= row ? a[row][lane] : 0.0f;
}
