// Cosine similarities of a few queries to all candidates. One block of 128 threads for each candidate.
#define THREADS 128

extern "C" __global__ void cosine_knn(const float *__restrict__ candidates, const float *__restrict__ queries,
                                      float *__restrict__ similarities, int width, int query_count)
{
    __shared__ float dots[THREADS];
    __shared__ float squares[THREADS];
    __shared__ float query_squares[THREADS];
    const int t = threadIdx.x;
    const float *candidate = candidates + blockIdx.x * width;

    for (int q = 0; q < query_count; q++) {
        const float *query = queries + q * width;
        float dot = 0.0f, square = 0.0f, query_square = 0.0f;
        for (int i = t; i < width; i += THREADS) {
            const float a = candidate[i];
            const float b = query[i];
            dot += a * b;
            square += a * a;
            query_square += b * b;
        }
        dots[t] = dot;
        squares[t] = square;
        query_squares[t] = query_square;
        __syncthreads();

        for (int half = THREADS / 2; half > 0; half >>= 1) {
            if (t < half) {
                dots[t] += dots[t + half];
                squares[t] += squares[t + half];
                query_squares[t] += query_squares[t + half];
            }
            __syncthreads();
        }
        if (t == 0)
            similarities[q * gridDim.x + blockIdx.x] = dots[0] * rsqrtf(squares[0] * query_squares[0]);
        __syncthreads();
    }
}
