// Homomorphic encryption: forward number-theoretic transforms of 1024 coefficients, each modulo the prime
// of its limb, in shared memory. The roots lie in the order in which the stages use them, and beside each
// root w is the quotient of w times 2^32 by the prime.
extern "C" __global__ void ring_ntt(const unsigned int *coefficients, const unsigned int *roots,
                                    const unsigned int *root_quotients, const unsigned int *primes,
                                    unsigned int *transformed, int limbs)
{
    const int n = 1024;
    __shared__ unsigned int a[n];
    int limb = blockIdx.x % limbs;
    unsigned int q = primes[limb];
    const unsigned int *root = roots + limb * n;
    const unsigned int *quotient = root_quotients + limb * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        a[i] = coefficients[blockIdx.x * n + i];
    __syncthreads();
    for (int groups = 1, shift = 9; shift >= 0; groups *= 2, shift--) {
        int half = 1 << shift;
        for (int b = threadIdx.x; b < n / 2; b += blockDim.x) {
            int group = b >> shift;
            int at = b + (group << shift);
            unsigned int w = root[groups + group];
            unsigned int u = a[at], x = a[at + half];
            unsigned int v = x * w - __umulhi(x, quotient[groups + group]) * q;
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
