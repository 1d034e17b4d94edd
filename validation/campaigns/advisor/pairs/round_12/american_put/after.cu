// Finance: American put on a binomial tree, one option a block, one node a thread.
#define STEPS 255

extern "C" __global__ void american_put(const float *spot, const float *strike, const float *volatility, float *price,
                                        float rate, float years)
{
    __shared__ float value[2][STEPS + 1];
    int node = threadIdx.x;
    float dt = years / STEPS;
    float log_up = volatility[blockIdx.x] * sqrtf(dt);
    float up = expf(log_up), down = expf(-log_up);
    float p = (expf(rate * dt) - down) / (up - down);
    float discount = expf(-rate * dt);
    float k = strike[blockIdx.x];
    float asset = spot[blockIdx.x] * expf(log_up * (2 * node - STEPS));
    int now = 0;

    value[0][node] = fmaxf(k - asset, 0.0f);
    __syncthreads();
    for (int step = STEPS - 1; step >= 0; step--) {
        asset *= up;
        if (node <= step) {
            float hold = discount * (p * value[now][node + 1] + (1.0f - p) * value[now][node]);
            value[1 - now][node] = fmaxf(hold, k - asset);
        }
        now = 1 - now;
        __syncthreads();
    }
    if (node == 0)
        price[blockIdx.x] = value[now][0];
}
