// Databases: SELECT store, COUNT(*), SUM(quantity), SUM(cents) ... WHERE day BETWEEN first AND last GROUP BY store.
// A block adds up in shared memory and gives its sums to the table once.
#define MAX_STORES 256

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
    __shared__ unsigned int counts[MAX_STORES], quantities[MAX_STORES], sums[MAX_STORES];
    for (int s = threadIdx.x; s < stores; s += blockDim.x)
        counts[s] = quantities[s] = sums[s] = 0;
    __syncthreads();

    for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += gridDim.x * blockDim.x) {
        if (day[row] < first_day || day[row] > last_day)
            continue;
        const int of = store[row];
        atomicAdd(&counts[of], 1u);
        atomicAdd(&quantities[of], quantity[row]);
        atomicAdd(&sums[of], cents[row]);
    }
    __syncthreads();

    for (int s = threadIdx.x; s < stores; s += blockDim.x)
        if (counts[s]) {
            atomicAdd(&totals[s].count, counts[s]);
            atomicAdd(&totals[s].quantity, quantities[s]);
            atomicAdd(&totals[s].cents, sums[s]);
        }
}
