// Cardiology: baseline, power and steepest slope of overlapping windows of an
// electrocardiogram. A block of two warps takes a window.
#define WINDOW 2048
#define THREADS 64

__device__ float sum_of_warp(float v)
{
    for (int o = 16; o > 0; o /= 2)
        v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}

extern "C" __global__ void ecg_windows(const float *__restrict__ ecg,
                                       float *__restrict__ power,
                                       float *__restrict__ slope, int hop)
{
    __shared__ float raw[WINDOW];
    __shared__ float levelled[WINDOW];
    __shared__ float part[3][THREADS / 32];
    int t = threadIdx.x;
    const float *from = ecg + blockIdx.x * hop;

    float sum = 0.0f;
    for (int n = t; n < WINDOW; n += THREADS) {
        raw[n] = from[n];
        sum += raw[n];
    }
    sum = sum_of_warp(sum);
    if (t % 32 == 0)
        part[0][t / 32] = sum;
    __syncthreads();
    float baseline = (part[0][0] + part[0][1]) / WINDOW;

    for (int n = t; n < WINDOW; n += THREADS)
        levelled[n] = raw[n] - baseline;
    __syncthreads();

    float energy = 0.0f, steepest = 0.0f;
    for (int n = t + 2; n < WINDOW; n += THREADS) {
        energy += levelled[n] * levelled[n];
        steepest = fmaxf(steepest, fabsf(levelled[n] - levelled[n - 2]));
    }
    energy = sum_of_warp(energy);
    for (int o = 16; o > 0; o /= 2)
        steepest = fmaxf(steepest, __shfl_xor_sync(0xffffffff, steepest, o));
    if (t % 32 == 0) {
        part[1][t / 32] = energy;
        part[2][t / 32] = steepest;
    }
    __syncthreads();
    if (t == 0) {
        power[blockIdx.x] = (part[1][0] + part[1][1]) / WINDOW;
        slope[blockIdx.x] = fmaxf(part[2][0], part[2][1]);
    }
}
