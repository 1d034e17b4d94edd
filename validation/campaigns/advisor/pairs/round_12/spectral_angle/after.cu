// Hyperspectral imaging: angle between each pixel's spectrum and the spectrum of a mineral.
// The cube lies pixel by pixel, all bands of a pixel together. One warp takes a pixel.
extern "C" __global__ void spectral_angle(const float *cube, const float *mineral, float *angle, int pixels, int bands)
{
    int lane = threadIdx.x & 31;
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    int warps = (gridDim.x * blockDim.x) >> 5;
    for (int p = warp; p < pixels; p += warps) {
        const float *spectrum = cube + (size_t)p * bands;
        float dot = 0.0f, here = 0.0f, there = 0.0f;
        for (int b = lane; b < bands; b += 32) {
            float s = spectrum[b];
            float m = mineral[b];
            dot += s * m;
            here += s * s;
            there += m * m;
        }
        for (int far = 16; far > 0; far >>= 1) {
            dot += __shfl_xor_sync(0xffffffffu, dot, far);
            here += __shfl_xor_sync(0xffffffffu, here, far);
            there += __shfl_xor_sync(0xffffffffu, there, far);
        }
        if (lane == 0) {
            float cosine = dot * rsqrtf(here * there + 1e-12f);
            angle[p] = acosf(fminf(cosine, 1.0f));
        }
    }
}
