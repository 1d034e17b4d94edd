// One time step of the acoustic wave equation: Laplacian of eighth order in space, leapfrog in time. The
// volume has a border of RADIUS cells on all sides. A thread goes down a column of `depth` cells.
#define RADIUS 4

__constant__ float coefficient[RADIUS + 1];

extern "C" __global__ void wave_fd8(const float *now, float *next, const float *velocity, int width,
                                    int height, int depth)
{
    const int plane = width * height;
    const int x = RADIUS + blockIdx.x * blockDim.x + threadIdx.x;
    const int y = RADIUS + blockIdx.y * blockDim.y + threadIdx.y;
    int at = (RADIUS + blockIdx.z * depth) * plane + y * width + x;

    float column[2 * RADIUS + 1];
#pragma unroll
    for (int k = 0; k < 2 * RADIUS; k++)
        column[k + 1] = now[at + (k - RADIUS) * plane];

    for (int z = 0; z < depth; z++, at += plane) {
#pragma unroll
        for (int k = 0; k < 2 * RADIUS; k++)
            column[k] = column[k + 1];
        column[2 * RADIUS] = now[at + RADIUS * plane];

        float laplacian = 3.0f * coefficient[0] * column[RADIUS];
#pragma unroll
        for (int r = 1; r <= RADIUS; r++) {
            const float along_z = column[RADIUS - r] + column[RADIUS + r];
            const float along_y = now[at - r * width] + now[at + r * width];
            const float along_x = now[at - r] + now[at + r];
            laplacian += coefficient[r] * (along_x + along_y + along_z);
        }
        next[at] = 2.0f * column[RADIUS] - next[at] + velocity[at] * laplacian;
    }
}
