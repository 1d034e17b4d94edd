// One event for each particle of a neutron transport: flight, scattering, absorption or fission. One thread
// for each particle.
#define FLIGHT 0
#define SCATTER 1
#define ABSORB 2
#define MOMENTS 12
#define DRAWS 8

__device__ float drawn(unsigned int &state)
{
    state = state * 1664525u + 1013904223u;
    return ((state >> 8) + 0.5f) * (1.0f / 16777216.0f);
}

extern "C" __global__ void particle_events(const int *__restrict__ events, const unsigned int *__restrict__ seeds,
                                           const float *__restrict__ moments, float *__restrict__ energies,
                                           float *__restrict__ weights, float *__restrict__ cosines, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;

    unsigned int state = seeds[i];
    float energy = energies[i], weight = weights[i], cosine = cosines[i];
    const int event = events[i];
    if (event == FLIGHT) {
        const float section = 0.3f + 1.0f / sqrtf(energy);
        const float length = -logf(drawn(state)) / section;
        weight *= expf(-0.02f * length);
    } else if (event == SCATTER) {
        // a cosine by rejection from a series of Legendre polynomials
        for (int turn = 0; turn < DRAWS; turn++) {
            const float mu = 2.0f * drawn(state) - 1.0f;
            float before = 1.0f, now = mu, density = 0.5f;
            for (int l = 1; l <= MOMENTS; l++) {
                density += (l + 0.5f) * moments[l] * now;
                const float next = ((2 * l + 1) * mu * now - l * before) / (l + 1);
                before = now;
                now = next;
            }
            if (2.0f * drawn(state) < density)
                cosine = mu;
        }
        energy *= 0.5f * (1.0f + cosine) * 0.28f + 0.72f;
    } else if (event == ABSORB) {
        weight *= 1.0f - 0.08f / (0.08f + sqrtf(energy));
    } else {
        // the mean energy of some neutrons of a Watt spectrum
        float sum = 0.0f;
        for (int turn = 0; turn < DRAWS; turn++) {
            const float w = -0.988f * logf(drawn(state));
            sum += w + 0.55f + (2.0f * drawn(state) - 1.0f) * sqrtf(2.2f * w);
        }
        energy = sum / DRAWS;
        weight *= 2.43f;
    }
    energies[i] = energy;
    weights[i] = weight;
    cosines[i] = cosine;
}
