// Radio telescope: forms many beams from the antennas' complex voltages and writes each beam's power at each
// time. A block stages the voltages of 32 times and the weights of its beams; a thread forms four beams at
// one time.
#define ANTENNAS 32
#define BEAMS 4

extern "C" __global__ void beam_power(const float2 *voltages, const float2 *weights, float *power, int beams,
                                      int times)
{
    __shared__ float2 voltage[ANTENNAS][32], weight[ANTENNAS][8 * BEAMS];
    int tx = threadIdx.x, ty = threadIdx.y;
    int time = blockIdx.x * 32 + tx;
    int first = blockIdx.y * 8 * BEAMS;
    for (int a = ty; a < ANTENNAS; a += 8) {
        voltage[a][tx] = time < times ? voltages[a * times + time] : make_float2(0.0f, 0.0f);
        weight[a][tx] = weights[a * beams + first + tx];
    }
    __syncthreads();
    if (time >= times)
        return;
    float re[BEAMS] = {}, im[BEAMS] = {};
    for (int a = 0; a < ANTENNAS; a++) {
        float2 v = voltage[a][tx];
#pragma unroll
        for (int b = 0; b < BEAMS; b++) {
            float2 w = weight[a][ty * BEAMS + b];
            re[b] += w.x * v.x - w.y * v.y;
            im[b] += w.x * v.y + w.y * v.x;
        }
    }
#pragma unroll
    for (int b = 0; b < BEAMS; b++)
        power[(first + ty * BEAMS + b) * times + time] = re[b] * re[b] + im[b] * im[b];
}
