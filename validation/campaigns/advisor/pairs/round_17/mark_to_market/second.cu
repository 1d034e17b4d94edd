// Risk engine: value of every position of a book in the base currency, its unrealised gain and its exposure
// weighted by the instrument's beta.
extern "C" __global__ void mark_to_market(const int *instrument, const float *quantity, const float *cost,
                                          const float *price, const float *beta, const int *currency,
                                          const float *rate, float *value, float *gain, float *exposure,
                                          int positions)
{
    int stride = gridDim.x * blockDim.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= positions)
        return;
    // Two stages ahead: the instrument of the position after the next, and for the next position all that is
    // looked up by its instrument.
    int id = instrument[i];
    float held = quantity[i], paid = cost[i];
    int next = i + stride;
    int next_id = next < positions ? instrument[next] : id;
    float quote = price[id], slope = beta[id];
    int money = currency[id];
    while (true) {
        bool more = next < positions;
        int after = next + stride;
        int after_id = after < positions ? instrument[after] : next_id;
        float next_held = 0.0f, next_paid = 0.0f, next_quote = 0.0f, next_slope = 0.0f;
        int next_money = 0;
        if (more) {
            next_money = currency[next_id];
            next_quote = price[next_id];
            next_slope = beta[next_id];
            next_held = quantity[next];
            next_paid = cost[next];
        }
        float fx = rate[money];
        float worth = held * quote * fx;
        value[i] = worth;
        gain[i] = worth - paid * fx;
        exposure[i] = worth * slope;
        if (!more)
            break;
        i = next;
        next = after;
        next_id = after_id;
        held = next_held;
        paid = next_paid;
        quote = next_quote;
        slope = next_slope;
        money = next_money;
    }
}
