// Clustering of a stream: what would be saved by each point if point `candidate` became a centre, or what it would
// cost its own centre to be closed.

struct Point {
    float weight;
    float *coordinates;
    long centre;
    float cost;
};

__device__ float distance(int one, int other, int points, int dimensions, float *coordinates)
{
    float sum = 0.0;
    for (int d = 0; d < dimensions; d++) {
        float difference = coordinates[(d * points) + one] - coordinates[(d * points) + other];
        sum += difference * difference;
    }
    return sum;
}

extern "C" __global__ void opening_cost(int points, int dimensions, long candidate, Point *point, int centres,
                                        int stride, float *coordinates, float *work, int *centre_number, bool *moves)
{
    const int block = blockIdx.x + gridDim.x * blockIdx.y;
    const int i = blockDim.x * block + threadIdx.x;

    if (i < points) {
        float *saved = &work[i * stride];

        float cost = distance(i, candidate, points, dimensions, coordinates) * point[i].weight;

        if (cost < point[i].cost) {
            moves[i] = 1;
            saved[centres] += cost - point[i].cost;
        }
        else {
            saved[centre_number[point[i].centre]] += point[i].cost - cost;
        }
    }
}
