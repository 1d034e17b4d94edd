// k-means: the nearest of k centroids for every point. Points lie dimension by dimension.
extern "C" __global__ void assign(const float *points, const float *centroids, int *label, float *distance, int n, int dims,
                                  int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float best = 3.4e38f;
    int best_c = 0;
    for (int c = 0; c < k; c++) {
        float sum = 0.0f;
        for (int d = 0; d < dims; d++) {
            float diff = points[d * n + i] - centroids[c * dims + d];
            sum += diff * diff;
        }
        if (sum < best) {
            best = sum;
            best_c = c;
        }
    }
    label[i] = best_c;
    distance[i] = best;
}
