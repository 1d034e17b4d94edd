// Lattice field theory: local action of a scalar field on a periodic lattice in four dimensions.
extern "C" __global__ void lattice_action(const float *phi, float *action, int nx, int ny, int nz, int nt, float mass2,
                                          float lambda)
{
    int site = blockIdx.x * blockDim.x + threadIdx.x;
    if (site >= nx * ny * nz * nt)
        return;
    int extent[4] = {nx, ny, nz, nt};
    float here = phi[site];
    float neighbours = 0.0f;
    int stride = 1;
    for (int d = 0; d < 4; d++) {
        int at = site / stride % extent[d];
        int forward = (at + 1) % extent[d];
        int backward = (at + extent[d] - 1) % extent[d];
        neighbours += phi[site + (forward - at) * stride] + phi[site + (backward - at) * stride];
        stride *= extent[d];
    }
    float square = here * here;
    action[site] = 0.5f * here * (8.0f * here - neighbours) + 0.5f * mass2 * square + lambda * square * square;
}
