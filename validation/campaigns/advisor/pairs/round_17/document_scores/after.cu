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

__device__ void flush(float *score, int doc, float sum, int lane)
{
    for (int offset = 16; offset > 0; offset >>= 1)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (lane == 0)
        atomicAdd(&score[doc], sum);
}

extern "C" __global__ void document_scores(const int *token, const int *document, const float *weight,
                                           const float *pair_weight, float *score, int tokens, int slots)
{
    // Each warp walks through a contiguous stretch and keeps the sum of the open document in its lanes.
    int lane = threadIdx.x & 31;
    int warps = gridDim.x * (blockDim.x >> 5);
    int warp = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    int stretch = ((tokens + warps - 1) / warps + 31) / 32 * 32;
    int first = warp * stretch, last = min(first + stretch, tokens);
    if (first >= last)
        return;
    int open = document[first];
    float sum = 0.0f;
    for (int at = first; at < last; at += 32) {
        int i = at + lane;
        int doc = document[min(i, last - 1)];
        float odds = 0.0f;
        if (i < last) {
            odds = weight[token[i]];
            if (i + 1 < tokens && document[i + 1] == doc)
                odds += pair_weight[pair_slot(token[i], token[i + 1], slots)];
        }
        if (__all_sync(0xffffffffu, doc == open)) {
            sum += odds;
        } else {
            flush(score, open, doc == open ? sum + odds : sum, lane);
            int newest = __shfl_sync(0xffffffffu, doc, 31);
            if (doc != open && doc != newest)
                atomicAdd(&score[doc], odds);
            sum = doc == newest ? odds : 0.0f;
            open = newest;
        }
    }
    flush(score, open, sum, lane);
}
