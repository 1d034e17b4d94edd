// Thermal simulation of a chip: explicit steps of the heat equation with a power source. A block holds a tile
// with a border in shared memory and takes several steps, in which the valid part shrinks by one cell a side.
#define TILE 16
#define WITHIN(x, first, last) ((x) >= (first) && (x) <= (last))

extern "C" __global__ void heat_steps(int steps, float *power, float *heat, float *heated, int columns, int rows,
                                      int border_columns, int border_rows, float capacity, float across_x,
                                      float across_y, float across_z, float step, float elapsed)
{
    __shared__ float now[TILE][TILE];
    __shared__ float source[TILE][TILE];
    __shared__ float later[TILE][TILE];

    float ambient = 80.0;
    float scale;
    float inverse_x, inverse_y, inverse_z;
    int bx = blockIdx.x;
    int by = blockIdx.y;
    int tx = threadIdx.x;
    int ty = threadIdx.y;
    scale = step / capacity;
    inverse_x = 1 / across_x;
    inverse_y = 1 / across_y;
    inverse_z = 1 / across_z;

    int inner_rows = TILE - steps * 2;
    int inner_columns = TILE - steps * 2;
    int top = inner_rows * by - border_rows;
    int left = inner_columns * bx - border_columns;
    int bottom = top + TILE - 1;
    int right = left + TILE - 1;
    int y = top + ty;
    int x = left + tx;
    int cell = columns * y + x;
    if (WITHIN(y, 0, rows - 1) && WITHIN(x, 0, columns - 1)) {
        now[ty][tx] = heat[cell];
        source[ty][tx] = power[cell];
    }
    __syncthreads();

    int first_y = (top < 0) ? -top : 0;
    int last_y = (bottom > rows - 1) ? TILE - 1 - (bottom - rows + 1) : TILE - 1;
    int first_x = (left < 0) ? -left : 0;
    int last_x = (right > columns - 1) ? TILE - 1 - (right - columns + 1) : TILE - 1;
    int north = ty - 1;
    int south = ty + 1;
    int west = tx - 1;
    int east = tx + 1;
    north = (north < first_y) ? first_y : north;
    south = (south > last_y) ? last_y : south;
    west = (west < first_x) ? first_x : west;
    east = (east > last_x) ? last_x : east;

    bool valid;
    for (int i = 0; i < steps; i++) {
        valid = false;
        if (WITHIN(tx, i + 1, TILE - i - 2) && WITHIN(ty, i + 1, TILE - i - 2) && WITHIN(tx, first_x, last_x) &&
            WITHIN(ty, first_y, last_y)) {
            valid = true;
            later[ty][tx] = now[ty][tx] +
                            scale * (source[ty][tx] +
                                     (now[south][tx] + now[north][tx] - 2.0 * now[ty][tx]) * inverse_y +
                                     (now[ty][east] + now[ty][west] - 2.0 * now[ty][tx]) * inverse_x +
                                     (ambient - now[ty][tx]) * inverse_z);
        }
        __syncthreads();
        if (i == steps - 1)
            break;
        if (valid)
            now[ty][tx] = later[ty][tx];
        __syncthreads();
    }
    if (valid) {
        heated[cell] = later[ty][tx];
    }
}
