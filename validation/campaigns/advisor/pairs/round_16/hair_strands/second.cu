// Hair for animation: moves strands of 32 vertices by one Verlet step and then restores the lengths of their
// segments by sweeps over the even and the odd segments, keeping every vertex outside the head.
extern "C" __global__ void hair_strands(const float4 *old, const float4 *now, float4 *next, int strands,
                                        int sweeps, float length, float head_x, float head_y, float head_z,
                                        float radius, float gravity)
{
    // a strand belongs to one warp, so that its lanes only have to wait for each other
    __shared__ float px[8][32], py[8][32], pz[8][32];
    int v = threadIdx.x, s = threadIdx.y;
    int strand = min(blockIdx.x * 8 + s, strands - 1);
    int at = strand * 32 + v;
    float4 a = old[at], b = now[at];
    float free = v == 0 ? 0.0f : 0.99f;
    px[s][v] = b.x + free * (b.x - a.x);
    py[s][v] = b.y + free * (b.y - a.y) - free * gravity;
    pz[s][v] = b.z + free * (b.z - a.z);
    __syncwarp();

    for (int sweep = 0; sweep < sweeps; sweep++) {
        for (int parity = 0; parity < 2; parity++) {
            if ((v & 1) == parity && v < 31) {
                float dx = px[s][v + 1] - px[s][v];
                float dy = py[s][v + 1] - py[s][v];
                float dz = pz[s][v + 1] - pz[s][v];
                float share = 1.0f - length * rsqrtf(dx * dx + dy * dy + dz * dz + 1e-12f);
                float up = v == 0 ? 0.0f : 0.5f * share;
                float down = v == 0 ? share : 0.5f * share;
                px[s][v] += up * dx;
                py[s][v] += up * dy;
                pz[s][v] += up * dz;
                px[s][v + 1] -= down * dx;
                py[s][v + 1] -= down * dy;
                pz[s][v + 1] -= down * dz;
            }
            __syncwarp();
        }
        float hx = px[s][v] - head_x, hy = py[s][v] - head_y, hz = pz[s][v] - head_z;
        float push = radius * rsqrtf(hx * hx + hy * hy + hz * hz + 1e-12f);
        if (push > 1.0f && v > 0) {
            px[s][v] = head_x + push * hx;
            py[s][v] = head_y + push * hy;
            pz[s][v] = head_z + push * hz;
        }
        __syncwarp();
    }
    next[at] = make_float4(px[s][v], py[s][v], pz[s][v], b.w);
}
