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
    if (e >= events)
        return;

    float mag = magnitude[zone * events + e];
    if (mag < smallest)
        return;

    float m = relative_moment(mag);
    float z = depth[zone * events + e];
    atomicAdd(&moment[zone], m);
    atomicAdd(&moment_depth[zone], m * z);
}
