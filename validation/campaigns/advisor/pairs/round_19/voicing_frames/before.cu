// Speech coding: energy and zero crossings of overlapping frames, from which
// voiced and unvoiced frames are told apart. A block takes one frame.
#define THREADS 128
#define FRAME 512
#define HOP 256

extern "C" __global__ void voicing_frames(const float *__restrict__ signal,
                                          float *__restrict__ energy,
                                          int *__restrict__ crossings)
{
    __shared__ float partial[THREADS];
    __shared__ int changes[THREADS];
    int t = threadIdx.x;
    const float *x = signal + blockIdx.x * HOP;

    float e = 0.0f;
    int z = 0;
    for (int n = t; n < FRAME; n += THREADS) {
        e += x[n] * x[n];
        z += (x[n] < 0.0f) != (x[n + 1] < 0.0f);
    }
    partial[t] = e;
    changes[t] = z;
    __syncthreads();

    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half) {
            partial[t] += partial[t + half];
            changes[t] += changes[t + half];
        }
        __syncthreads();
    }

    if (t == 0) {
        energy[blockIdx.x] = 10.0f * log10f(partial[0] / FRAME + 1e-10f);
        crossings[blockIdx.x] = changes[0];
    }
}
