// Risk engine: value of every position of a book in the base currency, its unrealised gain and its exposure
// weighted by the instrument's beta.
extern "C" __global__ void mark_to_market(const int *instrument, const float *quantity, const float *cost,
                                          const float *price, const float *beta, const int *currency,
                                          const float *rate, float *value, float *gain, float *exposure,
                                          int positions)
{
    const int batch = 4;
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < positions; i += batch * stride) {
        int id[batch], money[batch];
        float amount[batch], paid[batch], quote[batch], slope[batch], fx[batch];
#pragma unroll
        for (int b = 0; b < batch; b++) {
            int at = min(i + b * stride, positions - 1);
            id[b] = instrument[at];
            amount[b] = quantity[at];
            paid[b] = cost[at];
        }
#pragma unroll
        for (int b = 0; b < batch; b++) {
            money[b] = currency[id[b]];
            quote[b] = price[id[b]];
            slope[b] = beta[id[b]];
        }
#pragma unroll
        for (int b = 0; b < batch; b++)
            fx[b] = rate[money[b]];
#pragma unroll
        for (int b = 0; b < batch; b++) {
            int at = i + b * stride;
            if (at < positions) {
                float worth = amount[b] * quote[b] * fx[b];
                value[at] = worth;
                gain[at] = worth - paid[b] * fx[b];
                exposure[at] = worth * slope[b];
            }
        }
    }
}
