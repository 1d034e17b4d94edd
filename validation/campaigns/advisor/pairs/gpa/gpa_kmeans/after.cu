// k-means: the nearest of a few centres for every point. Features lie dimension by dimension; the centres are in
// constant memory, which holds up to 32 centres of 34 features. The read-only loads stand for a texture.
#define MOST_CENTRES 32
#define FEATURES 34

__constant__ float centres[MOST_CENTRES * FEATURES];

extern "C" __global__ void kmeansPoint(const float *__restrict__ features, int dimensions, int points, int clusters,
                                       int *membership)
{
    const unsigned int block = gridDim.x * blockIdx.y + blockIdx.x;
    const unsigned int point = block * blockDim.x * blockDim.y + threadIdx.x;
    int nearest = -1;

    if (point < points) {
        float least = 3.402823466e+38F;
        for (int c = 0; c < clusters; c++) {
            int first = c * dimensions;
            float sum = 0.0;
#pragma unroll 8
            for (int d = 0; d < dimensions; d++) {
                int place = point + d * points;
                float apart = features[place] - centres[first + d];
                sum += apart * apart;
            }
            if (sum < least) {
                least = sum;
                nearest = c;
            }
        }
    }

    if (point < points)
        membership[point] = nearest;
}
