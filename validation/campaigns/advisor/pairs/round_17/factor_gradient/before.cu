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
    for (int f = 0; f < factors; f++)
        gradient[f * users + user] = penalty * user_factor[f * users + user];
    squared_error[user] = 0.0f;
    for (int r = 0; r < ratings; r++) {
        int i = item[r * users + user];
        const float *v = item_factor + (size_t)i * factors;
        float predicted = mean + item_bias[i];
        for (int f = 0; f < factors; f++)
            predicted += user_factor[f * users + user] * v[f];
        float error = predicted - rating[r * users + user];
        for (int f = 0; f < factors; f++)
            gradient[f * users + user] += error * v[f];
        squared_error[user] += error * error;
    }
}
