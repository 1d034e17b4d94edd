// Feature matching: squared distances between all pairs of 64-byte
// descriptors (as 64 floats) of two images. Tiles of 16 components.
// Each thread computes 2 x 3 distances (a block of 32 x 48).
#define T 16
#define ROWS 2
#define COLS 3
extern "C" __global__ void descriptor_distance(const float *left,
                                               const float *right,
                                               float *distance,
                                               int n_right,
                                               int dims)
{
    __shared__ float ls[ROWS * T][T + 1];
    __shared__ float rs[COLS * T][T + 1];
    int tx = threadIdx.x, ty = threadIdx.y;
    int i0 = blockIdx.y * (ROWS * T) + ty;
    int j0 = blockIdx.x * (COLS * T);

    float sum[ROWS][COLS];
    #pragma unroll
    for (int r = 0; r < ROWS; ++r)
        #pragma unroll
        for (int c = 0; c < COLS; ++c)
            sum[r][c] = 0.0f;

    for (int d = 0; d < dims; d += T) {
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            ls[r * T + ty][tx] = left[(i0 + r * T) * dims + d + tx];
        #pragma unroll
        for (int c = 0; c < COLS; ++c)
            rs[c * T + ty][tx] = right[(j0 + c * T + ty) * dims + d + tx];
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < T; ++k) {
            float a[ROWS], b[COLS];
            #pragma unroll
            for (int r = 0; r < ROWS; ++r)
                a[r] = ls[r * T + ty][k];
            #pragma unroll
            for (int c = 0; c < COLS; ++c)
                b[c] = rs[c * T + tx][k];
            #pragma unroll
            for (int r = 0; r < ROWS; ++r)
                #pragma unroll
                for (int c = 0; c < COLS; ++c) {
                    float diff = a[r] - b[c];
                    sum[r][c] += diff * diff;
                }
        }
        __syncthreads();
    }
    #pragma unroll
    for (int r = 0; r < ROWS; ++r)
        #pragma unroll
        for (int c = 0; c < COLS; ++c)
            distance[(i0 + r * T) * n_right + j0 + c * T + tx] = sum[r][c];
}
