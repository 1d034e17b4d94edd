// Synthetic star image: sum of Moffat profiles of the stars near each pixel,
// all stars of the pixel's 16x16 cell (star[cell][n] = x, y, flux, width).
extern "C" __global__ void moffat_stars(const float4 *star,
                                        float *image,
                                        int width,
                                        int height,
                                        int per_cell,
                                        float beta)
{
    int x = blockIdx.x * 16 + threadIdx.x;
    int y = blockIdx.y * 16 + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const float4 *list = star + (blockIdx.y * gridDim.x + blockIdx.x) * per_cell;

    float light = 0.0f;
    for (int n = 0; n < per_cell; ++n) {
        float4 s = list[n];
        float dx = threadIdx.x - s.x;
        float dy = threadIdx.y - s.y;
        float r2 = (dx * dx + dy * dy) / (s.w * s.w);
        light += s.z * __powf(1.0f + r2, -beta);
    }
    image[y * width + x] = light;
}
