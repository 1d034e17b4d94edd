// Array processing: covariance of 32 sensors in every frequency bin, averaged over the snapshots of a record.
// A block has one bin; each of its 16 by 16 threads has two rows and two columns.
#define SENSORS 32
#define STEP 16

__device__ float2 add_product(float2 sum, float2 a, float2 b)
{
    sum.x += a.x * b.x + a.y * b.y;
    sum.y += a.y * b.x - a.x * b.y;
    return sum;
}

extern "C" __global__ void array_covariance(const float2 *snapshots, float2 *covariance, int count,
                                            float scale)
{
    __shared__ float2 tile[2][STEP][SENSORS];
    int tx = threadIdx.x, ty = threadIdx.y;
    int thread = ty * 16 + tx;
    const float2 *in = snapshots + (long long)blockIdx.x * count * SENSORS;
    float2 s00 = {0.0f, 0.0f}, s01 = s00, s10 = s00, s11 = s00;
    int row = thread / SENSORS, sensor = thread % SENSORS;
    tile[0][row][sensor] = in[thread];
    tile[0][row + 8][sensor] = in[thread + 256];
    __syncthreads();
    int now = 0;
    for (int first = 0; first < count; first += STEP) {
        // the next step's snapshots travel while this step's are used
        bool more = first + STEP < count;
        float2 next0, next1;
        if (more) {
            next0 = in[(first + STEP) * SENSORS + thread];
            next1 = in[(first + STEP) * SENSORS + thread + 256];
        }
#pragma unroll
        for (int k = 0; k < STEP; k++) {
            float2 a0 = tile[now][k][ty], a1 = tile[now][k][ty + 16];
            float2 b0 = tile[now][k][tx], b1 = tile[now][k][tx + 16];
            s00 = add_product(s00, a0, b0);
            s01 = add_product(s01, a0, b1);
            s10 = add_product(s10, a1, b0);
            s11 = add_product(s11, a1, b1);
        }
        // the other buffer was last read before the previous barrier
        now ^= 1;
        if (more) {
            tile[now][row][sensor] = next0;
            tile[now][row + 8][sensor] = next1;
        }
        __syncthreads();
    }
    float2 *out = covariance + blockIdx.x * SENSORS * SENSORS;
    out[ty * SENSORS + tx] = make_float2(scale * s00.x, scale * s00.y);
    out[ty * SENSORS + tx + 16] = make_float2(scale * s01.x, scale * s01.y);
    out[(ty + 16) * SENSORS + tx] = make_float2(scale * s10.x, scale * s10.y);
    out[(ty + 16) * SENSORS + tx + 16] = make_float2(scale * s11.x, scale * s11.y);
}
