// Astronomy: convolve a model image with an elliptical Gaussian point spread
// function before it is compared with the exposure.
#define MAX_RADIUS 7
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
    __shared__ float weight[MAX_SIDE * MAX_SIDE];
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;

    // the weights are the same for all pixels: once a block
    Psf p = {xx, xy, yy};
    int side = 2 * radius + 1;
    for (int k = threadIdx.y * blockDim.x + threadIdx.x; k < side * side; k += blockDim.x * blockDim.y) {
        int dy = k / side - radius, dx = k % side - radius;
        float q = p.xx * dx * dx + 2.0f * p.xy * dx * dy + p.yy * dy * dy;
        weight[k] = expf(-0.5f * q);
    }
    __syncthreads();
    if (x >= width || y >= height)
        return;

    float sum = 0.0f, norm = 0.0f;
    const float *w = weight;
    for (int dy = -radius; dy <= radius; ++dy) {
        const float *row = model + clamp_index(y + dy, height) * width;
        for (int dx = -radius; dx <= radius; ++dx, ++w) {
            sum += *w * row[clamp_index(x + dx, width)];
            norm += *w;
        }
    }
    blurred[y * width + x] = sum / norm;
}
