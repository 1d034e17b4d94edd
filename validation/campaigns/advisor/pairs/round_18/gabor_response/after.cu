// Response of an image to an oriented Gabor filter of 9x9 taps.
#define R 4
#define D (2 * R + 1)
extern "C" __global__ void gabor_response(const float *image,
                                          float *response,
                                          int width,
                                          int height,
                                          float theta,
                                          float wavelength,
                                          float sigma)
{
    __shared__ float weight[D * D];
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;

    int t = threadIdx.y * blockDim.x + threadIdx.x;
    if (t < D * D) {
        float ct = cosf(theta), st = sinf(theta);
        int dx = t % D - R, dy = t / D - R;
        float u = dx * ct + dy * st;
        float v = dy * ct - dx * st;
        float envelope = __expf(-(u * u + 0.25f * v * v) / (2.0f * sigma * sigma));
        weight[t] = envelope * __cosf(6.2831853f * u / wavelength);
    }
    __syncthreads();
    if (x < R || y < R || x >= width - R || y >= height - R)
        return;

    float sum = 0.0f;
    for (int dy = -R; dy <= R; ++dy)
        for (int dx = -R; dx <= R; ++dx)
            sum += weight[(dy + R) * D + dx + R] * image[(y + dy) * width + x + dx];
    response[y * width + x] = sum;
}
