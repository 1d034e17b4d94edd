// Sums of an image and of its squares: each block adds up its part of both arrays and leaves the sum in place of its
// first element.
#define THREADS 512

extern "C" __global__ void add_up(long elements, int count, int stride, float *sums, float *squares)
{
    int block = blockIdx.x;
    int lane = threadIdx.x;
    int mine = (block * THREADS) + lane;
    int in_last = THREADS - (gridDim.x * THREADS - count);
    int power = 0;

    __shared__ float part[THREADS];
    __shared__ float part_squares[THREADS];

    int step;

    if (mine < count) {
        part[lane] = sums[mine * stride];
        part_squares[lane] = squares[mine * stride];
    }

    __syncthreads();

    // All blocks are full.
    if (in_last == THREADS) {
        for (step = 2; step <= THREADS; step = 2 * step) {
            if ((lane + 1) % step == 0) {
                part[lane] = part[lane] + part[lane - step / 2];
                part_squares[lane] = part_squares[lane] + part_squares[lane - step / 2];
            }
            __syncthreads();
        }
        if (lane == (THREADS - 1)) {
            sums[block * stride * THREADS] = part[lane];
            squares[block * stride * THREADS] = part_squares[lane];
        }
    }
    // The last block is not full.
    else {
        if (block != (gridDim.x - 1)) {
            for (step = 2; step <= THREADS; step = 2 * step) {
                if ((lane + 1) % step == 0) {
                    part[lane] = part[lane] + part[lane - step / 2];
                    part_squares[lane] = part_squares[lane] + part_squares[lane - step / 2];
                }
                __syncthreads();
            }
            if (lane == (THREADS - 1)) {
                sums[block * stride * THREADS] = part[lane];
                squares[block * stride * THREADS] = part_squares[lane];
            }
        }
        // The last block: the largest power of two as a tree, the rest by one thread.
        else {
            for (step = 2; step <= THREADS; step = 2 * step) {
                if (in_last >= step) {
                    power = step;
                }
            }
            for (step = 2; step <= power; step = 2 * step) {
                if ((lane + 1) % step == 0 && lane < power) {
                    part[lane] = part[lane] + part[lane - step / 2];
                    part_squares[lane] = part_squares[lane] + part_squares[lane - step / 2];
                }
                __syncthreads();
            }
            if (lane == (power - 1)) {
                for (step = (block * THREADS) + power; step < (block * THREADS) + in_last; step++) {
                    part[lane] = part[lane] + sums[step];
                    part_squares[lane] = part_squares[lane] + squares[step];
                }
                sums[block * stride * THREADS] = part[lane];
                squares[block * stride * THREADS] = part_squares[lane];
            }
        }
    }
}
