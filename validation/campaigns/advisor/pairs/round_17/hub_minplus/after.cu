// Public transport routing: shortest time from each source to each target through any hub, the min-plus
// product of the times to the hubs and the times from them.
extern "C" __global__ void hub_minplus(const float *to_hub, const float *from_hub, float *best, int sources,
                                       int targets, int hubs)
{
    __shared__ __align__(16) float left[2][16][68];
    __shared__ __align__(16) float right[2][16][64];
    int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
    int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    int lk = threadIdx.x & 15, lr = threadIdx.x >> 4;
    int rk = threadIdx.x >> 6, rc = threadIdx.x & 63;
    const float *source = to_hub + (row0 + lr) * hubs + lk;
    const float *target = from_hub + rk * targets + col0 + rc;
    float time[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            time[i][j] = 1e30f;
    float l[4], r[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        l[i] = source[16 * i * hubs];
        r[i] = target[4 * i * targets];
    }
    int side = 0;
    for (int h = 0; h < hubs; h += 16) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            left[side][lk][lr + 16 * i] = l[i];
            right[side][rk + 4 * i][rc] = r[i];
        }
        __syncthreads();
        // The next tile is on its way while this one is used.
        if (h + 16 < hubs) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                l[i] = source[h + 16 + 16 * i * hubs];
                r[i] = target[(h + 16 + 4 * i) * targets];
            }
        }
#pragma unroll
        for (int k = 0; k < 16; k++) {
            float4 a = *(const float4 *)&left[side][k][ty * 4];
            float4 b = *(const float4 *)&right[side][k][tx * 4];
            float as[4] = {a.x, a.y, a.z, a.w}, bs[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    time[i][j] = fminf(time[i][j], as[i] + bs[j]);
        }
        side ^= 1;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float4 line = make_float4(time[i][0], time[i][1], time[i][2], time[i][3]);
        *(float4 *)&best[(row0 + ty * 4 + i) * targets + col0 + tx * 4] = line;
    }
}
