// Clustering: log-likelihood of points under a mixture of Gaussians with diagonal covariances, and each
// point's most probable component.
extern "C" __global__ void gmm_estep(const float *points, const float *weight, const float *mean,
                                     const float *variance, float *loglik, int *component, int count)
{
    const int dims = 8, components = 12;
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        float x[dims];
        for (int d = 0; d < dims; d++)
            x[d] = points[d * count + i];
        float highest = -1e30f, sum = 0.0f;
        int best = 0;
        for (int c = 0; c < components; c++) {
            float density = logf(weight[c]);
            for (int d = 0; d < dims; d++) {
                float away = x[d] - mean[c * dims + d];
                float spread = variance[c * dims + d];
                density -= 0.5f * (away * away / spread + logf(6.2831853f * spread));
            }
            if (density > highest) {
                sum = sum * expf(highest - density) + 1.0f;
                highest = density;
                best = c;
            } else {
                sum += expf(density - highest);
            }
        }
        loglik[i] = highest + logf(sum);
        component[i] = best;
    }
}
