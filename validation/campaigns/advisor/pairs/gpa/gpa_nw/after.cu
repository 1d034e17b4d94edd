// Needleman-Wunsch alignment: one anti-diagonal of 16 x 16 tiles of the score matrix, a tile per block, a column
// of it per thread.
#define TILE 16

__device__ int largest(int first, int second, int third)
{
    int best;
    if (first <= second)
        best = second;
    else
        best = first;
    if (best <= third)
        return third;
    else
        return best;
}

extern "C" __global__ void align_tiles(int *similarity, int *scores, int width, int gap, int diagonal, int tiles)
{
    int block = blockIdx.x;
    int lane = threadIdx.x;

    int tile_x = block;
    int tile_y = diagonal - 1 - block;

    int inside = width * TILE * tile_y + TILE * tile_x + lane + (width + 1);
    int north = width * TILE * tile_y + TILE * tile_x + lane + (1);
    int west = width * TILE * tile_y + TILE * tile_x + (width);
    int corner = width * TILE * tile_y + TILE * tile_x;

    __shared__ int score[TILE + 1][TILE + 1];
    __shared__ int like[TILE][TILE];

    int from_corner;

    if (lane == 0)
        from_corner = scores[corner];

    int from_west = scores[west + width * lane];

    int from_north = scores[north];

    for (int row = 0; row < TILE; row++)
        like[row][lane] = similarity[inside + width * row];

    score[lane + 1][0] = from_west;

    score[0][lane + 1] = from_north;

    if (lane == 0) {
        score[0][0] = from_corner;
    }

    __syncthreads();

    // Anti-diagonals of the tile that grow, then those that shrink.
    for (int step = 0; step < TILE; step++) {
        if (lane <= step) {
            int x = lane + 1;
            int y = step - lane + 1;
            score[y][x] = largest(score[y - 1][x - 1] + like[y - 1][x - 1], score[y][x - 1] - gap,
                                  score[y - 1][x] - gap);
        }
        __syncthreads();
    }

    for (int step = TILE - 2; step >= 0; step--) {
        if (lane <= step) {
            int x = lane + TILE - step;
            int y = TILE - lane;
            score[y][x] = largest(score[y - 1][x - 1] + like[y - 1][x - 1], score[y][x - 1] - gap,
                                  score[y - 1][x] - gap);
        }
        __syncthreads();
    }

    for (int row = 0; row < TILE; row++)
        scores[inside + row * width] = score[row + 1][lane + 1];
}
