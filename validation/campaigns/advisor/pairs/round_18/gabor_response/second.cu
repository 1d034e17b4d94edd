// Response of an image to an oriented Gabor filter of 9x9 taps.
#define R 4
#define TAPS (2 * R + 1)
extern "C" __global__ void gabor_response(const float *image,
                                          float *response,
                                          int width,
                                          int height,
                                          float theta,
                                          float wavelength,
                                          float sigma)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;

    // the weights depend on the tap only: compute them once a block
    __shared__ float weights[TAPS * TAPS];
    int t = threadIdx.y * blockDim.x + threadIdx.x;
    for (int k = t; k < TAPS * TAPS; k += blockDim.x * blockDim.y) {
        int dx = k % TAPS - R, dy = k / TAPS - R;
        float ct = cosf(theta), st = sinf(theta);
        float u = dx * ct + dy * st;
        float v = dy * ct - dx * st;
        float envelope = __expf(-(u * u + 0.25f * v * v) / (2.0f * sigma * sigma));
        weights[k] = envelope * __cosf(6.2831853f * u / wavelength);
    }
    __syncthreads();
    if (x < R || y < R || x >= width - R || y >= height - R)
        return;

    float sum = 0.0f;
    #pragma unroll
    for (int dy = -R; dy <= R; ++dy) {
        #pragma unroll
        for (int dx = -R; dx <= R; ++dx)
            sum += weights[(dy + R) * TAPS + dx + R] * image[(y + dy) * width + x + dx];
    }
    response[y * width + x] = sum;
}
