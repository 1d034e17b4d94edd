// Risk: turns 32 daily returns of each simulated path into the loss from the running peak on each day.
#define PATHS 64
#define DAYS 32

extern "C" __global__ void drawdown(const float *returns, float *loss)
{
    __shared__ float tile[PATHS][DAYS + 1];
    int first = blockIdx.x * PATHS * DAYS;
    int day = threadIdx.x % DAYS;
    for (int path = threadIdx.x / DAYS; path < PATHS; path += PATHS / DAYS)
        tile[path][day] = returns[first + path * DAYS + day];
    __syncthreads();

    float worth = 1.0f, peak = 1.0f;
    for (int d = 0; d < DAYS; d++) {
        worth += worth * tile[threadIdx.x][d];
        peak = fmaxf(peak, worth);
        tile[threadIdx.x][d] = peak - worth;
    }
    __syncthreads();

    for (int path = threadIdx.x / DAYS; path < PATHS; path += PATHS / DAYS)
        loss[first + path * DAYS + day] = tile[path][day];
}
