// MinHash of DNA reads: rolls a 16-mer over each read (2 bits a base, 16 bases
// in a word) and keeps the smallest slot that any k-mer hashes to.
__device__ unsigned long long mix(unsigned long long h)
{
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdULL;
    h ^= h >> 33;
    return h;
}

extern "C" __global__ void minhash_sketch(const unsigned int *reads,
                                          unsigned int *sketch,
                                          int n_reads,
                                          int words,
                                          unsigned long long slots)
{
    // slots is a power of two
    int read = blockIdx.x * blockDim.x + threadIdx.x;
    if (read >= n_reads)
        return;
    unsigned long long mask = slots - 1;
    unsigned long long best = ~0ULL;
    unsigned long long kmer = reads[read];
    for (int w = 1; w < words; ++w) {
        unsigned int next = reads[w * n_reads + read];
        for (int b = 0; b < 16; ++b) {
            kmer = ((kmer << 2) | (next >> 30)) & 0xffffffffULL;
            next <<= 2;
            unsigned long long slot = mix(kmer) & mask;
            if (slot < best)
                best = slot;
        }
    }
    sketch[read] = (unsigned int)best;
}
