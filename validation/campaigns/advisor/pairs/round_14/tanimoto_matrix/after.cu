// Cheminformatics: Tanimoto similarity of each query with each molecule of a library, fingerprints of 512 bits.
#define WORDS 16
#define TILE 16

extern "C" __global__ void tanimoto_matrix(const unsigned int *queries, const unsigned int *library,
                                           float *similarity, int molecules)
{
    __shared__ unsigned int query_bits[TILE][WORDS + 1];
    __shared__ unsigned int library_bits[TILE][WORDS + 1];
    int molecule = blockIdx.x * TILE + threadIdx.x;
    int query = blockIdx.y * TILE + threadIdx.y;
    query_bits[threadIdx.y][threadIdx.x] = queries[query * WORDS + threadIdx.x];
    library_bits[threadIdx.y][threadIdx.x] = library[(blockIdx.x * TILE + threadIdx.y) * WORDS + threadIdx.x];
    __syncthreads();
    int both = 0, either = 0;
    for (int w = 0; w < WORDS; w++) {
        unsigned int x = query_bits[threadIdx.y][w];
        unsigned int y = library_bits[threadIdx.x][w];
        both += __popc(x & y);
        either += __popc(x | y);
    }
    similarity[query * molecules + molecule] = either ? (float)both / (float)either : 0.0f;
}
