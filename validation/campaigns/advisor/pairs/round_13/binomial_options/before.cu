// American put options by the binomial tree of Cox, Ross and Rubinstein. One block for each option, one
// thread for each leaf of the tree; the tree has blockDim.x - 1 steps.
#define MOST_LEAVES 256

extern "C" __global__ void binomial_options(const float *spot, const float *strike, const float *volatility,
                                            const float *rate, const float *years, float *price)
{
    __shared__ float value[MOST_LEAVES];
    const int option = blockIdx.x;
    const int node = threadIdx.x;
    const int steps = blockDim.x - 1;

    {
        const float dt = years[option] / steps;
        const float move = volatility[option] * sqrtf(dt);
        const float leaf = spot[option] * expf(move * (2 * node - steps));
        value[node] = fmaxf(strike[option] - leaf, 0.0f);
    }
    __syncthreads();

    for (int step = steps - 1; step >= 0; step--) {
        const float dt = years[option] / steps;
        const float move = volatility[option] * sqrtf(dt);
        const float up = expf(move);
        const float down = 1.0f / up;
        const float growth = expf(rate[option] * dt);
        const float chance = (growth - down) / (up - down);
        float best = 0.0f;
        if (node <= step) {
            const float kept = (chance * value[node + 1] + (1.0f - chance) * value[node]) / growth;
            const float now = spot[option] * expf(move * (2 * node - step));
            best = fmaxf(kept, strike[option] - now);
        }
        __syncthreads();
        if (node <= step)
            value[node] = best;
        __syncthreads();
    }

    if (node == 0)
        price[option] = value[0];
}
