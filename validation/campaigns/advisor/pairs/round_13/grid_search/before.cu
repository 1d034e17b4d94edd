// Cross sections of neutrons by their energies: the place of each energy in a sorted grid is found by
// bisection, and two reactions are interpolated there. `points` is a power of two. PER_THREAD energies for
// each thread.
#define PER_THREAD 4

extern "C" __global__ void grid_search(const float *__restrict__ grid, const float *__restrict__ elastic,
                                       const float *__restrict__ capture, const float *__restrict__ energies,
                                       float *__restrict__ total, int points, int particles)
{
    const int stride = gridDim.x * blockDim.x;
    const int first = blockIdx.x * blockDim.x + threadIdx.x;

    for (int turn = 0; turn < PER_THREAD; turn++) {
        const int particle = first + turn * stride;
        if (particle >= particles)
            return;
        const float energy = energies[particle];

        int low = 0;
        for (int step = points >> 1; step > 0; step >>= 1)
            if (grid[low + step] <= energy)
                low += step;
        low = min(low, points - 2);

        const float left = grid[low];
        const float part = (energy - left) / (grid[low + 1] - left);
        const float e = elastic[low] + part * (elastic[low + 1] - elastic[low]);
        const float c = capture[low] + part * (capture[low + 1] - capture[low]);
        total[particle] = e + c;
    }
}
