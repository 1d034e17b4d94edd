// Neural network, forward pass from the input layer: every weight is multiplied by its input unit, and the
// products of a tile of SIDE inputs are added up for each hidden unit. One block has one tile.
#define SIDE 16

extern "C" __global__ void layer_forward(float *units, float *hidden, float *weights, float *partial, int inputs,
                                         int hiddens)
{
    int tile = blockIdx.y;
    int column = threadIdx.x;
    int row = threadIdx.y;
    int at = (hiddens + 1) * SIDE * tile + (hiddens + 1) * row + column + 1 + (hiddens + 1);
    int unit = SIDE * tile + row + 1;
    __shared__ float product[SIDE][SIDE];

    product[row][column] = weights[at] * units[unit];
    __syncthreads();

    for (int level = 1; level <= __log2f(SIDE); level++) {
        int span = __powf(2, level);
        if (row % span == 0)
            product[row][column] = product[row][column] + product[row + span / 2][column];
        __syncthreads();
    }

    weights[at] = product[row][column];
    if (column == 0) {
        partial[tile * hiddens + row] = product[column][row];
    }
}
