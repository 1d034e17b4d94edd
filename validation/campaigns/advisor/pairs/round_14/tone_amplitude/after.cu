// Vibration analysis: complex amplitude of a long record at a few given frequencies.
extern "C" __global__ void tone_amplitude(const float *signal, const unsigned int *phase_step, float *real,
                                          float *imaginary, int samples)
{
    __shared__ float sum_re[8], sum_im[8];
    int tone = blockIdx.x;
    unsigned int step = phase_step[tone];
    float re = 0.0f, im = 0.0f;
    for (int n = blockIdx.y * blockDim.x + threadIdx.x; n < samples; n += gridDim.y * blockDim.x) {
        float s, c;
        __sincosf((float)(int)(step * (unsigned int)n) * 1.46291808e-9f, &s, &c);
        re += signal[n] * c;
        im -= signal[n] * s;
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        re += __shfl_down_sync(0xffffffffu, re, offset);
        im += __shfl_down_sync(0xffffffffu, im, offset);
    }
    if ((threadIdx.x & 31) == 0) {
        sum_re[threadIdx.x >> 5] = re;
        sum_im[threadIdx.x >> 5] = im;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; w++) {
            re += sum_re[w];
            im += sum_im[w];
        }
        atomicAdd(&real[tone], re);
        atomicAdd(&imaginary[tone], im);
    }
}
