// Rotary position embedding in place: turns the pair (d, d + half) of every head by position * base^(-d / half).
// One block for each token. The number of threads is a multiple of half.
extern "C" __global__ void rope(float *__restrict__ q, const int *__restrict__ positions, int heads, int half,
                                float base)
{
    const int token = blockIdx.x;
    const float position = (float)positions[token];
    float *row = q + (size_t)token * heads * half * 2;

    // d, and so the angle, is the same in all turns of the loop
    const int d = threadIdx.x % half;
    const float frequency = powf(base, -(float)d / half);
    float sine, cosine;
    sincosf(position * frequency, &sine, &cosine);

    for (int head = threadIdx.x / half; head < heads; head += blockDim.x / half) {
        const int first = head * half * 2 + d;
        const float a = row[first];
        const float b = row[first + half];
        row[first] = a * cosine - b * sine;
        row[first + half] = b * cosine + a * sine;
    }
}
