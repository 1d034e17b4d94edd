// Databases: SELECT store, SUM(units) WHERE day BETWEEN first_day AND last_day GROUP BY store, of few distinct stores.
#define STORES 200

extern "C" __global__ void units_by_store(const int *store, const int *day, const int *units, int *units_sold,
                                          int rows, int first_day, int last_day)
{
    int step = gridDim.x * blockDim.x;
    for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += step) {
        if (day[row] < first_day || day[row] > last_day)
            continue;
        atomicAdd(&units_sold[store[row]], units[row]);
    }
}
