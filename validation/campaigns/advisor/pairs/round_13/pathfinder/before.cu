// Cheapest ways through a grid from the top row, going straight down or to a neighbour. Each block takes a
// strip of columns with a border that shrinks by a column on each side with every row.
#define STRIP 256

extern "C" __global__ void pathfinder(const int *__restrict__ wall, const int *__restrict__ costs,
                                      int *__restrict__ out, int columns, int steps)
{
    __shared__ int previous[STRIP];
    __shared__ int next[STRIP];

    const int t = threadIdx.x;
    const int inner = STRIP - 2 * steps;
    const int column = blockIdx.x * inner - steps + t;
    const bool inside = column >= 0 && column < columns;
    const int left = max(t - 1, max(0, t - column));
    const int right = min(t + 1, min(STRIP - 1, t - column + columns - 1));

    previous[t] = inside ? costs[column] : 0;
    next[t] = 0;
    __syncthreads();

    for (int step = 0; step < steps; step++) {
        if (inside && t > step && t < STRIP - 1 - step) {
            const int shortest = min(previous[t], min(previous[left], previous[right]));
            next[t] = shortest + wall[step * columns + column];
        }
        __syncthreads();
        previous[t] = next[t];
        __syncthreads();
    }

    if (inside && t >= steps && t < STRIP - steps)
        out[column] = previous[t];
}
