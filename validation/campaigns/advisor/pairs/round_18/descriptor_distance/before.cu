// Feature matching: squared distances between all pairs of 64-byte
// descriptors (as 64 floats) of two images. Tiles of 16 components.
#define T 16
extern "C" __global__ void descriptor_distance(const float *left,
                                               const float *right,
                                               float *distance,
                                               int n_right,
                                               int dims)
{
    __shared__ float ls[T][T + 1];
    __shared__ float rs[T][T + 1];
    int tx = threadIdx.x, ty = threadIdx.y;
    int i = blockIdx.y * T + ty;
    int j = blockIdx.x * T + tx;

    float sum = 0.0f;
    for (int d = 0; d < dims; d += T) {
        ls[ty][tx] = left[i * dims + d + tx];
        rs[ty][tx] = right[(blockIdx.x * T + ty) * dims + d + tx];
        __syncthreads();
        for (int k = 0; k < T; ++k) {
            float diff = ls[ty][k] - rs[tx][k];
            sum += diff * diff;
        }
        __syncthreads();
    }
    distance[i * n_right + j] = sum;
}
