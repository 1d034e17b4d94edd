// Cheminformatics: Tanimoto similarity of each query with each molecule of a library, fingerprints of 512 bits.
#define WORDS 16
#define TILE 16

extern "C" __global__ void tanimoto_matrix(const unsigned int *queries, const unsigned int *library,
                                           float *similarity, int molecules)
{
    int molecule = blockIdx.x * TILE + threadIdx.x;
    int query = blockIdx.y * TILE + threadIdx.y;
    int both = 0, either = 0;
    for (int w = 0; w < WORDS; w++) {
        unsigned int x = queries[query * WORDS + w];
        unsigned int y = library[molecule * WORDS + w];
        both += __popc(x & y);
        either += __popc(x | y);
    }
    similarity[query * molecules + molecule] = either ? (float)both / (float)either : 0.0f;
}
