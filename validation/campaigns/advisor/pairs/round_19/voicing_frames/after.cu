// Speech coding: energy and zero crossings of overlapping frames, from which
// voiced and unvoiced frames are told apart. A block takes one frame.
#define THREADS 128
#define WARPS (THREADS / 32)
#define FRAME 512
#define HOP 256

extern "C" __global__ void voicing_frames(const float *__restrict__ signal,
                                          float *__restrict__ energy,
                                          int *__restrict__ crossings)
{
    __shared__ float partial[WARPS];
    __shared__ int changes[WARPS];
    int t = threadIdx.x;
    const float *x = signal + blockIdx.x * HOP;

    float e = 0.0f;
    int z = 0;
    for (int n = t; n < FRAME; n += THREADS) {
        e += x[n] * x[n];
        z += (x[n] < 0.0f) != (x[n + 1] < 0.0f);
    }
    for (int o = 16; o > 0; o /= 2) {
        e += __shfl_down_sync(0xffffffff, e, o);
        z += __shfl_down_sync(0xffffffff, z, o);
    }
    if (t % 32 == 0) {
        partial[t / 32] = e;
        changes[t / 32] = z;
    }
    __syncthreads();

    if (t == 0) {
        for (int w = 1; w < WARPS; ++w) {
            e += partial[w];
            z += changes[w];
        }
        energy[blockIdx.x] = 10.0f * log10f(e / FRAME + 1e-10f);
        crossings[blockIdx.x] = z;
    }
}
