// Shamir secret sharing over the field of 2^31 - 1: every thread splits one
// secret word into shares by evaluating its random polynomial.
typedef unsigned int word;
typedef unsigned long long dword;

#define FIELD 2147483647u
#define DEGREE 4

// 2^31 is 1 in the field, so the bits from 31 on are just added to the others.
// With a, b, x below FIELD the sum of both parts is below 2 * FIELD.
__device__ word mul_add(word a, word x, word b)
{
    dword v = (dword)a * x + b;
    word r = ((word)v & FIELD) + (word)(v >> 31);
    return r >= FIELD ? r - FIELD : r;
}

extern "C" __global__ void shamir_shares(const word *__restrict__ secret,
                                         const word *__restrict__ random,
                                         word *__restrict__ share,
                                         int secrets, int holders)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= secrets)
        return;

    word coefficient[DEGREE + 1];
    coefficient[0] = secret[i];
#pragma unroll
    for (int d = 1; d <= DEGREE; ++d)
        coefficient[d] = random[(d - 1) * secrets + i];

    for (int h = 0; h < holders; ++h) {
        word x = 1000003u * (h + 1) % FIELD;
        word y = coefficient[DEGREE];
#pragma unroll
        for (int d = DEGREE - 1; d >= 0; --d)
            y = mul_add(y, x, coefficient[d]);
        share[h * secrets + i] = y;
    }
}
