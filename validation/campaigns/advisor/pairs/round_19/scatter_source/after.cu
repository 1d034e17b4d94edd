// Neutron transport: source into each energy group of a cell by scattering
// from all groups. flux[group][cell], sigma[to][from] of the cell's material.
extern "C" __global__ void scatter_source(const float *flux, const float *sigma,
                                          const int *material, float *source,
                                          int cells, int groups)
{
    int cell = blockIdx.x * blockDim.x + threadIdx.x;
    int to = blockIdx.y;
    if (cell >= cells)
        return;

    const float *s = sigma + (material[cell] * groups + to) * groups;
    float sum = 0.0f;
    for (int from = 0; from < groups; ++from)
        sum += s[from] * flux[from * cells + cell];
    source[to * cells + cell] = sum;
}
