// Molecular dynamics: Lennard-Jones forces with a cell list. Particles are sorted by cell, a cell is at least as
// wide as the cutoff, the box is cubic and periodic. forces[i] = (fx, fy, fz, potential energy).
struct LjBox {
    int cells;       // along one edge
    float length;    // of the box
    float cutoff2;
    float epsilon, sigma6;
};

__device__ float nearest_image(float d, float length)
{
    if (d > 0.5f * length)
        d -= length;
    else if (d < -0.5f * length)
        d += length;
    return d;
}

extern "C" __global__ void md_cell_list(const float4 *__restrict__ positions, const int *__restrict__ cell_start,
                                        float4 *__restrict__ forces, int particles, LjBox box)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= particles)
        return;
    const float4 me = positions[i];
    const float width = box.length / box.cells;
    const int cx = min((int)(me.x / width), box.cells - 1);
    const int cy = min((int)(me.y / width), box.cells - 1);
    const int cz = min((int)(me.z / width), box.cells - 1);

    float fx = 0, fy = 0, fz = 0, energy = 0;
    for (int dz = -1; dz <= 1; dz++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++) {
                const int x = (cx + dx + box.cells) % box.cells;
                const int y = (cy + dy + box.cells) % box.cells;
                const int z = (cz + dz + box.cells) % box.cells;
                const int cell = (z * box.cells + y) * box.cells + x;
                const int end = cell_start[cell + 1];
                for (int j = cell_start[cell]; j < end; j++) {
                    const float4 other = positions[j];
                    const float rx = nearest_image(me.x - other.x, box.length);
                    const float ry = nearest_image(me.y - other.y, box.length);
                    const float rz = nearest_image(me.z - other.z, box.length);
                    const float r2 = rx * rx + ry * ry + rz * rz;
                    if (r2 > box.cutoff2 || j == i)
                        continue;
                    const float sr6 = box.sigma6 / (r2 * r2 * r2);
                    const float pull = 24.0f * box.epsilon * (2.0f * sr6 * sr6 - sr6) / r2;
                    fx += pull * rx;
                    fy += pull * ry;
                    fz += pull * rz;
                    energy += 0.5f * 4.0f * box.epsilon * (sr6 * sr6 - sr6);
                }
            }
    forces[i] = make_float4(fx, fy, fz, energy);
}
