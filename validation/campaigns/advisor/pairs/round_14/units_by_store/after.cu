// Databases: SELECT store, SUM(units) WHERE day BETWEEN first_day AND last_day GROUP BY store, of few distinct stores.
#define STORES 200

extern "C" __global__ void units_by_store(const int *store, const int *day, const int *units, int *units_sold,
                                          int rows, int first_day, int last_day)
{
    __shared__ int sold[STORES];
    for (int k = threadIdx.x; k < STORES; k += blockDim.x)
        sold[k] = 0;
    __syncthreads();
    int step = gridDim.x * blockDim.x;
    for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += step) {
        if (day[row] < first_day || day[row] > last_day)
            continue;
        atomicAdd(&sold[store[row]], units[row]);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < STORES; k += blockDim.x)
        if (sold[k] != 0)
            atomicAdd(&units_sold[k], sold[k]);
}
