// Granular flow by discrete elements: normal and tangential contact force of every candidate pair of spheres,
// after Hertz and Mindlin with friction. A sphere is its centre and radius; pairs that do not touch get no
// force.
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

extern "C" __global__ void hertz_contacts(const float4 *spheres, const float4 *velocities, const int2 *pairs,
                                          float4 *forces, int count, float modulus, float damping,
                                          float friction)
{
    __shared__ int waiting[8][64];
    int lane = threadIdx.x & 31;
    int *queue = waiting[threadIdx.x >> 5];
    int queued = 0;
    int stride = gridDim.x * blockDim.x;
    int first = blockIdx.x * blockDim.x + (threadIdx.x & ~31);
    for (; first < count; first += stride) {
        int p = first + lane;
        bool touch = false;
        if (p < count) {
            int2 pair = pairs[p];
            float4 a = spheres[pair.x], b = spheres[pair.y];
            float dx = b.x - a.x, dy = b.y - a.y, dz = b.z - a.z;
            float reach = a.w + b.w;
            touch = dx * dx + dy * dy + dz * dz < reach * reach;
            if (!touch)
                forces[p] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }

        // the warp collects touching pairs until it has one for every lane, or has come to the end
        unsigned int votes = __ballot_sync(0xffffffffu, touch);
        if (touch)
            queue[queued + __popc(votes & ((1u << lane) - 1u))] = p;
        queued += __popc(votes);
        __syncwarp();
        while (queued >= 32 || (queued > 0 && first + stride >= count)) {
            int left = max(queued - 32, 0);
            if (lane < queued - left) {
                int q = queue[left + lane];
                int2 pair = pairs[q];
                forces[q] = contact(spheres[pair.x], spheres[pair.y], velocities[pair.x], velocities[pair.y],
                                    modulus, damping, friction);
            }
            queued = left;
            __syncwarp();
        }
    }
}
