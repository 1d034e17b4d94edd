// Astronomy: convolve a model image with an elliptical Gaussian point spread
// function before it is compared with the exposure.
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
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;

    Psf p = {xx, xy, yy};
    float sum = 0.0f, norm = 0.0f;
    for (int dy = -radius; dy <= radius; ++dy) {
        const float *row = model + clamp_index(y + dy, height) * width;
        for (int dx = -radius; dx <= radius; ++dx) {
            float q = p.xx * dx * dx + 2.0f * p.xy * dx * dy + p.yy * dy * dy;
            float w = expf(-0.5f * q);
            sum += w * row[clamp_index(x + dx, width)];
            norm += w;
        }
    }
    blurred[y * width + x] = sum / norm;
}
