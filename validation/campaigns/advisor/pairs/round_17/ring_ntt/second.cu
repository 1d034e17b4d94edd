// Homomorphic encryption: forward number-theoretic transforms of 1024 coefficients, each modulo the prime
// of its limb, in shared memory. The roots lie in the order in which the stages use them.
extern "C" __global__ void ring_ntt(const unsigned int *coefficients, const unsigned int *roots,
                                    const unsigned int *primes, unsigned int *transformed, int limbs)
{
    const int n = 1024;
    __shared__ unsigned int a[n];
    int limb = blockIdx.x % limbs;
    unsigned int q = primes[limb];
    // Barrett reduction: q has bits bits (at most 30), reciprocal is 4^bits / q.
    int bits = 32 - __clz(q);
    unsigned int reciprocal = (unsigned int)((1ull << 2 * bits) / q);
    const unsigned int *root = roots + limb * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        a[i] = coefficients[blockIdx.x * n + i];
    __syncthreads();
    for (int groups = 1, half = n / 2, shift = 9; half > 0; groups *= 2, half /= 2, shift--) {
        for (int b = threadIdx.x; b < n / 2; b += blockDim.x) {
            int group = b >> shift;
            int at = b + (group << shift);
            unsigned int w = root[groups + group];
            unsigned int u = a[at];
            unsigned long long product = (unsigned long long)a[at + half] * w;
            unsigned int top = (unsigned int)(product >> (bits - 1));
            unsigned int quotient = (unsigned int)((unsigned long long)top * reciprocal >> (bits + 1));
            unsigned int v = (unsigned int)product - quotient * q; // less than 3 q
            v = min(v, v - q);
            v = min(v, v - q);
            unsigned int sum = u + v, difference = u - v;
            a[at] = min(sum, sum - q);
            a[at + half] = min(difference, difference + q);
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        transformed[blockIdx.x * n + i] = a[i];
}
