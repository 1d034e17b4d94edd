// Feature matching: squared distances between all pairs of 64-byte
// descriptors (as 64 floats) of two images. Tiles of 16 components, a block
// of 16x16 threads does 64 left by 16 right descriptors.
#define T 16
#define M 4
extern "C" __global__ void descriptor_distance(const float *left,
                                               const float *right,
                                               float *distance,
                                               int n_right,
                                               int dims)
{
    __shared__ float ls[M * T][T + 1];
    __shared__ float rs[T][T + 1];
    int tx = threadIdx.x, ty = threadIdx.y;
    int i = blockIdx.y * M * T + ty;
    int j = blockIdx.x * T + tx;

    float sum[M] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int d = 0; d < dims; d += T) {
        for (int m = 0; m < M; ++m)
            ls[m * T + ty][tx] = left[(i + m * T) * dims + d + tx];
        rs[ty][tx] = right[(blockIdx.x * T + ty) * dims + d + tx];
        __syncthreads();
        for (int k = 0; k < T; ++k) {
            float r = rs[tx][k];
            for (int m = 0; m < M; ++m) {
                float diff = ls[m * T + ty][k] - r;
                sum[m] += diff * diff;
            }
        }
        __syncthreads();
    }
    for (int m = 0; m < M; ++m)
        distance[(i + m * T) * n_right + j] = sum[m];
}
