// Radio astronomy: search for pulsars. The channels of a filter bank are summed with the delays of trial dispersions.
#define PER_THREAD 4

extern "C" __global__ void dedispersion(const unsigned char *power, float *series, int channels, int samples, int kept,
                                        float top_mhz, float channel_mhz, float first_dm, float dm_step, float rate_hz)
{
    float dm = first_dm + blockIdx.y * dm_step;
    int start = blockIdx.x * blockDim.x * PER_THREAD + threadIdx.x;
    for (int i = 0; i < PER_THREAD; i++) {
        int t = start + i * blockDim.x;
        if (t >= kept)
            break;
        int sum = 0;
        for (int c = 0; c < channels; c++) {
            float mhz = top_mhz - c * channel_mhz;
            float seconds = 4148.808f * dm * (1.0f / (mhz * mhz) - 1.0f / (top_mhz * top_mhz));
            int delay = (int)(seconds * rate_hz + 0.5f);
            sum += power[c * samples + t + delay];
        }
        series[blockIdx.y * kept + t] = (float)sum / channels;
    }
}
