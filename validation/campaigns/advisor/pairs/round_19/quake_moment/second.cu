// Seismic moment released per fault zone, from a catalogue of magnitudes.
// The catalogue keeps a row of events for each zone.
#define REFERENCE_MAGNITUDE 6.0f

__device__ float relative_moment(float magnitude)
{
    return exp10f(1.5f * (magnitude - REFERENCE_MAGNITUDE));
}

__device__ float sum_of_warp(float v)
{
    for (int o = 16; o > 0; o /= 2)
        v += __shfl_down_sync(0xffffffff, v, o);
    return v;
}

extern "C" __global__ void quake_moment(const float *magnitude, const float *depth,
                                        float *moment, float *moment_depth,
                                        int events, float smallest)
{
    int zone = blockIdx.y;
    int e = blockIdx.x * blockDim.x + threadIdx.x;

    // all lanes of a warp have the same zone; those without an event add zero
    float m = 0.0f, mz = 0.0f;
    float mag = e < events ? magnitude[zone * events + e] : 0.0f;
    bool counts = e < events && mag >= smallest;
    if (!__any_sync(0xffffffff, counts))
        return;
    if (counts) {
        m = relative_moment(mag);
        mz = m * depth[zone * events + e];
    }
    m = sum_of_warp(m);
    mz = sum_of_warp(mz);
    if (threadIdx.x % 32 == 0) {
        atomicAdd(&moment[zone], m);
        atomicAdd(&moment_depth[zone], mz);
    }
}
