// Sums and products of matrices, a gray image and histograms. Written from the kernels that
// R100001/Programming-Massively-Parallel-Processors measured, with the same work for each thread. All kernels take the same
// arguments. Whole numbers are all zero there, and so they are here: every value of a histogram falls into one bin.

#define PARAMETERS                                                                                                          \
    const float *a, const float *b, float *c, const unsigned char *image, unsigned char *gray, unsigned int *numbers,       \
        unsigned int *bins, unsigned int count, unsigned int bin_count, int n
#define VECTOR (1 << 24)
#define SIDE 2048

// The sum of two matrices; BY_ROWS: neighbouring threads take neighbours of a row, else of a column.
template <bool BY_ROWS>
__device__ void sum_of_matrices(const float *a, const float *b, float *c, int n)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int row = BY_ROWS ? y : x, column = BY_ROWS ? x : y;
    if (row < n && column < n)
        c[row * n + column] = a[row * n + column] + b[row * n + column];
}

extern "C" __global__ void sum_by_rows(PARAMETERS) { sum_of_matrices<true>(a, b, c, n); }
extern "C" __global__ void sum_by_columns(PARAMETERS) { sum_of_matrices<false>(a, b, c, n); }

extern "C" __global__ void gray_image(PARAMETERS)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || column >= n)
        return;
    int at = row * n + column;
    unsigned char red = image[3 * at], green = image[3 * at + 1], blue = image[3 * at + 2];
    gray[at] = (unsigned char)(0.21f * red + 0.71f * green + 0.07f * blue);
}

extern "C" __global__ void global_bins(PARAMETERS)
{
    unsigned int first = blockIdx.x * blockDim.x + threadIdx.x, step = blockDim.x * gridDim.x;
    for (unsigned int bin = first; bin < bin_count; bin += step)
        bins[bin] = 0;
    __syncthreads();
    for (unsigned int at = first; at < count; at += step)
        atomicAdd(&bins[numbers[at]], 1);
}

extern __shared__ unsigned int own[];

extern "C" __global__ void shared_bins(PARAMETERS)
{
    for (unsigned int bin = threadIdx.x; bin < bin_count; bin += blockDim.x)
        own[bin] = 0;
    __syncthreads();
    for (unsigned int at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += blockDim.x * gridDim.x)
        atomicAdd(&own[numbers[at]], 1);
    __syncthreads();
    for (unsigned int bin = threadIdx.x; bin < bin_count; bin += blockDim.x)
        atomicAdd(&bins[bin], own[bin]);
}

// A matrix times a vector, a row for each thread; a tile of the vector in shared memory.
extern "C" __global__ void row_a_thread(PARAMETERS)
{
    const unsigned int *vector = numbers + VECTOR;
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int sum = 0;
    int phases = (n + blockDim.x - 1) / blockDim.x;
    for (int phase = 0; phase < phases; ++phase) {
        int at = phase * blockDim.x + threadIdx.x;
        own[threadIdx.x] = at < n ? vector[at] : 0;
        __syncthreads();
        if (row < n)
            for (int k = 0; k < blockDim.x && phase * blockDim.x + k < n; ++k)
                sum += numbers[row * n + phase * blockDim.x + k] * own[k];
        __syncthreads();
    }
    bins[row] = sum;
}

// A product of two matrices, an element for each thread, no tiles.
extern "C" __global__ void plain_product(PARAMETERS)
{
    const unsigned int *left = numbers, *right = numbers + SIDE * SIDE;
    unsigned int *result = numbers + 2 * SIDE * SIDE;
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x, side = n / 2;
    if (row >= side || column >= side)
        return;
    unsigned int sum = 0;
    for (int k = 0; k < side; ++k)
        sum += left[row * side + k] * right[k * side + column];
    result[row * side + column] = sum;
}
