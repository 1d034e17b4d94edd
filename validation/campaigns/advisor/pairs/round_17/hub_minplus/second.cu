// Public transport routing: shortest time from each source to each target through any hub, the min-plus
// product of the times to the hubs and the times from them.
__device__ void copy_async(float *to, const float *from)
{
    unsigned int address = (unsigned int)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from) : "memory");
}

extern "C" __global__ void hub_minplus(const float *to_hub, const float *from_hub, float *best, int sources,
                                       int targets, int hubs)
{
    __shared__ __align__(16) float left[2][16][68];
    __shared__ __align__(16) float right[2][16][64];
    int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
    int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    int lk = threadIdx.x & 15, lr = threadIdx.x >> 4;
    int rk = threadIdx.x >> 6, rc = threadIdx.x & 63;
    float time[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            time[i][j] = 1e30f;
    // Tile h / 16 is worked on in one buffer while the next one is copied into the other.
    auto fetch = [&](int to, int h) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            copy_async(&left[to][lk][lr + 16 * i], &to_hub[(row0 + lr + 16 * i) * hubs + h + lk]);
            copy_async(&right[to][rk + 4 * i][rc], &from_hub[(h + rk + 4 * i) * targets + col0 + rc]);
        }
    };
    fetch(0, 0);
    int now = 0;
    for (int h = 0; h < hubs; h += 16) {
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads(); // this tile is there, and all are through with the other buffer
        if (h + 16 < hubs)
            fetch(now ^ 1, h + 16);
#pragma unroll
        for (int k = 0; k < 16; k++) {
            float4 a = *(const float4 *)&left[now][k][ty * 4];
            float4 b = *(const float4 *)&right[now][k][tx * 4];
            float as[4] = {a.x, a.y, a.z, a.w}, bs[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    time[i][j] = fminf(time[i][j], as[i] + bs[j]);
        }
        now ^= 1;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float4 line = make_float4(time[i][0], time[i][1], time[i][2], time[i][3]);
        *(float4 *)&best[(row0 + ty * 4 + i) * targets + col0 + tx * 4] = line;
    }
}
