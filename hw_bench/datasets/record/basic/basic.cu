// Basic kernels: vectors, sums, transposes, products, convolutions, a histogram. Written from the kernels that Debdeep23/test1
// measured, which nvcc compiled one by one. All take the same arguments here, and each uses its own.

#define PARAMETERS \
    const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int count, int picture, int matrix, int product
#define KERNEL extern "C" __global__ void

KERNEL add_vectors(PARAMETERS)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count)
        c[at] = a[at] + b[at];
}

// Every second lane adds 128 constants more.
KERNEL add_divergent(PARAMETERS)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count)
        return;
    if ((at & 1) == 0) {
        float more = 0;
#pragma unroll 16
        for (int k = 0; k < 128; ++k)
            more += 0.0001f * k;
        c[at] = a[at] + b[at] + more;
    } else {
        c[at] = a[at] + b[at];
    }
}

__device__ void sum_of_block(float mine, float *sums)
{
    extern __shared__ float part[];
    int thread = threadIdx.x;
    part[thread] = mine;
    __syncthreads();
    for (int distance = blockDim.x >> 1; distance > 0; distance >>= 1) {
        if (thread < distance)
            part[thread] += part[thread + distance];
        __syncthreads();
    }
    if (thread == 0)
        sums[blockIdx.x] = part[0];
}

KERNEL sum(PARAMETERS)
{
    int at = blockIdx.x * blockDim.x * 2 + threadIdx.x;
    float mine = 0;
    if (at < count)
        mine += a[at];
    if (at + blockDim.x < count)
        mine += a[at + blockDim.x];
    sum_of_block(mine, c);
}

KERNEL dot(PARAMETERS)
{
    int at = blockIdx.x * blockDim.x * 2 + threadIdx.x;
    float mine = 0;
    if (at < count)
        mine += a[at] * b[at];
    if (at + blockDim.x < count)
        mine += a[at + blockDim.x] * b[at + blockDim.x];
    sum_of_block(mine, c);
}

KERNEL histogram(PARAMETERS)
{
    extern __shared__ unsigned int bins[];
    const unsigned int *data = (const unsigned int *)a;
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x)
        bins[bin] = 0;
    __syncthreads();
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += blockDim.x * gridDim.x)
        atomicAdd(&bins[data[at] & 255u], 1);
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x)
        atomicAdd((unsigned int *)c + bin, bins[bin]);
}

template <int WIDTH, bool UNROLLED>
__device__ void convolved(const float *__restrict__ image, const float *__restrict__ mask, float *__restrict__ result, int side)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= side - (WIDTH - 1) || y >= side - (WIDTH - 1))
        return;
    float total = 0;
    if (UNROLLED) {
#pragma unroll
        for (int k = 0; k < WIDTH; ++k)
#pragma unroll
            for (int l = 0; l < WIDTH; ++l)
                total += image[(y + k) * side + x + l] * mask[k * WIDTH + l];
    } else {
        for (int k = 0; k < WIDTH; ++k)
            for (int l = 0; l < WIDTH; ++l)
                total += image[(y + k) * side + x + l] * mask[k * WIDTH + l];
    }
    result[y * side + x] = total;
}

KERNEL convolution_3(PARAMETERS) { convolved<3, true>(a, b, c, picture); }
KERNEL convolution_7(PARAMETERS) { convolved<7, false>(a, b, c, picture); }

KERNEL product_plain(PARAMETERS)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= product || column >= product)
        return;
    float total = 0;
    for (int k = 0; k < product; ++k)
        total += a[row * product + k] * b[k * product + column];
    c[row * product + column] = total;
}

#define TILE 32

KERNEL product_tiled(PARAMETERS)
{
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float total = 0;
    for (int t = 0; t < product; t += TILE) {
        bool in_left = row < product && t + threadIdx.x < product, in_right = t + threadIdx.y < product && column < product;
        left[threadIdx.y][threadIdx.x] = in_left ? a[row * product + t + threadIdx.x] : 0;
        right[threadIdx.y][threadIdx.x] = in_right ? b[(t + threadIdx.y) * product + column] : 0;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k)
            total += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    if (row < product && column < product)
        c[row * product + column] = total;
}

KERNEL transpose_plain(PARAMETERS)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < matrix && column < matrix)
        c[column * matrix + row] = a[row * matrix + column];
}

KERNEL transpose_tiled(PARAMETERS)
{
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x < matrix && y < matrix)
        tile[threadIdx.y][threadIdx.x] = a[y * matrix + x];
    __syncthreads();
    int to_x = blockIdx.y * TILE + threadIdx.x, to_y = blockIdx.x * TILE + threadIdx.y;
    if (to_x < matrix && to_y < matrix)
        c[to_y * matrix + to_x] = tile[threadIdx.x][threadIdx.y];
}
