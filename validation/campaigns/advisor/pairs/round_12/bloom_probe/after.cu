// Database: keys of the probe side are tested against a Bloom filter before the join.
#define PROBES 4

__device__ unsigned int mix(unsigned int h)
{
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    h ^= h >> 16;
    return h;
}

extern "C" __global__ void bloom_probe(const unsigned int *keys, const unsigned int *filter, unsigned char *survives,
                                       int rows, unsigned int bit_mask)
{
    for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += gridDim.x * blockDim.x) {
        unsigned int key = keys[row];
        unsigned int first = mix(key);
        unsigned int step = mix(key ^ 0x9e3779b9u) | 1u;
        unsigned int words[PROBES];
#pragma unroll
        for (int p = 0; p < PROBES; p++)
            words[p] = filter[((first + p * step) & bit_mask) >> 5];
        unsigned int present = 1u;
#pragma unroll
        for (int p = 0; p < PROBES; p++)
            present &= words[p] >> ((first + p * step) & 31);
        survives[row] = present;
    }
}
