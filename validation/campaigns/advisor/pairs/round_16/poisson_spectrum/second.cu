// Cosmological simulation: turns the transformed density on a periodic mesh into the transformed potential,
// dividing by the squared wave number of the discrete Laplacian and by the assignment window. The last axis
// is half stored.
extern "C" __global__ void poisson_spectrum(float2 *modes, const float *laplacian, const float *window,
                                            size_t nx, size_t ny, size_t nz, float scale)
{
    // the mesh has less than 2^31 stored modes, so that 32 bits do
    unsigned half = (unsigned)nz / 2 + 1;
    unsigned rows = (unsigned)ny;
    unsigned total = (unsigned)nx * rows * half;
    unsigned stride = gridDim.x * blockDim.x;
    unsigned y_part = (unsigned)nx, z_part = y_part + rows;
    for (unsigned n = blockIdx.x * blockDim.x + threadIdx.x; n < total; n += stride) {
        unsigned line = n / half;
        unsigned kz = n - line * half;
        unsigned kx = line / rows;
        unsigned ky = line - kx * rows;
        float k2 = laplacian[kx] + laplacian[y_part + ky] + laplacian[z_part + kz];
        float w = window[kx] * window[y_part + ky] * window[z_part + kz];
        float factor = n == 0 ? 0.0f : -scale / (k2 * w * w);
        float2 mode = modes[n];
        mode.x *= factor;
        mode.y *= factor;
        modes[n] = mode;
    }
}
