// Breadth-first search, one level: every node of the frontier writes the cost of its neighbours that no
// earlier level has reached, and marks them for the next frontier. One thread has one node.
#define BLOCK 512

struct Vertex {
    int first;
    int degree;
};

extern "C" __global__ void bfs_level(Vertex *vertices, int *neighbours, bool *frontier, bool *next, bool *reached,
                                     int *cost, int count)
{
    int v = blockIdx.x * BLOCK + threadIdx.x;
    if (v < count && frontier[v]) {
        frontier[v] = false;
        for (int e = vertices[v].first; e < (vertices[v].degree + vertices[v].first); e++) {
            int to = neighbours[e];
            if (!reached[to]) {
                cost[to] = cost[v] + 1;
                next[to] = true;
            }
        }
    }
}
