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

    // the same for all steps of the tree
    const float dt = years[option] / steps;
    const float move = volatility[option] * sqrtf(dt);
    const float up = expf(move);
    const float down = 1.0f / up;
    const float growth = expf(rate[option] * dt);
    const float chance = (growth - down) / (up - down);
    const float if_up = chance / growth;
    const float if_down = (1.0f - chance) / growth;
    const float start = spot[option];
    const float exercise = strike[option];

    value[node] = fmaxf(exercise - start * expf(move * (2 * node - steps)), 0.0f);
    __syncthreads();

    for (int step = steps - 1; step >= 0; step--) {
        float best = 0.0f;
        if (node <= step) {
            const float kept = if_up * value[node + 1] + if_down * value[node];
            const float now = start * expf(move * (2 * node - step));
            best = fmaxf(kept, exercise - now);
        }
        __syncthreads();
        if (node <= step)
            value[node] = best;
        __syncthreads();
    }

    if (node == 0)
        price[option] = value[0];
}
