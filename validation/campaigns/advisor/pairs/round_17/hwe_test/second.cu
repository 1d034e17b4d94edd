// Population genetics: chi-square statistic of Hardy-Weinberg equilibrium for every variant of a study,
// from genotypes packed in two bits (0 first homozygote, 1 missing, 2 heterozygote, 3 second homozygote).
extern "C" __global__ void hwe_test(const unsigned int *genotypes, float *chi_square,
                                    float *allele_frequency, int variants, int samples)
{
    int words = (samples + 15) / 16;
    // A warp brings 32 words of each of its 32 variants through shared memory, where row by row the lanes load
    // neighbouring words, and then each lane counts in the row of its own variant.
    __shared__ unsigned int tiles[4][32][33];
    int variant = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x & 31;
    int first_variant = variant - lane;
    unsigned int(*tile)[33] = tiles[threadIdx.x >> 5];
    int missing = 0, hets = 0, homs = 0;
    int last = variants - 1 - first_variant; // rows past the end repeat the last one
    if (last < 0)
        return;
    for (int w0 = 0; w0 < words; w0 += 32) {
        bool inside = w0 + lane < words;
        const unsigned int *from = genotypes + (size_t)first_variant * words + (inside ? w0 + lane : 0);
        unsigned int loaded[32];
#pragma unroll
        for (int v = 0; v < 32; v++)
            loaded[v] = from[min(v, last) * words];
#pragma unroll
        for (int v = 0; v < 32; v++)
            tile[v][lane] = inside ? loaded[v] : 0u;
        __syncwarp();
#pragma unroll
        for (int w = 0; w < 32; w++) {
            unsigned int packed = tile[lane][w];
            unsigned int low = packed & 0x55555555u;
            unsigned int high = (packed >> 1) & 0x55555555u;
            missing += __popc(low & ~high);
            hets += __popc(high & ~low);
            homs += __popc(low & high);
        }
        __syncwarp();
    }
    if (variant >= variants)
        return;
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
