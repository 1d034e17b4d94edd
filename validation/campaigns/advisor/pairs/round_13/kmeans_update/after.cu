// The update of k-means: sums of the coordinates and numbers of the points of each cluster. Coordinates are
// stored dimension after dimension. Each block sums in shared memory and adds its sums at the end.
#define CLUSTERS 16
#define DIMENSIONS 8

extern "C" __global__ void kmeans_update(const float *__restrict__ points, const int *__restrict__ labels,
                                         float *__restrict__ sums, int *__restrict__ counts, int n)
{
    __shared__ float block_sums[CLUSTERS * DIMENSIONS];
    __shared__ int block_counts[CLUSTERS];
    for (int i = threadIdx.x; i < CLUSTERS * DIMENSIONS; i += blockDim.x)
        block_sums[i] = 0.0f;
    if (threadIdx.x < CLUSTERS)
        block_counts[threadIdx.x] = 0;
    __syncthreads();

    const int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        const int cluster = labels[i];
        atomicAdd(&block_counts[cluster], 1);
        for (int d = 0; d < DIMENSIONS; d++)
            atomicAdd(&block_sums[cluster * DIMENSIONS + d], points[d * n + i]);
    }
    __syncthreads();

    for (int i = threadIdx.x; i < CLUSTERS * DIMENSIONS; i += blockDim.x)
        atomicAdd(&sums[i], block_sums[i]);
    if (threadIdx.x < CLUSTERS)
        atomicAdd(&counts[threadIdx.x], block_counts[threadIdx.x]);
}
