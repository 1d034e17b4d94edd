// Lattice Boltzmann, D2Q9: one pull step (streaming, then BGK collision) with walls by half-way bounce-back.
// Populations are stored direction by direction, f[q][y][x]; both directions are periodic.
struct Lattice {
    int nx, ny;
    float omega;
    float force;
};

__device__ __forceinline__ int site(const Lattice &lat, int q, int x, int y)
{
    return (q * lat.ny + y) * lat.nx + x;
}

extern "C" __global__ void lbm_d2q9(const float *__restrict__ f_old, float *__restrict__ f_new,
                                    const unsigned char *__restrict__ wall, Lattice lat)
{
    const int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
    const int cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    const float w[9] = {4.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 36, 1.f / 36, 1.f / 36, 1.f / 36};
    const int opposite[9] = {0, 3, 4, 1, 2, 7, 8, 5, 6};

    int y = blockIdx.x * blockDim.x + threadIdx.x;
    int x = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= lat.nx || y >= lat.ny)
        return;

    float f[9];
#pragma unroll
    for (int q = 0; q < 9; q++) {
        int xs = x - cx[q], ys = y - cy[q];
        xs = xs < 0 ? xs + lat.nx : (xs >= lat.nx ? xs - lat.nx : xs);
        ys = ys < 0 ? ys + lat.ny : (ys >= lat.ny ? ys - lat.ny : ys);
        f[q] = f_old[site(lat, q, xs, ys)];
    }

    if (wall[y * lat.nx + x]) {
#pragma unroll
        for (int q = 0; q < 9; q++)
            f_new[site(lat, q, x, y)] = f[opposite[q]];
        return;
    }

    float rho = 0.0f, ux = 0.0f, uy = 0.0f;
#pragma unroll
    for (int q = 0; q < 9; q++) {
        rho += f[q];
        ux += cx[q] * f[q];
        uy += cy[q] * f[q];
    }
    float inv = 1.0f / rho;
    ux = ux * inv + 0.5f * lat.force;
    uy *= inv;
    float usq = 1.5f * (ux * ux + uy * uy);
#pragma unroll
    for (int q = 0; q < 9; q++) {
        float cu = 3.0f * (cx[q] * ux + cy[q] * uy);
        float feq = w[q] * rho * (1.0f + cu + 0.5f * cu * cu - usq);
        f_new[site(lat, q, x, y)] = f[q] + lat.omega * (feq - f[q]);
    }
}
