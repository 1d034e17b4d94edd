// Spam filter: log-odds of every document, the sum of its tokens' weights and of the weights of its pairs
// of adjacent tokens, which are hashed. The token stream is in order of documents.
__device__ unsigned int pair_slot(unsigned int a, unsigned int b, int slots)
{
    unsigned int h = a * 0x9e3779b1u ^ (b + 0x7f4a7c15u) * 0x85ebca6bu;
    h ^= h >> 15;
    h *= 0xc2b2ae35u;
    h ^= h >> 13;
    return h & (unsigned int)(slots - 1);
}

extern "C" __global__ void document_scores(const int *token, const int *document, const float *weight,
                                           const float *pair_weight, float *score, int tokens, int slots)
{
    const unsigned int all = 0xffffffffu;
    int stride = gridDim.x * blockDim.x;
    int lane = threadIdx.x & 31;
    // All lanes of a warp stay in the loop together; lanes past the end carry document -1.
    for (int base = blockIdx.x * blockDim.x + threadIdx.x - lane; base < tokens; base += stride) {
        int i = base + lane;
        int doc = -1;
        float odds = 0.0f;
        if (i < tokens) {
            doc = document[i];
            odds = weight[token[i]];
            if (i + 1 < tokens && document[i + 1] == doc)
                odds += pair_weight[pair_slot(token[i], token[i + 1], slots)];
        }
        // The tokens of a document are neighbours: sum over each run of equal documents, the first lane of
        // a run adds for it.
        int before = __shfl_up_sync(all, doc, 1);
        bool first = lane == 0 || before != doc;
        unsigned int heads = __ballot_sync(all, first);
        unsigned int later = lane == 31 ? 0u : heads & (all << (lane + 1));
        int last = later ? __ffs(later) - 2 : 31;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            float other = __shfl_down_sync(all, odds, step);
            if (lane + step <= last)
                odds += other;
        }
        if (first && doc >= 0)
            atomicAdd(&score[doc], odds);
    }
}
