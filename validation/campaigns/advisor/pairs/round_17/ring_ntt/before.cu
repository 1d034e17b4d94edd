// Homomorphic encryption: forward number-theoretic transforms of 1024 coefficients, each modulo the prime
// of its limb, in shared memory. The roots lie in the order in which the stages use them.
extern "C" __global__ void ring_ntt(const unsigned int *coefficients, const unsigned int *roots,
                                    const unsigned int *primes, unsigned int *transformed, int limbs)
{
    const int n = 1024;
    __shared__ unsigned int a[n];
    int limb = blockIdx.x % limbs;
    unsigned int q = primes[limb];
    const unsigned int *root = roots + limb * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        a[i] = coefficients[blockIdx.x * n + i];
    __syncthreads();
    for (int groups = 1, half = n / 2; half > 0; groups *= 2, half /= 2) {
        for (int b = threadIdx.x; b < n / 2; b += blockDim.x) {
            int group = b / half;
            int at = b + group * half;
            unsigned int w = root[groups + group];
            unsigned int u = a[at];
            unsigned int v = (unsigned long long)a[at + half] * w % q;
            a[at] = (u + v) % q;
            a[at + half] = (u + q - v) % q;
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        transformed[blockIdx.x * n + i] = a[i];
}
