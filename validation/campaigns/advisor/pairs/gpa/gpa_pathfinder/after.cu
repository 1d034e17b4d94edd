// Dynamic programming on a grid: the cheapest way to each cell through some rows, a strip of columns per block
// with a margin at both sides that becomes worthless row by row.
#define WIDTH 256
#define MARGIN 1

#define WITHIN(x, low, high) ((x) >= (low) && (x) <= (high))
#define SMALLER(a, b) ((a) <= (b) ? (a) : (b))

extern "C" __global__ void cheapest_paths(int steps, int *costs, int *source, int *target, int columns, int rows,
                                          int first_row, int border)
{
    __shared__ int before[WIDTH];

    int block = blockIdx.x;
    int lane = threadIdx.x;

    int useful = WIDTH - steps * MARGIN * 2;
    int left_end = useful * block - border;
    int right_end = left_end + WIDTH - 1;
    int column = left_end + lane;

    // Columns of the strip that lie on the grid.
    int lowest = (left_end < 0) ? -left_end : 0;
    int highest = (right_end > columns - 1) ? WIDTH - 1 - (right_end - columns + 1) : WIDTH - 1;

    int west = lane - 1;
    int east = lane + 1;
    west = (west < lowest) ? lowest : west;
    east = (east > highest) ? highest : east;

    bool on_grid = WITHIN(lane, lowest, highest);

    if (WITHIN(column, 0, columns - 1)) {
        before[lane] = source[column];
    }
    int least = 0;
    int cost = 0;
    __syncthreads();
    bool done;
    for (int step = 0; step < steps; step++) {
        done = false;
        if (WITHIN(lane, step + 1, WIDTH - step - 2) && on_grid) {
            int cell = columns * (first_row + step) + column;
            int *address = costs + cell;
            cost = *address;
            done = true;
            int from_west = before[west];
            int from_above = before[lane];
            int from_east = before[east];
            least = SMALLER(from_west, from_above);
            least = SMALLER(least, from_east);
        }
        __syncthreads();
        if (step == steps - 1)
            break;
        if (done) {
            before[lane] = least + cost;
        }
        __syncthreads();
    }

    if (done) {
        target[column] = least + cost;
    }
}
