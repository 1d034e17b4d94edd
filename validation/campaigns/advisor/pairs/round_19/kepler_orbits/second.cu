// Asteroid survey: solve Kepler's equation for every orbit and give the
// position in the plane of the orbit at the epoch.
#define ROUNDS 4

struct Position {
    float x, y;
};

__device__ float eccentric_anomaly(float mean, float e)
{
    float E = mean + e * __sinf(mean);
    for (int k = 0; k < ROUNDS; ++k)
        E -= __fdividef(E - e * __sinf(E) - mean, 1.0f - e * __cosf(E));
    return E;
}

extern "C" __global__ void kepler_orbits(const float *__restrict__ mean_anomaly,
                                         const float *__restrict__ eccentricity,
                                         const float *__restrict__ semi_axis,
                                         Position *__restrict__ position, int orbits)
{
    int stride = gridDim.x * blockDim.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= orbits)
        return;

    float next_m = mean_anomaly[i];
    float next_e = eccentricity[i];
    float next_a = semi_axis[i];
    for (; i < orbits; i += stride) {
        float m = next_m, e = next_e, a = next_a;

        // ask for the next orbit before this one is solved
        int next = i + stride;
        if (next < orbits) {
            next_m = mean_anomaly[next];
            next_e = eccentricity[next];
            next_a = semi_axis[next];
        }

        float E = eccentric_anomaly(m, e);
        Position p;
        p.x = a * (__cosf(E) - e);
        p.y = a * sqrtf(1.0f - e * e) * __sinf(E);
        position[i] = p;
    }
}
