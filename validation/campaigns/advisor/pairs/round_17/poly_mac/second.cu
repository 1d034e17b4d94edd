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
    // Four independent Horner chains in r^4, of every fourth word each, and put together at the end. The
    // leading 1 stands before word 0, where the fourth chain's words would be.
    u64 r2 = times(r, r), r3 = times(r2, r), r4 = times(r2, r2);
    u64 h0 = 0, h1 = 0, h2 = 0, h3 = 1;
    int w = 0;
    for (; w + 4 <= length; w += 4) {
        const unsigned int *at = words + (size_t)w * messages + message;
        h0 = times(h0, r4) + at[0];
        h1 = times(h1, r4) + at[messages];
        h2 = times(h2, r4) + at[2 * (size_t)messages];
        h3 = times(h3, r4) + at[3 * (size_t)messages];
    }
    u64 hash = times(h0, r3) + times(h1, r2) + times(h2, r) + h3;
    for (; w < length; w++)
        hash = times(hash, r) + words[(size_t)w * messages + message];
    hash = times(hash, r);
    if (hash >= prime)
        hash -= prime;
    tag[message] = hash + mask[message];
}
