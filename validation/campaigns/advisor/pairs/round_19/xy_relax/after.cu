// Over-relaxation of the planar (XY) model of a magnet on a periodic square
// lattice. Angles are in units of pi; one colour of the checkerboard a launch.
struct Field {
    float x, y;
};

__device__ void add_spin(Field &f, float angle, float coupling)
{
    float s, c;
    sincospif(angle, &s, &c);
    f.x += coupling * c;
    f.y += coupling * s;
}

extern "C" __global__ void xy_relax(float *angle, int nx, int ny, int colour,
                                    float coupling_x, float coupling_y)
{
    // a thread for each site of the colour only
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int x = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + ((y + colour) & 1);
    if (x >= nx || y >= ny)
        return;

    int left = x == 0 ? nx - 1 : x - 1;
    int right = x == nx - 1 ? 0 : x + 1;
    int up = y == 0 ? ny - 1 : y - 1;
    int down = y == ny - 1 ? 0 : y + 1;

    Field f = {0.0f, 0.0f};
    add_spin(f, angle[y * nx + left], coupling_x);
    add_spin(f, angle[y * nx + right], coupling_x);
    add_spin(f, angle[up * nx + x], coupling_y);
    add_spin(f, angle[down * nx + x], coupling_y);

    // reflect the spin on the local field
    float towards = atan2f(f.y, f.x) * 0.318309886f;
    float turned = 2.0f * towards - angle[y * nx + x];
    angle[y * nx + x] = turned - 2.0f * rintf(0.5f * turned);
}
