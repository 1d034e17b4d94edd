// Clustering: log-likelihood of points under a mixture of Gaussians with diagonal covariances, and each
// point's most probable component.
extern "C" __global__ void gmm_estep(const float *points, const float *weight, const float *mean,
                                     const float *variance, float *loglik, int *component, int count)
{
    const int dims = 8, components = 12;
    // What depends on the components alone is worked out once a block.
    __shared__ float offset[components], precision[components * dims];
    for (int j = threadIdx.x; j < components * dims; j += blockDim.x)
        precision[j] = 0.5f / variance[j];
    for (int c = threadIdx.x; c < components; c += blockDim.x) {
        float density = logf(weight[c]);
        for (int d = 0; d < dims; d++)
            density -= 0.5f * logf(6.2831853f * variance[c * dims + d]);
        offset[c] = density;
    }
    __syncthreads();
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        float x[dims];
        for (int d = 0; d < dims; d++)
            x[d] = points[d * count + i];
        float highest = -1e30f, sum = 0.0f;
        int best = 0;
        for (int c = 0; c < components; c++) {
            float density = offset[c];
            for (int d = 0; d < dims; d++) {
                float away = x[d] - mean[c * dims + d];
                density -= away * away * precision[c * dims + d];
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
