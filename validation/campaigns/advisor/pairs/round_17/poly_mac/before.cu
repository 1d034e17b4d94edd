// Authentication: polynomial message authentication codes modulo the prime 2^61 - 1 for many messages of
// equal length, whose words lie interleaved (word w of all messages, then word w + 1).
typedef unsigned long long u64;

__device__ u64 times(u64 a, u64 b)
{
    const u64 prime = (1ull << 61) - 1;
    u64 low = a * b, high = __umul64hi(a, b);
    u64 sum = (low & prime) + (low >> 61 | high << 3);
    return (sum & prime) + (sum >> 61);
}

extern "C" __global__ void poly_mac(const unsigned int *words, const unsigned int *mask, u64 *tag, u64 key,
                                    int messages, int length)
{
    const u64 prime = (1ull << 61) - 1;
    int message = blockIdx.x * blockDim.x + threadIdx.x;
    if (message >= messages)
        return;
    u64 r = key & (prime >> 1);
    u64 hash = 1;
    for (int w = 0; w < length; w++)
        hash = times(hash, r) + words[(size_t)w * messages + message];
    hash = times(hash, r);
    if (hash >= prime)
        hash -= prime;
    tag[message] = hash + mask[message];
}
