// Cosmological simulation: turns the transformed density on a periodic mesh into the transformed potential,
// dividing by the squared wave number of the discrete Laplacian and by the assignment window. The last axis
// is half stored.
extern "C" __global__ void poisson_spectrum(float2 *modes, const float *laplacian, const float *window,
                                            size_t nx, size_t ny, size_t nz, float scale)
{
    // the mesh has fewer than 2^31 modes
    unsigned int half = nz / 2 + 1, rows = ny, columns = nx;
    unsigned int total = columns * rows * half;
    unsigned int stride = gridDim.x * blockDim.x;
    for (unsigned int n = blockIdx.x * blockDim.x + threadIdx.x; n < total; n += stride) {
        unsigned int row = n / half;
        unsigned int kz = n - row * half;
        unsigned int kx = row / rows;
        unsigned int ky = row - kx * rows;
        float k2 = laplacian[kx] + laplacian[columns + ky] + laplacian[columns + rows + kz];
        float w = window[kx] * window[columns + ky] * window[columns + rows + kz];
        float factor = n == 0 ? 0.0f : -scale / (k2 * w * w);
        float2 mode = modes[n];
        mode.x *= factor;
        mode.y *= factor;
        modes[n] = mode;
    }
}
