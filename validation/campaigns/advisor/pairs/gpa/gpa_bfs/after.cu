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
        int degree = vertices[v].degree;
        int first = vertices[v].first;
        int rest = degree - degree / 4 * 4;
        int own = cost[v];
        for (int e = first; e < (rest + first); e += 1) {
            int to = neighbours[e];
            if (!reached[to]) {
                cost[to] = own + 1;
                next[to] = true;
            }
        }
        for (int e = first + rest; e < (degree + first); e += 4) {
            int a = neighbours[e];
            int b = neighbours[e + 1];
            int c = neighbours[e + 2];
            int d = neighbours[e + 3];
            if (!reached[a]) {
                cost[a] = own + 1;
                next[a] = true;
            }
            if (!reached[b]) {
                cost[b] = own + 1;
                next[b] = true;
            }
            if (!reached[c]) {
                cost[c] = own + 1;
                next[c] = true;
            }
            if (!reached[d]) {
                cost[d] = own + 1;
                next[d] = true;
            }
        }
    }
}
