// Astronomy: convolve a model image with an elliptical Gaussian point spread
// function before it is compared with the exposure.
#define MAX_RADIUS 15
#define MAX_SIDE (2 * MAX_RADIUS + 1)

struct Psf {
    float xx, xy, yy;
};

__device__ __forceinline__ int clamp_index(int i, int n)
{
    return min(max(i, 0), n - 1);
}

extern "C" __global__ void psf_convolve(const float *__restrict__ model,
                                        float *__restrict__ blurred,
                                        int width, int height, int radius,
                                        float xx, float xy, float yy)
{
    // the weights are the same for every pixel: the first warp computes them
    // and the inverse of their sum once for the block
    __shared__ float weight[MAX_SIDE * MAX_SIDE];
    __shared__ float inverse_norm;
    int side = 2 * radius + 1;
    int t = threadIdx.y * blockDim.x + threadIdx.x;
    if (t < 32) {
        Psf p = {xx, xy, yy};
        float norm = 0.0f;
        for (int k = t; k < side * side; k += 32) {
            int dy = k / side - radius, dx = k % side - radius;
            float q = p.xx * dx * dx + 2.0f * p.xy * dx * dy + p.yy * dy * dy;
            float w = expf(-0.5f * q);
            weight[k] = w;
            norm += w;
        }
        for (int o = 16; o > 0; o /= 2)
            norm += __shfl_xor_sync(0xffffffff, norm, o);
        if (t == 0)
            inverse_norm = 1.0f / norm;
    }
    __syncthreads();

    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;

    float sum = 0.0f;
    const float *w = weight;
    for (int dy = -radius; dy <= radius; ++dy) {
        const float *row = model + clamp_index(y + dy, height) * width;
        for (int dx = -radius; dx <= radius; ++dx)
            sum += *w++ * row[clamp_index(x + dx, width)];
    }
    blurred[y * width + x] = sum * inverse_norm;
}
