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
    float next_ux = vx[p];
    float next_uy = vy[p];
    float next_uz = vz[p];
    for (; p < particles; p += stride) {
        float2 at = next_at;
        float ux = next_ux;
        float uy = next_uy;
        float uz = next_uz;
        // the next particle is on its way while this one is pushed
        int next = p + stride;
        if (next < particles) {
            next_at = position[next];
            next_ux = vx[next];
            next_uy = vy[next];
            next_uz = vz[next];
        }

        int i = (int)at.x, j = (int)at.y;
        float wx = at.x - i, wy = at.y - j;
        const float4 *node = field + j * (nx + 1) + i;
        float4 f = blend(blend(node[0], node[1], wx), blend(node[nx + 1], node[nx + 2], wx), wy);

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
