// Breadth-first search, one level from the top down: the unvisited neighbours of the frontier get the next level.
// The graph is in compressed rows, its degrees are far from equal.
extern "C" __global__ void bfs_level(const int *__restrict__ row_start, const int *__restrict__ neighbours,
                                     int *levels, int vertices, int current, int *any_found)
{
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices || levels[v] != current)
        return;

    bool found = false;
    const int end = row_start[v + 1];
    for (int e = row_start[v]; e < end; e++) {
        const int to = neighbours[e];
        if (levels[to] < 0) {
            levels[to] = current + 1;
            found = true;
        }
    }
    if (found)
        *any_found = 1;
}
