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
    u64 r2 = times(r, r), r3 = times(r2, r), r4 = times(r2, r2);
    // Four interleaved polynomials in r^4 do not wait for one another. The odd words at the front go first.
    const unsigned int *word = words + message;
    int w = 0;
    u64 hash = 1;
    for (; w < (length & 3); w++)
        hash = times(hash, r) + word[(size_t)w * messages];
    u64 h0 = 0, h1 = 0, h2 = 0, h3 = hash;
    for (; w < length; w += 4) {
        const unsigned int *four = word + (size_t)w * messages;
        h0 = times(h0, r4) + four[0];
        h1 = times(h1, r4) + four[messages];
        h2 = times(h2, r4) + four[2 * messages];
        h3 = times(h3, r4) + four[3 * messages];
    }
    hash = times(times(h0, r3) + times(h1, r2) + times(h2, r) + h3, r);
    if (hash >= prime)
        hash -= prime;
    tag[message] = hash + mask[message];
}
