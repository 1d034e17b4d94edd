// Cosmological simulation: turns the transformed density on a periodic mesh into the transformed potential,
// dividing by the squared wave number of the discrete Laplacian and by the assignment window. The last axis
// is half stored.
extern "C" __global__ void poisson_spectrum(float2 *modes, const float *laplacian, const float *window,
                                            size_t nx, size_t ny, size_t nz, float scale)
{
    size_t half = nz / 2 + 1;
    size_t total = nx * ny * half;
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t n = (size_t)blockIdx.x * blockDim.x + threadIdx.x; n < total; n += stride) {
        size_t kz = n % half;
        size_t ky = n / half % ny;
        size_t kx = n / (half * ny);
        float k2 = laplacian[kx] + laplacian[nx + ky] + laplacian[nx + ny + kz];
        float w = window[kx] * window[nx + ky] * window[nx + ny + kz];
        float factor = n == 0 ? 0.0f : -scale / (k2 * w * w);
        float2 mode = modes[n];
        mode.x *= factor;
        mode.y *= factor;
        modes[n] = mode;
    }
}
