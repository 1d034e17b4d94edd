// Recommender: gradient of the squared error with respect to every user's 16 latent factors, over the items
// that the user has rated, and the user's squared error.
extern "C" __global__ void factor_gradient(const int *item, const float *rating, const float *user_factor,
                                           const float *item_factor, const float *item_bias,
                                           float *gradient, float *squared_error, float mean, float penalty,
                                           int ratings, int users)
{
    const int factors = 16;
    int user = blockIdx.x * blockDim.x + threadIdx.x;
    if (user >= users)
        return;
    float u[factors], g[factors], squared = 0.0f;
#pragma unroll
    for (int f = 0; f < factors; f++) {
        u[f] = user_factor[f * users + user];
        g[f] = penalty * u[f];
    }
    for (int r = 0; r < ratings; r++) {
        int i = item[r * users + user];
        const float *from = item_factor + (size_t)i * factors;
        float v[factors];
#pragma unroll
        for (int f = 0; f < factors; f++)
            v[f] = from[f];
        float predicted = mean + item_bias[i];
#pragma unroll
        for (int f = 0; f < factors; f++)
            predicted += u[f] * v[f];
        float error = predicted - rating[r * users + user];
#pragma unroll
        for (int f = 0; f < factors; f++)
            g[f] += error * v[f];
        squared += error * error;
    }
#pragma unroll
    for (int f = 0; f < factors; f++)
        gradient[f * users + user] = g[f];
    squared_error[user] = squared;
}
