// Risk engine: value of every position of a book in the base currency, its unrealised gain and its exposure
// weighted by the instrument's beta.
extern "C" __global__ void mark_to_market(const int *instrument, const float *quantity, const float *cost,
                                          const float *price, const float *beta, const int *currency,
                                          const float *rate, float *value, float *gain, float *exposure,
                                          int positions)
{
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < positions; i += stride) {
        int id = instrument[i];
        float fx = rate[currency[id]];
        float worth = quantity[i] * price[id] * fx;
        value[i] = worth;
        gain[i] = worth - cost[i] * fx;
        exposure[i] = worth * beta[id];
    }
}
