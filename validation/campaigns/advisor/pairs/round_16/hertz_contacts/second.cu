// Granular flow by discrete elements: normal and tangential contact force of every candidate pair of spheres,
// after Hertz and Mindlin with friction. A sphere is its centre and radius; pairs that do not touch get no
// force. A warp gathers the pairs that touch in a queue and computes their forces 32 at a time, so that its
// lanes all have work there.
__device__ float4 contact(float4 a, float4 b, float4 va, float4 vb, float modulus, float damping,
                          float friction)
{
    float dx = b.x - a.x, dy = b.y - a.y, dz = b.z - a.z;
    float distance = sqrtf(dx * dx + dy * dy + dz * dz);
    float overlap = a.w + b.w - distance;
    float nx = dx / distance, ny = dy / distance, nz = dz / distance;
    float radius = a.w * b.w / (a.w + b.w);
    float mass = a.w * a.w * a.w * b.w * b.w * b.w / (a.w * a.w * a.w + b.w * b.w * b.w);
    float wx = vb.x - va.x, wy = vb.y - va.y, wz = vb.z - va.z;
    float approach = wx * nx + wy * ny + wz * nz;
    float edge = sqrtf(radius * overlap);
    float stiffness = 2.0f * modulus * edge;
    float normal = 0.66666667f * stiffness * overlap - damping * sqrtf(stiffness * mass) * approach;
    normal = fmaxf(normal, 0.0f);
    float tx = wx - approach * nx, ty = wy - approach * ny, tz = wz - approach * nz;
    float slip = sqrtf(tx * tx + ty * ty + tz * tz) + 1e-9f;
    float drag = fminf(damping * sqrtf(0.8f * stiffness * mass) * slip, friction * normal) / slip;
    return make_float4(drag * tx - normal * nx, drag * ty - normal * ny, drag * tz - normal * nz, overlap);
}

#define WARPS 8

extern "C" __global__ void hertz_contacts(const float4 *spheres, const float4 *velocities, const int2 *pairs,
                                          float4 *forces, int count, float modulus, float damping,
                                          float friction)
{
    // fewer than 32 pairs wait in a warp's queue when it adds the next up to 32
    __shared__ int4 queue[WARPS][64];
    int lane = threadIdx.x % 32;
    int4 *waiting = queue[threadIdx.x / 32];
    int filled = 0;
    int stride = gridDim.x * blockDim.x;
    for (int first = blockIdx.x * blockDim.x + threadIdx.x - lane; first < count; first += stride) {
        int p = first + lane;
        bool touch = false;
        int2 pair = make_int2(0, 0);
        if (p < count) {
            pair = pairs[p];
            float4 a = spheres[pair.x], b = spheres[pair.y];
            float dx = b.x - a.x, dy = b.y - a.y, dz = b.z - a.z;
            float reach = a.w + b.w;
            touch = dx * dx + dy * dy + dz * dz < reach * reach;
            if (!touch)
                forces[p] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        unsigned touching = __ballot_sync(0xffffffffu, touch);
        if (touch)
            waiting[filled + __popc(touching & ((1u << lane) - 1))] = make_int4(pair.x, pair.y, p, 0);
        filled += __popc(touching);
        __syncwarp();
        if (filled >= 32) {
            filled -= 32;
            int4 item = waiting[filled + lane];
            forces[item.z] = contact(spheres[item.x], spheres[item.y], velocities[item.x], velocities[item.y],
                                     modulus, damping, friction);
            __syncwarp();
        }
    }
    if (lane < filled) {
        int4 item = waiting[lane];
        forces[item.z] = contact(spheres[item.x], spheres[item.y], velocities[item.x], velocities[item.y],
                                 modulus, damping, friction);
    }
}
