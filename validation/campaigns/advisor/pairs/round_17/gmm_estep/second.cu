// Clustering: log-likelihood of points under a mixture of Gaussians with diagonal covariances, and each
// point's most probable component.
extern "C" __global__ void gmm_estep(const float *points, const float *weight, const float *mean,
                                     const float *variance, float *loglik, int *component, int count)
{
    const int dims = 8, components = 12;
    // What depends on the components only is computed once a block: the half inverse variances, and the
    // logarithms of the weights and of the normalising factors in one constant per component.
    __shared__ float half_inverse[components * dims];
    __shared__ float norm[components];
    for (int k = threadIdx.x; k < components * dims; k += blockDim.x)
        half_inverse[k] = 0.5f / variance[k];
    for (int c = threadIdx.x; c < components; c += blockDim.x) {
        float constant = logf(weight[c]);
        for (int d = 0; d < dims; d++)
            constant -= 0.5f * logf(6.2831853f * variance[c * dims + d]);
        norm[c] = constant;
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
            float density = norm[c];
            for (int d = 0; d < dims; d++) {
                float away = x[d] - mean[c * dims + d];
                density -= away * away * half_inverse[c * dims + d];
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
