// Paged KV cache: collects the keys of every sequence from its pages into one dense array,
// out[sequence][head][token][dim]. One block for each (head, sequence).
#define HEAD_DIM 64
#define PAGE_TOKENS 16

extern "C" __global__ void kv_gather(const float *__restrict__ cache, const int *__restrict__ page_table,
                                     float *__restrict__ out, int heads, int tokens)
{
    const int head = blockIdx.x;
    const int sequence = blockIdx.y;
    const int pages = (tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
    const int *table = page_table + sequence * pages;
    float *dense = out + (size_t)(sequence * heads + head) * tokens * HEAD_DIM;

    // a warp takes a token, its lanes follow each other along the key
    const int lane = threadIdx.x % 32;
    for (int token = threadIdx.x / 32; token < tokens; token += blockDim.x / 32) {
        const int page = table[token / PAGE_TOKENS];
        const float *key = cache + ((size_t)(page * heads + head) * PAGE_TOKENS + token % PAGE_TOKENS) * HEAD_DIM;
        for (int d = lane; d < HEAD_DIM; d += 32)
            dense[token * HEAD_DIM + d] = key[d];
    }
}
