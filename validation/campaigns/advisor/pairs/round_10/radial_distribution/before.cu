// Molecular dynamics: histogram of the distances between atoms and a chunk of other atoms, in a periodic box.
extern "C" __global__ void distances(const float *x, const float *y, const float *z, unsigned *histogram, int chunk, float box,
                                     float bins_per_length, int bins)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float xi = x[i], yi = y[i], zi = z[i];
    for (int j = 0; j < chunk; j++) {
        float dx = xi - x[j], dy = yi - y[j], dz = zi - z[j];
        dx -= box * rintf(dx / box);
        dy -= box * rintf(dy / box);
        dz -= box * rintf(dz / box);
        int bin = (int)(sqrtf(dx * dx + dy * dy + dz * dz) * bins_per_length);
        if (bin < bins)
            atomicAdd(&histogram[bin], 1u);
    }
}
