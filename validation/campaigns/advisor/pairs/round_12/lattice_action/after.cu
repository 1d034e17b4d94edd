// Lattice field theory: local action of a scalar field on a periodic lattice in four dimensions.
extern "C" __global__ void lattice_action(const float *phi, float *action, int nx, int ny, int nz, int nt, float mass2,
                                          float lambda)
{
    int site = blockIdx.x * blockDim.x + threadIdx.x;
    int area = nx * ny, volume = area * nz, sites = volume * nt;
    if (site >= sites)
        return;
    unsigned int row = (unsigned int)site / (unsigned int)nx;
    unsigned int plane = row / (unsigned int)ny;
    int t = plane / (unsigned int)nz;
    int x = site - row * nx;
    int y = row - plane * ny;
    int z = plane - t * nz;
    float here = phi[site];
    float neighbours = 0.0f;
    neighbours += phi[x == nx - 1 ? site - x : site + 1] + phi[x == 0 ? site + nx - 1 : site - 1];
    neighbours += phi[y == ny - 1 ? site - y * nx : site + nx] + phi[y == 0 ? site + area - nx : site - nx];
    neighbours += phi[z == nz - 1 ? site - z * area : site + area] + phi[z == 0 ? site + volume - area : site - area];
    neighbours += phi[t == nt - 1 ? site - t * volume : site + volume];
    neighbours += phi[t == 0 ? site + sites - volume : site - volume];
    float square = here * here;
    action[site] = 0.5f * here * (8.0f * here - neighbours) + 0.5f * mass2 * square + lambda * square * square;
}
