// Breadth-first search, one level from the top down: the unvisited neighbours of the frontier get the next level.
// The graph is in compressed rows, its degrees are far from equal: all lanes of a warp go through the edges of one
// vertex of the frontier, then through those of the next.
extern "C" __global__ void bfs_level(const int *__restrict__ row_start, const int *__restrict__ neighbours,
                                     int *levels, int vertices, int current, int *any_found)
{
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    const int lane = threadIdx.x % 32;
    int begin = 0, end = 0;
    if (v < vertices && levels[v] == current) {
        begin = row_start[v];
        end = row_start[v + 1];
    }

    bool found = false;
    unsigned waiting = __ballot_sync(0xffffffffu, end > begin);
    while (waiting) {
        const int owner = __ffs(waiting) - 1;
        waiting &= waiting - 1;
        const int first = __shfl_sync(0xffffffffu, begin, owner);
        const int last = __shfl_sync(0xffffffffu, end, owner);
        for (int e = first + lane; e < last; e += 32) {
            const int to = neighbours[e];
            if (levels[to] < 0) {
                levels[to] = current + 1;
                found = true;
            }
        }
    }
    if (found)
        *any_found = 1;
}
