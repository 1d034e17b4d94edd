// Databases: SELECT store, COUNT(*), SUM(quantity), SUM(cents) ... WHERE day BETWEEN first AND last GROUP BY store.
struct Totals {
    unsigned int count;
    unsigned int quantity;
    unsigned int cents;
    unsigned int unused;
};

extern "C" __global__ void groupby_sum(const int *__restrict__ store, const int *__restrict__ day,
                                       const unsigned int *__restrict__ quantity,
                                       const unsigned int *__restrict__ cents, int rows, int first_day, int last_day,
                                       Totals *__restrict__ totals, int stores)
{
    for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += gridDim.x * blockDim.x) {
        if (day[row] < first_day || day[row] > last_day)
            continue;
        Totals *of = &totals[store[row]];
        atomicAdd(&of->count, 1u);
        atomicAdd(&of->quantity, quantity[row]);
        atomicAdd(&of->cents, cents[row]);
    }
}
