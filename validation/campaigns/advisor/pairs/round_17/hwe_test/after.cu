// Population genetics: chi-square statistic of Hardy-Weinberg equilibrium for every variant of a study,
// from genotypes packed in two bits (0 first homozygote, 1 missing, 2 heterozygote, 3 second homozygote).
extern "C" __global__ void hwe_test(const unsigned int *genotypes, float *chi_square,
                                    float *allele_frequency, int variants, int samples)
{
    int words = (samples + 15) / 16;
    int lane = threadIdx.x & 31;
    int warps = gridDim.x * (blockDim.x >> 5), first = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    // A warp reads one variant's row together, a word a lane.
    for (int variant = first; variant < variants; variant += warps) {
        const unsigned int *row = genotypes + (size_t)variant * words;
        int missing = 0, hets = 0, homs = 0;
        for (int w = lane; w < words; w += 32) {
            unsigned int packed = row[w];
            unsigned int low = packed & 0x55555555u;
            unsigned int high = (packed >> 1) & 0x55555555u;
            missing += __popc(low & ~high);
            hets += __popc(high & ~low);
            homs += __popc(low & high);
        }
        missing = __reduce_add_sync(0xffffffffu, missing);
        hets = __reduce_add_sync(0xffffffffu, hets);
        homs = __reduce_add_sync(0xffffffffu, homs);
        if (lane == 0) {
            float called = (float)(samples - missing);
            float het = (float)hets, second = (float)homs;
            float first = called - het - second;
            float p = called > 0.0f ? (first + 0.5f * het) / called : 0.0f;
            float q = 1.0f - p;
            float expect_first = p * p * called;
            float expect_het = 2.0f * p * q * called;
            float expect_second = q * q * called;
            float chi = 0.0f;
            if (expect_first > 0.0f && expect_second > 0.0f) {
                chi += (first - expect_first) * (first - expect_first) / expect_first;
                chi += (het - expect_het) * (het - expect_het) / expect_het;
                chi += (second - expect_second) * (second - expect_second) / expect_second;
            }
            chi_square[variant] = chi;
            allele_frequency[variant] = p;
        }
    }
}
