// Response of an image to an oriented Gabor filter of 9x9 taps.
#define R 4
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
    if (x < R || y < R || x >= width - R || y >= height - R)
        return;

    float ct = cosf(theta), st = sinf(theta);
    float sum = 0.0f;
    for (int dy = -R; dy <= R; ++dy) {
        for (int dx = -R; dx <= R; ++dx) {
            float u = dx * ct + dy * st;
            float v = dy * ct - dx * st;
            float envelope = __expf(-(u * u + 0.25f * v * v) / (2.0f * sigma * sigma));
            float weight = envelope * __cosf(6.2831853f * u / wavelength);
            sum += weight * image[(y + dy) * width + x + dx];
        }
    }
    response[y * width + x] = sum;
}
