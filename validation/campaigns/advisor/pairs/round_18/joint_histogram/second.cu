// Joint histogram of a fixed and a moving volume, 64 x 64 bins, for mutual
// information in image registration; dark background is left out.
#define BINS 64
extern "C" __global__ void joint_histogram(const float *fixed,
                                           const float *moving,
                                           unsigned int *histogram,
                                           float scale,
                                           float background,
                                           int voxels)
{
    __shared__ unsigned int local[BINS * BINS];
    for (int k = threadIdx.x; k < BINS * BINS; k += blockDim.x)
        local[k] = 0;
    __syncthreads();

    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < voxels; i += stride) {
        if (fixed[i] < background)
            continue;
        int a = (int)(fixed[i] * scale);
        int b = (int)(moving[i] * scale);
        a = max(0, min(a, BINS - 1));
        b = max(0, min(b, BINS - 1));
        atomicAdd(&local[a * BINS + b], 1u);
    }
    __syncthreads();

    for (int k = threadIdx.x; k < BINS * BINS; k += blockDim.x) {
        unsigned int n = local[k];
        if (n)
            atomicAdd(&histogram[k], n);
    }
}
