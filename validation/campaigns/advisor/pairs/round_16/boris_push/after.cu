// Plasma particle-in-cell code: interpolates the fields from the mesh to every particle and moves it by one
// step of the Boris scheme, in two dimensions with three velocities.
__device__ float4 blend(float4 a, float4 b, float w)
{
    return make_float4(a.x + w * (b.x - a.x), a.y + w * (b.y - a.y), a.z + w * (b.z - a.z),
                       a.w + w * (b.w - a.w));
}

extern "C" __global__ void boris_push(float2 *position, float *vx, float *vy, float *vz, const float4 *field,
                                      int particles, int nx, int ny, float kick, float dt)
{
    int stride = gridDim.x * blockDim.x;
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= particles)
        return;
    float2 next_at = position[p];
    float next_x = vx[p], next_y = vy[p], next_z = vz[p];
    for (; p < particles; p += stride) {
        float2 at = next_at;
        float ux = next_x, uy = next_y, uz = next_z;

        int i = (int)at.x, j = (int)at.y;
        float wx = at.x - i, wy = at.y - j;
        const float4 *node = field + j * (nx + 1) + i;
        float4 lower_left = node[0], lower_right = node[1];
        float4 upper_left = node[nx + 1], upper_right = node[nx + 2];

        // the next particle is under way while this one is pushed
        if (p + stride < particles) {
            next_at = position[p + stride];
            next_x = vx[p + stride];
            next_y = vy[p + stride];
            next_z = vz[p + stride];
        }
        float4 f = blend(blend(lower_left, lower_right, wx), blend(upper_left, upper_right, wx), wy);

        // half the electric kick, the magnetic turn about z, the other half
        ux += kick * f.x;
        uy += kick * f.y;
        uz += kick * f.z;
        float t = kick * f.w;
        float s = 2.0f * t / (1.0f + t * t);
        float px = ux + uy * t;
        float py = uy - ux * t;
        ux += py * s;
        uy -= px * s;
        ux += kick * f.x;
        uy += kick * f.y;
        uz += kick * f.z;

        at.x += ux * dt;
        at.y += uy * dt;
        if (at.x < 0.0f)
            at.x += nx;
        if (at.x >= nx)
            at.x -= nx;
        if (at.y < 0.0f)
            at.y += ny;
        if (at.y >= ny)
            at.y -= ny;
        position[p] = at;
        vx[p] = ux;
        vy[p] = uy;
        vz[p] = uz;
    }
}
