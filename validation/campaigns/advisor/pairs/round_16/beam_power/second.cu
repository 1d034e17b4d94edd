// Radio telescope: forms many beams from the antennas' complex voltages and writes each beam's power at each
// time. A block stages the voltages of 32 times and the weights of its 32 beams; a thread forms four
// neighbouring beams at one time, so that every voltage it reads serves four of them.
#define ANTENNAS 32
#define PER_THREAD 4
#define BLOCK_BEAMS (8 * PER_THREAD)

extern "C" __global__ void beam_power(const float2 *voltages, const float2 *weights, float *power, int beams,
                                      int times)
{
    __shared__ float2 voltage[ANTENNAS][32];
    __shared__ __align__(16) float2 weight[ANTENNAS][BLOCK_BEAMS];
    int tx = threadIdx.x, ty = threadIdx.y;
    int time = blockIdx.x * 32 + tx;
    int first = blockIdx.y * BLOCK_BEAMS;
    for (int a = ty; a < ANTENNAS; a += 8) {
        voltage[a][tx] = time < times ? voltages[a * times + time] : make_float2(0.0f, 0.0f);
        weight[a][tx] = first + tx < beams ? weights[a * beams + first + tx] : make_float2(0.0f, 0.0f);
    }
    __syncthreads();
    if (time >= times)
        return;
    float re[PER_THREAD] = {}, im[PER_THREAD] = {};
#pragma unroll 8
    for (int a = 0; a < ANTENNAS; a++) {
        float2 v = voltage[a][tx];
        const float4 *pair = reinterpret_cast<const float4 *>(&weight[a][ty * PER_THREAD]);
#pragma unroll
        for (int n = 0; n < PER_THREAD; n += 2) {
            float4 w = pair[n / 2];
            re[n] += w.x * v.x - w.y * v.y;
            im[n] += w.x * v.y + w.y * v.x;
            re[n + 1] += w.z * v.x - w.w * v.y;
            im[n + 1] += w.z * v.y + w.w * v.x;
        }
    }
#pragma unroll
    for (int n = 0; n < PER_THREAD; n++) {
        int beam = first + ty * PER_THREAD + n;
        if (beam < beams)
            power[beam * times + time] = re[n] * re[n] + im[n] * im[n];
    }
}
