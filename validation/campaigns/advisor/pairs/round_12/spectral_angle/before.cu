// Hyperspectral imaging: angle between each pixel's spectrum and the spectrum of a mineral.
// The cube lies pixel by pixel, all bands of a pixel together.
extern "C" __global__ void spectral_angle(const float *cube, const float *mineral, float *angle, int pixels, int bands)
{
    for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < pixels; p += gridDim.x * blockDim.x) {
        const float *spectrum = cube + (size_t)p * bands;
        float dot = 0.0f, here = 0.0f, there = 0.0f;
        for (int b = 0; b < bands; b++) {
            float s = spectrum[b];
            float m = mineral[b];
            dot += s * m;
            here += s * s;
            there += m * m;
        }
        float cosine = dot * rsqrtf(here * there + 1e-12f);
        angle[p] = acosf(fminf(cosine, 1.0f));
    }
}
