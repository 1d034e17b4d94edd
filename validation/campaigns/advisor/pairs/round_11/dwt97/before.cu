// One level of the 9/7 wavelet transform along the rows of an image. One block for each row. The low band comes out
// in the row's first half, the high band in its second. Borders are mirrored.
#define LENGTH 512
#define HALO 4

__device__ __forceinline__ float low_pass(const float *s)
{
    return 0.602949018f * s[0] + 0.266864118f * (s[-1] + s[1]) - 0.078223267f * (s[-2] + s[2])
        - 0.016864118f * (s[-3] + s[3]) + 0.026748757f * (s[-4] + s[4]);
}

__device__ __forceinline__ float high_pass(const float *s)
{
    return 1.115087052f * s[0] - 0.591271763f * (s[-1] + s[1]) - 0.057543526f * (s[-2] + s[2])
        + 0.091271763f * (s[-3] + s[3]);
}

extern "C" __global__ void dwt97(const float *__restrict__ image, float *__restrict__ bands)
{
    __shared__ float line[LENGTH + 2 * HALO];
    const float *row = image + (size_t)blockIdx.x * LENGTH;
    float *out = bands + (size_t)blockIdx.x * LENGTH;

    for (int i = threadIdx.x; i < LENGTH; i += blockDim.x)
        line[HALO + i] = row[i];
    if (threadIdx.x < HALO) {
        line[HALO - 1 - threadIdx.x] = row[1 + threadIdx.x];
        line[HALO + LENGTH + threadIdx.x] = row[LENGTH - 2 - threadIdx.x];
    }
    __syncthreads();

    for (int i = threadIdx.x; i < LENGTH; i += blockDim.x) {
        const float *sample = line + HALO + i;
        if (i % 2 == 0)
            out[i / 2] = low_pass(sample);
        else
            out[LENGTH / 2 + i / 2] = high_pass(sample);
    }
}
