// Monte Carlo of a LIBOR market model: each thread carries one path of RATES forward rates through the steps and
// keeps the discounted payoff of a strip of options. draws[step][path] are normal numbers.
#define RATES 32
#define THREADS 128

extern "C" __global__ void __launch_bounds__(THREADS, 4)
libor_paths(const float *__restrict__ draws, const float *__restrict__ volatility, const float *__restrict__ start,
            float *__restrict__ payoff, int paths, int steps, float delta, float strike)
{
    const int path = blockIdx.x * blockDim.x + threadIdx.x;
    if (path >= paths)
        return;

    float rate[RATES];
#pragma unroll
    for (int i = 0; i < RATES; ++i)
        rate[i] = start[i];

    const float root = sqrtf(delta);
    for (int step = 0; step < steps; ++step) {
        const float shock = root * draws[step * paths + path];
        float drift = 0.0f;
#pragma unroll
        for (int i = 0; i < RATES; ++i) {
            const float by = volatility[i];
            const float scaled = delta * by;
            drift += __fdividef(scaled * rate[i], 1.0f + delta * rate[i]);
            rate[i] *= __expf(scaled * drift + by * (shock - 0.5f * scaled));
        }
    }

    float discount = 1.0f;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < RATES; ++i) {
        discount = __fdividef(discount, 1.0f + delta * rate[i]);
        sum += discount * delta * fmaxf(rate[i] - strike, 0.0f);
    }
    payoff[path] = sum;
}
