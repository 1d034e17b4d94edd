// Cross sections of neutrons by their energies: the place of each energy in a sorted grid is found by
// bisection, and two reactions are interpolated there. `points` is a power of two. PER_THREAD energies for
// each thread, which are searched together.
#define PER_THREAD 4

extern "C" __global__ void grid_search(const float *__restrict__ grid, const float *__restrict__ elastic,
                                       const float *__restrict__ capture, const float *__restrict__ energies,
                                       float *__restrict__ total, int points, int particles)
{
    const int stride = gridDim.x * blockDim.x;
    const int first = blockIdx.x * blockDim.x + threadIdx.x;

    float energy[PER_THREAD];
    int low[PER_THREAD];
#pragma unroll
    for (int turn = 0; turn < PER_THREAD; turn++) {
        energy[turn] = energies[min(first + turn * stride, particles - 1)];
        low[turn] = 0;
    }

    for (int step = points >> 1; step > 0; step >>= 1) {
        float middle[PER_THREAD];
#pragma unroll
        for (int turn = 0; turn < PER_THREAD; turn++)
            middle[turn] = grid[low[turn] + step];
#pragma unroll
        for (int turn = 0; turn < PER_THREAD; turn++)
            if (middle[turn] <= energy[turn])
                low[turn] += step;
    }

#pragma unroll
    for (int turn = 0; turn < PER_THREAD; turn++) {
        const int at = min(low[turn], points - 2);
        const float left = grid[at];
        const float part = (energy[turn] - left) / (grid[at + 1] - left);
        const float e = elastic[at] + part * (elastic[at + 1] - elastic[at]);
        const float c = capture[at] + part * (capture[at + 1] - capture[at]);
        if (first + turn * stride < particles)
            total[first + turn * stride] = e + c;
    }
}
