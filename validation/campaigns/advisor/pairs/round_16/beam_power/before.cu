// Radio telescope: forms many beams from the antennas' complex voltages and writes each beam's power at each
// time. A block stages the voltages of 32 times and the weights of its beams.
#define ANTENNAS 32

extern "C" __global__ void beam_power(const float2 *voltages, const float2 *weights, float *power, int beams,
                                      int times)
{
    __shared__ float2 voltage[ANTENNAS][32], weight[ANTENNAS][8];
    int tx = threadIdx.x, ty = threadIdx.y;
    int time = blockIdx.x * 32 + tx;
    int beam = blockIdx.y * 8 + ty;
    for (int a = ty; a < ANTENNAS; a += 8)
        voltage[a][tx] = time < times ? voltages[a * times + time] : make_float2(0.0f, 0.0f);
    int thread = ty * 32 + tx;
    weight[thread / 8][thread % 8] = weights[thread / 8 * beams + blockIdx.y * 8 + thread % 8];
    __syncthreads();
    if (time >= times)
        return;
    float re = 0.0f, im = 0.0f;
    for (int a = 0; a < ANTENNAS; a++) {
        float2 v = voltage[a][tx];
        float2 w = weight[a][ty];
        re += w.x * v.x - w.y * v.y;
        im += w.x * v.y + w.y * v.x;
    }
    power[beam * times + time] = re * re + im * im;
}
