// Seismic moment released per fault zone, from a catalogue of magnitudes.
// The catalogue keeps a row of events for each zone.
#define REFERENCE_MAGNITUDE 6.0f

__device__ float relative_moment(float magnitude)
{
    return exp10f(1.5f * (magnitude - REFERENCE_MAGNITUDE));
}

extern "C" __global__ void quake_moment(const float *magnitude, const float *depth,
                                        float *moment, float *moment_depth,
                                        int events, float smallest)
{
    int zone = blockIdx.y;
    int e = blockIdx.x * blockDim.x + threadIdx.x;

    float m = 0.0f, mz = 0.0f;
    if (e < events) {
        float mag = magnitude[zone * events + e];
        if (mag >= smallest) {
            m = relative_moment(mag);
            mz = m * depth[zone * events + e];
        }
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        m += __shfl_down_sync(0xffffffffu, m, offset);
        mz += __shfl_down_sync(0xffffffffu, mz, offset);
    }
    if ((threadIdx.x & 31) == 0) {
        atomicAdd(&moment[zone], m);
        atomicAdd(&moment_depth[zone], mz);
    }
}
