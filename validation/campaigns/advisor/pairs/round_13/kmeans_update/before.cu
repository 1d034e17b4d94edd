// The update of k-means: sums of the coordinates and numbers of the points of each cluster. Coordinates are
// stored dimension after dimension.
#define CLUSTERS 16
#define DIMENSIONS 8

extern "C" __global__ void kmeans_update(const float *__restrict__ points, const int *__restrict__ labels,
                                         float *__restrict__ sums, int *__restrict__ counts, int n)
{
    const int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        const int cluster = labels[i];
        atomicAdd(&counts[cluster], 1);
        for (int d = 0; d < DIMENSIONS; d++)
            atomicAdd(&sums[cluster * DIMENSIONS + d], points[d * n + i]);
    }
}
