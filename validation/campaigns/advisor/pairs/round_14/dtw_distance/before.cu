// Time series: distance of a query from windows by dynamic time warping; a block walks along anti-diagonals.
#define LENGTH 128

extern "C" __global__ void dtw_distance(const float *query, const float *windows, float *distance)
{
    __shared__ float window[LENGTH];
    __shared__ float now[LENGTH + 1], last[LENGTH + 1], before_last[LENGTH + 1];
    int i = threadIdx.x;
    float q = query[i];
    window[i] = windows[blockIdx.x * LENGTH + i];
    last[i + 1] = before_last[i + 1] = 1e30f;
    if (i == 0)
        last[0] = before_last[0] = 1e30f;
    __syncthreads();
    for (int d = 0; d < 2 * LENGTH - 1; d++) {
        int j = d - i;
        float cost = 1e30f;
        if (j >= 0 && j < LENGTH) {
            float gap = fabsf(q - window[j]);
            float best = fminf(fminf(last[i], last[i + 1]), before_last[i]);
            if (d == 0)
                best = 0.0f;
            cost = gap + best;
        }
        now[i + 1] = cost;
        __syncthreads();
        before_last[i + 1] = last[i + 1];
        __syncthreads();
        last[i + 1] = now[i + 1];
        __syncthreads();
    }
    if (i == LENGTH - 1)
        distance[blockIdx.x] = last[LENGTH];
}
