// Electrostatic potential on a lattice with a smooth cutoff: every point adds all atoms nearer than the cutoff.
// An atom is (x, y, z, charge).
extern "C" __global__ void coulomb_cutoff(const float4 *__restrict__ atoms, float *__restrict__ potential,
                                          int count, int nx, int ny, float spacing, float cutoff)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z;
    const float px = x * spacing;
    const float py = y * spacing;
    const float pz = z * spacing;
    const float cutoff2 = cutoff * cutoff;

    float energy = 0.0f;
    for (int n = 0; n < count; ++n) {
        const float4 atom = atoms[n];
        const float dx = atom.x - px;
        const float dy = atom.y - py;
        const float dz = atom.z - pz;
        const float r2 = dx * dx + dy * dy + dz * dz;
        if (r2 < cutoff2) {
            const float s = 1.0f - r2 / cutoff2;
            energy += atom.w / sqrtf(r2) * s * s;
        }
    }
    potential[(z * ny + y) * nx + x] = energy;
}
