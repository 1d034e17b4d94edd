// Kernels whose time is arithmetic's, with the changes that a program can make (macros).

#ifdef K_fma_bound
KERNEL(fma_bound)
{
    float x[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = a[ME] + i;
    for (int r = 0; r < m; r++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                x[i] = x[i] * 0.999f + 0.5f;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++)
        sum += x[i];
    c[ME] = sum;
}
#endif

#ifdef K_horner
KERNEL(horner)
{
    // CHAINS independent polynomials at a time.
    float x[CHAINS], y[CHAINS], sum = 0;
#pragma unroll 1
    for (int r = 0; r < m; r += CHAINS) {
#pragma unroll
        for (int u = 0; u < CHAINS; u++) {
            x[u] = r + u;
            y[u] = 0;
        }
#pragma unroll
        for (int i = 0; i < 24; i++)
#pragma unroll
            for (int u = 0; u < CHAINS; u++)
                y[u] = y[u] * x[u] + 0.125f * i;
#pragma unroll
        for (int u = 0; u < CHAINS; u++)
            sum += y[u];
    }
    c[ME] = sum + a[ME];
}
#endif

#ifdef K_double_constant
#if defined(SINGLE)
#define TWO 2.0f
#define HALF 0.3f
#else
#define TWO 2.0
#define HALF 0.3
#endif
KERNEL(double_constant)
{
    float x = a[ME];
    for (int r = 0; r < m; r++)
        x = x * HALF + (b[r & 63] - TWO * x) * HALF;
    c[ME] = x;
}
#endif

#ifdef K_divide_runtime
KERNEL(divide_runtime)
{
    // Integer division by a number that only the launch knows; SHIFT: it is a power of two.
    int x = k[ME] & 0xffff, sum = 0;
    for (int r = 0; r < m; r++) {
#if defined(SHIFT)
        sum += (x + r) >> 5;
#else
        sum += (x + r) / n;
#endif
        x += sum & 3;
    }
    c[ME] = sum;
}
#endif

#ifdef K_exact_functions
#if defined(FAST)
#define SIN __sinf
#define EXP __expf
#define POW __powf
#else
#define SIN sinf
#define EXP expf
#define POW powf
#endif
KERNEL(exact_functions)
{
    float x = fabsf(a[ME]) + 0.5f;
    for (int r = 0; r < m; r++)
        x = POW(x, 0.7f) + EXP(-x) + 0.25f;
    c[ME] = x;
}
#endif

#ifdef K_exact_division
KERNEL(exact_division)
{
    float x = a[ME] + 2;
    for (int r = 0; r < m; r++)
#if defined(FAST)
        x = __fdividef(x + 1, x + 0.5f) + 1;
#else
        x = (x + 1) / (x + 0.5f) + 1;
#endif
    c[ME] = x;
}
#endif

#ifdef K_called_function
#if defined(INLINE)
__device__ __forceinline__
#else
__device__ __noinline__
#endif
float step(float x, float y)
{
    return x * 0.5f + y * 0.25f + 1;
}
KERNEL(called_function)
{
    float x = a[ME], y = b[ME];
    for (int r = 0; r < m; r++) {
        x = step(x, y);
        y = step(y, x);
    }
    c[ME] = x + y;
}
#endif

#ifdef K_divergent
KERNEL(divergent)
{
    // Odd and even threads do different things; GROUPED: odd and even warps do.
    float x = a[ME];
#if defined(GROUPED)
    int kind = threadIdx.x >> 5 & 1;
#else
    int kind = threadIdx.x & 1;
#endif
    for (int r = 0; r < m; r++) {
        if (kind) {
#pragma unroll
            for (int i = 0; i < 24; i++)
                x = x * 0.5f + i;
        } else {
#pragma unroll
            for (int i = 0; i < 24; i++)
                x = x * 0.75f - i;
        }
    }
    c[ME] = x;
}
#endif

#ifdef K_mandelbrot
KERNEL(mandelbrot)
{
    float x = 0, y = 0, cx = a[ME] * 2 - 1.5f, cy = b[ME] - 0.5f;
    int r = 0;
    while (r < m && x * x + y * y < 4) {
        float t = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = t;
        r++;
    }
    c[ME] = r;
}
#endif

#ifdef K_collatz
KERNEL(collatz)
{
    unsigned x = (k[ME] & 255) + 1, steps = 0;
    while (x != 1 && steps < m) {
        x = x & 1 ? 3 * x + 1 : x >> 1;
        steps++;
    }
    c[ME] = steps;
}
#endif

#ifdef K_bodies
KERNEL(bodies)
{
    __shared__ float px[256], py[256];
    px[threadIdx.x] = a[ME];
    py[threadIdx.x] = b[ME];
    __syncthreads();
    float x = px[threadIdx.x], y = py[threadIdx.x], fx = 0, fy = 0;
#pragma unroll UNROLL
    for (int j = 0; j < m; j++) {
        float dx = px[j] - x, dy = py[j] - y;
        float inverse = rsqrtf(dx * dx + dy * dy + 0.01f);
        float s = inverse * inverse * inverse;
        fx += dx * s;
        fy += dy * s;
    }
    c[ME] = fx + fy;
}
#endif

#ifdef K_black_scholes
KERNEL(black_scholes)
{
    for (int r = 0; r < m; r++) {
        int i = ME + r * ALL;
        float s = a[i] + 1, x = b[i] + 1;
        float d = (__logf(s / x) + 0.06f) * 2.5f;
        float q = 1 / (1 + 0.2316419f * fabsf(d));
        float tail = __expf(-0.5f * d * d) * q * (0.31938f + q * (-0.35656f + q * 1.78147f));
        c[i] = s * (1 - tail) - x * tail * __expf(-0.02f);
    }
}
#endif

#ifdef K_random_pi
KERNEL(random_pi)
{
    unsigned state = k[ME] * 747796405u + 1;
    int hits = 0;
    for (int r = 0; r < m; r++) {
        state = state * 1664525u + 1013904223u;
        float x = (state >> 8) * 5.9604645e-8f;
        state = state * 1664525u + 1013904223u;
        float y = (state >> 8) * 5.9604645e-8f;
        hits += x * x + y * y < 1;
    }
    c[ME] = hits;
}
#endif

#ifdef K_double_loop
KERNEL(double_loop)
{
    double x = a[ME];
    for (int r = 0; r < m; r++)
        x = x * 0.5 + 1.25;
    c[ME] = x;
}
#endif

#ifdef K_bits
KERNEL(bits)
{
    unsigned x = k[ME], sum = 0;
    for (int r = 0; r < m; r++) {
        sum += __popc(x) + __clz(x) + __ffs(x);
        x = __brev(x) ^ (x >> 3);
    }
    c[ME] = sum;
}
#endif

#ifdef K_shuffle_sum
KERNEL(shuffle_sum)
{
    float x = a[ME];
    for (int r = 0; r < m; r++)
#pragma unroll
        for (int d = 16; d; d >>= 1)
            x += 0.5f * __shfl_xor_sync(~0u, x, d);
    c[ME] = x;
}
#endif

#ifdef K_crc
KERNEL(crc)
{
    __shared__ unsigned table[256];
    unsigned t = threadIdx.x & 255;
    for (int i = 0; i < 8; i++)
        t = t & 1 ? (t >> 1) ^ 0xEDB88320u : t >> 1;
    table[threadIdx.x & 255] = t;
    __syncthreads();
    unsigned crc = ~0u;
    for (int r = 0; r < m; r++) {
        unsigned word = k[ME + r * ALL];
#pragma unroll
        for (int i = 0; i < 4; i++)
            crc = table[(crc ^ word >> 8 * i) & 255] ^ (crc >> 8);
    }
    c[ME] = crc;
}
#endif

#ifdef K_many_cases
#define CASE(w) case w: _Pragma("unroll") for (int i = 0; i < 96; i++) x = x * (0.5f + w * 0.03125f) + y; break;
KERNEL(many_cases)
{
    // Sixteen cases of 96 instructions, more than a sub-core's instruction cache holds; ROLLED: one for all.
    float x = a[ME], y = b[ME];
#pragma unroll 1
    for (int r = 0; r < m; r++) {
        int w = ((threadIdx.x >> 5) * 7 + r * 5) & 15;
#if defined(ROLLED)
        float f = 0.5f + w * 0.03125f;
#pragma unroll
        for (int i = 0; i < 96; i++)
            x = x * f + y;
#else
        switch (w) {
            CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7)
            CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15)
        }
#endif
    }
    c[ME] = x + y;
}
#endif
